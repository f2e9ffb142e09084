#include "cpp/client/app.hpp"

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/instance_id.hpp"
#include "cpp/base/log.hpp"
#include "cpp/client/entry_set.hpp"
#include "cpp/client/live_config.hpp"
#include "cpp/client/remote_validator.hpp"
#include "cpp/client/session_pools.hpp"
#include "cpp/client/status.hpp"
#include "cpp/client/stdio_entry.hpp"
#include "cpp/net/dialer.hpp"
#include "cpp/net/process.hpp"
#include "cpp/net/signal.hpp"
#include "cpp/net/tls_context.hpp"
#include "cpp/reload/reloader.hpp"
#include "cpp/session/status_socket.hpp"

namespace tmesh::client {
namespace {

constexpr uint64_t kDrainPoll_us = 50'000;
// Of `proxy`, which has no link yet when it asks for its stream: a dial of the server and its
// handshakes.
constexpr uint64_t kFirstLinkWait_us = 20'000'000;

using Reloader = reload::Reloader<config::ClientConfig>;

reload::MadeTls make_tls(const config::ClientConfig& config) {
  reload::TlsContexts made;
  auto of_auth_urls = RemoteValidator::make_tls(config);
  if (!of_auth_urls) return std::unexpected(std::move(of_auth_urls.error()));
  made.targets = std::move(*of_auth_urls);
  if (!config.server.endpoint.is_tls) return made;
  auto tls = net::TlsContext::client({"", "", config.server.ca_file, false});
  if (!tls) return std::unexpected("client.tls.ca_file: " + tls.error());
  made.links.emplace(std::move(*tls));
  return made;
}

class App {
 public:
  // is_stdio: the one tunnel goes to standard input and output instead of a listener.
  explicit App(const config::ClientConfig& config, bool is_stdio = false)
      : config_(config), is_stdio_(is_stdio) {}

  // What SIGHUP and changed files lead to; both outlive it.
  void reload_from(const config::Loaded<config::ClientConfig>& started, const config::Source& source) {
    started_ = &started;
    source_ = &source;
  }

  int run() {
    if (!prepare()) return exit_code_;
    links_->start();
    loop_->run();
    status_.reset();
    reloader_.reset();
    // Entries first: their flows hold streams of the links.
    entries_.reset();
    stdio_.reset();
    validator_.reset();
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
    auto tls = make_tls(config_);
    if (!tls) {
      std::fprintf(stderr, "%s\n", tls.error().c_str());
      return false;
    }
    tls_ = std::move(tls->links);
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
    validator_.emplace(*loop_, *loop_, *dialer_);
    validator_->configure(config_, std::move(tls->targets));
    links_.emplace(*loop_, *loop_, *dialer_, *identity_);
    if (!(is_stdio_ ? add_stdio(config_.tunnels.front()) : add_entries())) return false;
    if (source_ != nullptr) {
      auto reloader = Reloader::create(*loop_, {config::kClient, &config::load_client, &make_tls}, *started_,
                                       *source_, Reloader::Apply::bind<&App::on_fresh>(this));
      if (!reloader) return complain("cannot watch the configuration", reloader.error().text);
      reloader_ = std::move(*reloader);
    }
    // A program of one stream has nothing to tell, and would take the service's place.
    if (!is_stdio_) {
      status_.emplace(*loop_, "client", config_.status_socket,
                      session::StatusSocket::Fill::bind<&App::on_status>(this));
    }
    exit_code_ = kExitOk;
    return true;
  }

  void on_status(session::StatusReport& report) {
    report.is_stopping = is_stopping_;
    links_->report(report);
    for (const auto& one : entries_->running()) report.add(report_of(one->tunnel, *one->entry));
  }

  bool add_entries() {
    entries_.emplace(*loop_, Entry::Broken::bind<&App::on_entry_broken>(this),
                     Delegate<void()>::bind<&App::use_agents>(this));
    const auto failures = entries_->apply(config_.tunnels, deps());
    for (const auto& one : failures) {
      std::fprintf(stderr, "tunnel \"%s\": cannot listen on %s: %s\n", one.tunnel.c_str(), one.place.c_str(),
                   one.text);
    }
    if (!failures.empty()) return false;
    use_agents();
    for (const auto& one : entries_->running()) {
      std::printf("%s entry \"%s\" listens on %s\n",
                  std::string(config::protocol_name(one->tunnel.protocol)).c_str(), one->tunnel.name.c_str(),
                  listen_text(one->tunnel, *one->entry).c_str());
    }
    std::fflush(stdout);
    return true;
  }

