#include "cpp/client/app.hpp"

#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpp/base/exit_code.hpp"
#include "cpp/base/instance_id.hpp"
#include "cpp/base/log.hpp"
#include "cpp/client/entry.hpp"
#include "cpp/client/server_link.hpp"
#include "cpp/net/dialer.hpp"
#include "cpp/net/process.hpp"
#include "cpp/net/signal.hpp"
#include "cpp/net/tls_context.hpp"

namespace tmesh::client {
namespace {

constexpr uint64_t kDrainPoll_us = 50'000;

// All links of the program, one per agent for now; entries open streams through it.
class AgentLinks final : public StreamOpener {
 public:
  AgentLinks(net::Loop& loop, Dialer& dialer, const ClientIdentity& identity)
      : loop_(loop), dialer_(dialer), identity_(identity) {}

  void add(const std::string& agent_id) {
    auto& link = links_[agent_id];
    if (link == nullptr) link = std::make_unique<ServerLink>(loop_, dialer_, identity_, agent_id, 1);
  }
  void start() {
    for (auto& [id, link] : links_) link->start();
  }
  void drain() {
    for (auto& [id, link] : links_) link->drain();
  }
  void clear() { links_.clear(); }

  Result<OpenedStream> open(const OpenRequest& request, bool allow_strict, const tmesh_mux* not_on) override {
    const auto it = links_.find(request.agent_id);
    if (it == links_.end() || not_on != nullptr) return fail(TMESH_E_CLOSED, "no link for this agent");
    return it->second->open(request, allow_strict);
  }
  Ticket await_silence(std::string_view, const tmesh_stream&, Delegate<void()>) override { return {}; }
  Ticket await_link(std::string_view agent_id, Delegate<void()> done) override {
    const auto it = links_.find(agent_id);
    return it == links_.end() ? Ticket() : it->second->await_link(done);
  }
  void open_timed_out(std::string_view agent_id, const tmesh_stream& stream) override {
    const auto it = links_.find(agent_id);
    if (it != links_.end()) it->second->open_timed_out(stream);
  }

 private:
  net::Loop& loop_;
  Dialer& dialer_;
  const ClientIdentity& identity_;
  std::map<std::string, std::unique_ptr<ServerLink>, std::less<>> links_;
};

class App {
 public:
  explicit App(const config::ClientConfig& config) : config_(config) {}

  int run() {
    if (!prepare()) return exit_code_;
    links_->start();
    loop_->run();
    // Entries first: their flows hold streams of the links.
    entries_.clear();
    links_.reset();
    signals_.reset();
    drain_timer_.cancel();
    dialer_.reset();
    tls_.reset();
    if (!loop_->close()) log::error("handles_leaked");
    return exit_code_;
  }

 private:
  bool prepare() {
    for (const auto& tunnel : config_.tunnels) {
      const char* reason = config::unavailable_reason(tunnel);
      // Its host and port are empty: listening on those would open every address.
      if (!tunnel.socket_path.empty()) reason = "a Unix socket is not available in this version";
      if (reason != nullptr) {
        std::fprintf(stderr, "tunnel \"%s\": %s\n", tunnel.name.c_str(), reason);
        exit_code_ = kExitConfig;
        return false;
      }
    }
    if (config_.tunnels.empty()) {
      std::fprintf(stderr, "client.tunnels is empty: there is nothing to serve\n");
      exit_code_ = kExitConfig;
      return false;
    }
    exit_code_ = kExitFailure;
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

    identity_.emplace(ClientIdentity{config_, {}, config_.instance_id, loop_->wall_us()});
    identity_->endpoint = {config_.server.endpoint, &config_.token, tls_ ? &*tls_ : nullptr};
    if (identity_->instance_id.empty()) {
      const InstanceId id = load_or_create_instance_id(config_.instance_id_path, "client-");
      if (!id.is_kept) log::info("instance_id_not_kept");
      identity_->instance_id = id.value;
    }
    links_.emplace(*loop_, *dialer_, *identity_);
    for (const auto& tunnel : config_.tunnels) {
      if (!add_entry(tunnel)) return false;
    }
    exit_code_ = kExitOk;
    return true;
  }

  bool add_entry(const config::Tunnel& tunnel) {
    links_->add(tunnel.agent_id);
    entries_.push_back(make_entry(deps(), tunnel, Entry::Broken::bind<&App::on_entry_broken>(this)));
    const auto listening = entries_.back()->listen();
    if (!listening) {
      std::fprintf(stderr, "tunnel \"%s\": cannot listen on %s: %s\n", tunnel.name.c_str(),
                   format_host_port(tunnel.listen.host, tunnel.listen.port).c_str(), listening.error().text);
      return false;
    }
    log::info("entry_open", {{"entry", tunnel.name},
                             {"protocol", config::protocol_name(tunnel.protocol)},
                             {"port", entries_.back()->port()}});
    std::printf("%s entry \"%s\" listens on %s\n",
                std::string(config::protocol_name(tunnel.protocol)).c_str(), tunnel.name.c_str(),
                format_host_port(tunnel.listen.host, entries_.back()->port()).c_str());
    std::fflush(stdout);
    return true;
  }

  EntryDeps deps() {
    EntryDeps out{*loop_, *links_};
    out.handshake_timeout_us = config_.handshake_timeout_us;
    out.open_timeout_us = config_.open_timeout_us;
    out.udp_idle_timeout_us = config_.udp_idle_timeout_us;
    out.socks5 = config_.socks5;
    out.http_proxy = config_.http_proxy;
    return out;
  }

  bool complain(const char* what, const char* why) {
    std::fprintf(stderr, "%s: %s\n", what, why);
    return false;
  }

  void on_entry_broken(Entry&) {
    exit_code_ = kExitFailure;
    stop();
  }

  void on_signal(int number) {
    if (number == SIGHUP) {
      if (tls_) {
        if (const auto done = tls_->reload(); !done) log::warn("reload_failed", {{"reason", done.error()}});
      }
      return;
    }
    if (is_stopping_) return loop_->stop();  // the second signal does not wait
    stop();
  }

  // Listeners first, then the streams that run get their time, then the links (J4).
  void stop() {
    if (is_stopping_) return;
    is_stopping_ = true;
    log::info("stopping");
    for (auto& entry : entries_) entry->stop_listening();
    links_->drain();
    drain_until_us_ = loop_->now_us() + config_.shutdown_timeout_us;
    on_drain();
  }

  void on_drain() {
    std::size_t locals = 0;
    for (const auto& entry : entries_) locals += entry->locals_count();
    if (locals == 0 || loop_->now_us() >= drain_until_us_) return loop_->stop();
    drain_timer_ = loop_->after(kDrainPoll_us, Delegate<void()>::bind<&App::on_drain>(this));
  }

  const config::ClientConfig& config_;
  int exit_code_ = kExitFailure;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<net::Dialer> dialer_;
  std::optional<net::TlsContext> tls_;
  std::unique_ptr<net::Signals> signals_;
  std::optional<ClientIdentity> identity_;
  std::optional<AgentLinks> links_;
  std::vector<std::unique_ptr<Entry>> entries_;
  Ticket drain_timer_;
  bool is_stopping_ = false;
  uint64_t drain_until_us_ = 0;
};

}  // namespace

int run(const config::ClientConfig& config) {
  return App(config).run();
}

}  // namespace tmesh::client
