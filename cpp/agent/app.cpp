#include "cpp/agent/app.hpp"

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include "cpp/agent/agent_pool.hpp"
#include "cpp/agent/live_config.hpp"
#include "cpp/agent/status.hpp"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/instance_id.hpp"
#include "cpp/base/log.hpp"
#include "cpp/net/dialer.hpp"
#include "cpp/net/process.hpp"
#include "cpp/net/signal.hpp"
#include "cpp/net/tls_context.hpp"
#include "cpp/reload/reloader.hpp"
#include "cpp/session/status_socket.hpp"

namespace tmesh::agent {
namespace {

constexpr uint64_t kDrainPoll_us = 50'000;

using Reloader = reload::Reloader<config::AgentConfig>;

reload::MadeTls make_tls(const config::AgentConfig& config) {
  reload::TlsContexts made;
  if (config.server.endpoint.is_tls) {
    auto tls = net::TlsContext::client({"", "", config.server.ca_file, false});
    if (!tls) return std::unexpected("agent.tls.ca_file: " + tls.error());
    made.links.emplace(std::move(*tls));
  }
  // Of https targets. Without a CA bundle on this machine everything else still works.
  const std::string& ca_file = config.streams.tls_ca_file;
  if (made.links && ca_file == config.server.ca_file) return made;
  auto tls = net::TlsContext::client({"", "", ca_file, false});
  if (!tls && !ca_file.empty()) return std::unexpected("agent.streams.tls_ca_file: " + tls.error());
  if (tls) {
    made.targets.emplace(std::move(*tls));
  } else {
    log::warn("https_targets_unavailable", {{"reason", tls.error()}});
  }
  return made;
}

class App {
 public:
  // Both outlive it; SIGHUP and changed files load from the source.
  App(const config::Loaded<config::AgentConfig>& started, const config::Source& source)
      : config_(started.config),
        policy_(config_.policy.allow, config_.policy.deny),
        shared_(config_),
        started_(started),
        source_(source) {}

  int run() {
    if (prepare()) {
      pool_->start();
      loop_->run();
    }
    drain_timer_.cancel();
    status_.reset();
    reloader_.reset();
    pool_.reset();
    signals_.reset();
    dialer_.reset();
    target_tls_.reset();
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
    const bool asks_system = config_.streams.resolver == config::AgentStreamSettings::Resolver::system;
    auto dialer = asks_system ? net::Dialer::create_system(*loop_) : net::Dialer::create(*loop_);
    if (!dialer) return complain("cannot create the resolver", dialer.error().text);
    dialer_ = std::move(*dialer);
    auto tls = make_tls(config_);
    if (!tls) {
      std::fprintf(stderr, "%s\n", tls.error().c_str());
      return false;
    }
    tls_ = std::move(tls->links);
    use_targets_tls(std::move(tls->targets));
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
    pool_.emplace(*loop_, *loop_, *dialer_, *identity_, shared_, policy_);
    log::info("agent_start", {{"agent", config_.id}, {"slots", pool_->slots().size()}});
    status_.emplace(*loop_, "agent", config_.status_socket,
                    session::StatusSocket::Fill::bind<&App::on_status>(this));
    auto reloader = Reloader::create(*loop_, {config::kAgent, &config::load_agent, &make_tls}, started_,
                                     source_, Reloader::Apply::bind<&App::on_fresh>(this));
    if (!reloader) return complain("cannot watch the configuration", reloader.error().text);
    reloader_ = std::move(*reloader);
    exit_code_ = kExitOk;
    return true;
  }

  void on_status(session::StatusReport& report) {
    report.agent = config_.id;
    report.is_stopping = is_stopping_;
    report_links(*pool_, report);
    report.counters.push_back({"datagrams_dropped", shared_.datagrams_dropped_count});
  }

  // None: the links' own, if that trusts the same.
  void use_targets_tls(std::optional<net::TlsContext> tls) {
    target_tls_ = std::move(tls);
    const bool is_shared = tls_ && config_.streams.tls_ca_file == config_.server.ca_file;
    shared_.target_tls = target_tls_ ? &*target_tls_ : is_shared ? &*tls_ : nullptr;
  }

  // What was opened before keeps what it was opened with.
  void on_fresh(reload::Fresh<config::AgentConfig>& fresh) {
    if (is_stopping_) return;
    take_live(config_, std::move(fresh.loaded.config));
    log::configure(config_.log.level, config_.log.format);
    policy_ = Policy(config_.policy.allow, config_.policy.deny);
    shared_.ceiling.set_max(config_.streams.active_max);
    pool_->use_settings(config_.connections);
    std::optional<net::TlsContext> targets = std::move(fresh.tls.targets);
    if (tls_ && fresh.tls.links) {
      *tls_ = std::move(*fresh.tls.links);
    } else if (!targets) {
      // The links that this was made for, too, are wss:// only after a restart.
      targets = std::move(fresh.tls.links);
    }
    use_targets_tls(std::move(targets));
    log::info("config_reloaded");
  }

  bool complain(const char* what, const char* why) {
    std::fprintf(stderr, "%s: %s\n", what, why);
    return false;
  }

  void on_signal(int number) {
    if (number == SIGHUP) return reloader_->request();
    if (is_stopping_) return loop_->stop();  // the second signal does not wait
    is_stopping_ = true;
    log::info("stopping");
    pool_->drain();
    drain_until_us_ = loop_->now_us() + config_.shutdown_timeout_us;
    on_drain();
  }

  void on_drain() {
    if (pool_->streams_count() == 0 || loop_->now_us() >= drain_until_us_) return loop_->stop();
    drain_timer_ = loop_->after(kDrainPoll_us, Delegate<void()>::bind<&App::on_drain>(this));
  }

  config::AgentConfig config_;
  Policy policy_;
  AgentShared shared_;
  const config::Loaded<config::AgentConfig>& started_;
  const config::Source& source_;
  int exit_code_ = kExitFailure;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<net::Dialer> dialer_;
  std::optional<net::TlsContext> tls_;
  std::optional<net::TlsContext> target_tls_;  // if it is not the same
  std::unique_ptr<net::Signals> signals_;
  std::optional<AgentIdentity> identity_;
  std::optional<AgentPool> pool_;
  std::optional<session::StatusSocket> status_;
  std::unique_ptr<Reloader> reloader_;
  Ticket drain_timer_;
  bool is_stopping_ = false;
  uint64_t drain_until_us_ = 0;
};

}  // namespace

std::string config_fault(const config::AgentConfig& config) {
  const auto tls = make_tls(config);
  return tls ? "" : tls.error();
}

int run(const config::Loaded<config::AgentConfig>& started, const config::Source& source) {
  return App(started, source).run();
}

}  // namespace tmesh::agent