  // Entries that go may still open streams: the next request of a kept-alive connection.
  void use_agents() {
    if (!is_stopping_) links_->use_agents(entries_->agents());
  }

  bool add_stdio(const config::Tunnel& tunnel) {
    EntryDeps with_patience = deps();
    with_patience.link_wait_us = kFirstLinkWait_us;
    links_->use_agents({tunnel.agent_id});
    const StdioEntry::Events events{Delegate<void(const char*)>::bind<&App::on_stdio_failed>(this),
                                    Entry::Broken::bind<&App::on_stdio_over>(this)};
    stdio_ = std::make_unique<StdioEntry>(with_patience, tunnel, events);
    const auto opened = stdio_->listen();
    return opened.has_value() || complain("proxy", opened.error().text);
  }

  void on_stdio_failed(const char* why) {
    complain("proxy", why);
    exit_code_ = kExitFailure;
  }
  void on_stdio_over(Entry&) { stop(); }

  EntryDeps deps() {
    EntryDeps out{*loop_, *links_};
    out.validator = &*validator_;
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
    if (is_stdio_) {  // SIGHUP is what ssh ends its ProxyCommand with
      exit_code_ = kExitFailure;
      return loop_->stop();
    }
    if (number == SIGHUP) {
      if (reloader_ != nullptr) reloader_->request();
      return;
    }
    if (is_stopping_) return loop_->stop();  // the second signal does not wait
    stop();
  }

  // Everything here may change while streams run; what they were opened with stays theirs.
  void on_fresh(reload::Fresh<config::ClientConfig>& fresh) {
    if (is_stopping_) return;
    take_live(config_, std::move(fresh.loaded.config));
    log::configure(config_.log.level, config_.log.format);
    if (tls_ && fresh.tls.links) *tls_ = std::move(*fresh.tls.links);
    validator_->configure(config_, std::move(fresh.tls.targets));
    links_->use_settings(config_.connections);
    for (const auto& one : entries_->apply(config_.tunnels, deps())) {
      log::error("entry_failed", {{"entry", one.tunnel}, {"listen", one.place}, {"reason", one.text}});
    }
    use_agents();
    log::info("config_reloaded", {{"entries", entries_->running().size()}});
  }

  // Listeners first, then the streams that run get their time, then the links (J4).
  void stop() {
    if (is_stopping_) return;
    is_stopping_ = true;
    log::info("stopping");
    if (entries_) entries_->stop_listening();
    if (stdio_ != nullptr) stdio_->stop_listening();
    links_->drain();
    drain_until_us_ = loop_->now_us() + config_.shutdown_timeout_us;
    on_drain();
  }

  void on_drain() {
    const std::size_t locals = entries_ ? entries_->locals_count() : stdio_->locals_count();
    if (locals == 0 || loop_->now_us() >= drain_until_us_) return loop_->stop();
    drain_timer_ = loop_->after(kDrainPoll_us, Delegate<void()>::bind<&App::on_drain>(this));
  }

  config::ClientConfig config_;
  const bool is_stdio_;
  int exit_code_ = kExitFailure;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<net::Dialer> dialer_;
  std::optional<net::TlsContext> tls_;
  std::unique_ptr<net::Signals> signals_;
  std::optional<ClientIdentity> identity_;
  std::optional<RemoteValidator> validator_;
  std::optional<SessionPools> links_;
  std::optional<EntrySet> entries_;
  std::unique_ptr<StdioEntry> stdio_;  // instead of them
  const config::Loaded<config::ClientConfig>* started_ = nullptr;
  const config::Source* source_ = nullptr;
  std::unique_ptr<Reloader> reloader_;
  std::optional<session::StatusSocket> status_;
  Ticket drain_timer_;
  bool is_stopping_ = false;
  uint64_t drain_until_us_ = 0;
};

}  // namespace

std::string config_fault(const config::ClientConfig& config) {
  const auto tls = make_tls(config);
  return tls ? "" : tls.error();
}

int run(const config::Loaded<config::ClientConfig>& started, const config::Source& source) {
  App app(started.config);
  app.reload_from(started, source);
  return app.run();
}

int run_stdio(const config::ClientConfig& config) {
  TMESH_ASSERT(config.tunnels.size() == 1);
  config::ClientConfig one_link = config;
  one_link.connections.min_count = one_link.connections.max_count = 1;
  return App(one_link, true).run();
}

}  // namespace tmesh::client
