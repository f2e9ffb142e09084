#include "cpp/agent/app.hpp"

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "cpp/agent/agent_slot.hpp"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/instance_id.hpp"
#include "cpp/base/log.hpp"
#include "cpp/net/dialer.hpp"
#include "cpp/net/process.hpp"
#include "cpp/net/signal.hpp"
#include "cpp/net/tls_context.hpp"

namespace tmesh::agent {
namespace {

constexpr uint64_t kDrainPoll_us = 50'000;

class App {
 public:
  explicit App(const config::AgentConfig& config)
      : config_(config), policy_(config.policy.allow, config.policy.deny), shared_(config) {}

  int run() {
    if (prepare()) {
      for (auto& slot : slots_) slot->start();
      loop_->run();
    }
    drain_timer_.cancel();
    slots_.clear();
    signals_.reset();
    dialer_.reset();
    tls_.reset();
    if (loop_ != nullptr && !loop_->close()) log::error("handles_leaked");
    return exit_code_;
  }

 private:
  bool prepare() {
    net::ignore_sigpipe();
    net::raise_open_file_limit();
    auto loop = net::Loop::create(config_.limits.memory_budget_bytes);
    if (!loop) return complain("cannot create the event loop", loop.error().text);
    loop_ = std::move(*loop);
    loop_->set_stalled_close_us(config_.limits.stalled_close_timeout_us);
    auto dialer = net::Dialer::create(*loop_);
    if (!dialer) return complain("cannot create the resolver", dialer.error().text);
    dialer_ = std::move(*dialer);
    if (config_.server.endpoint.is_tls) {
      auto tls = net::TlsContext::client({"", "", config_.server.ca_file, false});
      if (!tls) return complain("TLS", tls.error().c_str());
      tls_.emplace(std::move(*tls));
    }
    auto signals = net::Signals::open(*loop_, Delegate<void(int)>::bind<&App::on_signal>(this));
    if (!signals) return complain("cannot watch signals", signals.error().text);
    signals_ = std::move(*signals);

    identity_.emplace(AgentIdentity{config_, {}, config_.instance_id});
    identity_->endpoint = {config_.server.endpoint, &config_.token, tls_ ? &*tls_ : nullptr};
    if (identity_->instance_id.empty()) {
      const InstanceId id = load_or_create_instance_id(config_.instance_id_path, "agent-");
      if (!id.is_kept) log::info("instance_id_not_kept");
      identity_->instance_id = id.value;
    }
    for (uint32_t number = 1; number <= config_.connections.min_count; number++) {
      slots_.push_back(
          std::make_unique<AgentSlot>(*loop_, *loop_, *dialer_, *identity_, shared_, policy_, number));
    }
    log::info("agent_start", {{"agent", config_.id}, {"slots", slots_.size()}});
    exit_code_ = kExitOk;
    return true;
  }

  bool complain(const char* what, const char* why) {
    std::fprintf(stderr, "%s: %s\n", what, why);
    return false;
  }

  void on_signal(int number) {
    if (number == SIGHUP) {
      if (tls_) {
        if (const auto done = tls_->reload(); !done) log::warn("reload_failed", {{"reason", done.error()}});
      }
      return;
    }
    if (is_stopping_) return loop_->stop();  // the second signal does not wait
    is_stopping_ = true;
    log::info("stopping");
    for (auto& slot : slots_) slot->drain();
    drain_until_us_ = loop_->now_us() + config_.shutdown_timeout_us;
    on_drain();
  }

  void on_drain() {
    std::size_t streams = 0;
    for (const auto& slot : slots_) streams += slot->streams_count();
    if (streams == 0 || loop_->now_us() >= drain_until_us_) return loop_->stop();
    drain_timer_ = loop_->after(kDrainPoll_us, Delegate<void()>::bind<&App::on_drain>(this));
  }

  const config::AgentConfig& config_;
  const Policy policy_;
  AgentShared shared_;
  int exit_code_ = kExitFailure;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<net::Dialer> dialer_;
  std::optional<net::TlsContext> tls_;
  std::unique_ptr<net::Signals> signals_;
  std::optional<AgentIdentity> identity_;
  std::vector<std::unique_ptr<AgentSlot>> slots_;
  Ticket drain_timer_;
  bool is_stopping_ = false;
  uint64_t drain_until_us_ = 0;
};

}  // namespace

int run(const config::AgentConfig& config) {
  return App(config).run();
}

}  // namespace tmesh::agent
