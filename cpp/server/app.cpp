#include "cpp/server/app.hpp"

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cpp/base/exit_code.hpp"
#include "cpp/base/log.hpp"
#include "cpp/http/router.hpp"
#include "cpp/http/server.hpp"
#include "cpp/net/process.hpp"
#include "cpp/net/signal.hpp"
#include "cpp/net/tls_context.hpp"
#include "cpp/server/health.hpp"
#include "cpp/server/ws_handler.hpp"
#include "cpp/storage/migrator.hpp"
#include "cpp/storage/sqlite_db.hpp"

namespace tmesh::server {
namespace {

constexpr uint64_t kDrainPoll_us = 50'000;
// Opens that crossed the GOAWAY to their client still reach an agent: a long round trip.
constexpr uint64_t kAgentsLater_us = 500'000;

class App {
 public:
  explicit App(const config::ServerConfig& config) : config_(config) {}

  int run() {
    if (!prepare()) {
      shut();
      return exit_code_;
    }
    loop_->run();
    shut();
    return exit_code_;
  }

 private:
  bool prepare() {
    const auto missing = config::unavailable_features(config_);
    for (const std::string& feature : missing) {
      std::fprintf(stderr, "%s is not available in this version\n", feature.c_str());
    }
    if (!missing.empty()) {
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
    if (!open_database()) return false;
    if (config_.tls.is_enabled) {
      auto tls =
          net::TlsContext::server({config_.tls.cert_file, config_.tls.key_file, "", config_.tls.needs_tls13});
      if (!tls) return complain("TLS", tls.error().c_str());
      tls_.emplace(std::move(*tls));
    }
    auto signals = net::Signals::open(*loop_, Delegate<void(int)>::bind<&App::on_signal>(this));
    if (!signals) return complain("cannot watch signals", signals.error().text);
    signals_ = std::move(*signals);
    registry_.emplace(static_cast<std::size_t>(config_.connections_per_agent_max));
    streams_.emplace(*loop_, *database_, *registry_, config_.stream);
    ws_.emplace(*loop_, config_, *database_, *registry_, *streams_);
    ready_.emplace(*loop_, *database_);
    router_.add("/ws/agent", {}, *ws_);
    router_.add("/ws/client", {}, *ws_);
    router_.add("/health/live", {http::Method::get}, live_);
    router_.add("/health/ready", {http::Method::get}, *ready_);
    if (!listen()) return false;
    exit_code_ = kExitOk;
    return true;
  }

  bool open_database() {
    auto db = storage::open_sqlite({config_.storage.sqlite_path, config_.storage.is_auto_init});
    if (!db) return complain("database", db.error().text.c_str());
    const auto schema = storage::migrate(**db, config_.storage.is_auto_init);
    if (!schema) return complain("database", schema.error().text.c_str());
    if (schema->version != schema->version_before) {
      log::info("database_migrated", {{"from", schema->version_before}, {"to", schema->version}});
    }
    // What prepares the schema may wait for a writer, what serves may not.
    db->reset();
    db = storage::open_sqlite({config_.storage.sqlite_path, false, Database::kBusyTimeout_ms});
    if (!db) return complain("database", db.error().text.c_str());
    auto database = Database::create(*loop_, std::move(*db));
    if (!database) return complain("cannot start the database thread", database.error().text);
    database_ = std::move(*database);
    return true;
  }

  bool listen() {
    http::ServerOptions options;
    options.read_header_timeout_us = config_.http.read_header_timeout_us;
    options.body_timeout_us = config_.http.body_timeout_us;
    options.idle_timeout_us = config_.http.idle_timeout_us;
    options.limits.max_header_bytes = static_cast<std::size_t>(config_.http.header_bytes_max);
    options.max_connections = static_cast<std::size_t>(config_.http.connections_max);
    options.uncapped_networks = config_.trusted_proxies;
    // A reverse proxy on this machine brings everybody's connections from one address.
    for (const char* loopback : {"127.0.0.0/8", "::1/128"}) {
      if (const auto cidr = parse_cidr(loopback)) options.uncapped_networks.push_back(*cidr);
    }
    options.upgraded_count = Delegate<std::size_t()>::bind<&App::links_count>(this);
    options.on_broken = Delegate<void(tmesh_status)>::bind<&App::on_listener_broken>(this);
    http_ = std::make_unique<http::Server>(*loop_, router_, std::move(options), tls_ ? &*tls_ : nullptr);
    const auto& address = config_.http_addr;
    const auto listening = http_->listen(address.host, address.port);
    const std::string where = format_host_port(address.host, address.port);
    if (!listening) return complain(("cannot listen on " + where).c_str(), listening.error().text);
    log::info("listening", {{"port", http_->port()}, {"tls", tls_.has_value()}});
    std::printf("tunnelmesh-server listens on %s\n", format_host_port(address.host, http_->port()).c_str());
    std::fflush(stdout);
    return true;
  }

  // Top down: nothing may call into what is gone.
  void shut() {
    drain_timer_.cancel();
    http_.reset();
    ready_.reset();
    streams_.reset();
    ws_.reset();
    registry_.reset();
    database_.reset();
    signals_.reset();
    tls_.reset();
    if (loop_ != nullptr && !loop_->close()) log::error("handles_leaked");
  }

  bool complain(const char* what, const char* why) {
    std::fprintf(stderr, "%s: %s\n", what, why);
    return false;
  }

  std::size_t links_count() { return ws_ ? ws_->links_count() : 0; }

  void on_listener_broken(tmesh_status why) {
    log::error("listener_broken", {{"reason", tmesh_code_name(why.code)}});
    exit_code_ = kExitFailure;
    stop();
  }

  void on_signal(int number) {
    if (number == SIGHUP) {
      if (!tls_) return;
      const auto done = tls_->reload();
      if (done) {
        log::info("certificates_reloaded");
      } else {
        log::warn("reload_failed", {{"reason", done.error()}});
      }
      return;
    }
    if (is_stopping_) return loop_->stop();  // the second signal does not wait
    stop();
  }

  void stop() {
    if (is_stopping_) return;
    is_stopping_ = true;
    log::info("stopping", {{"links", ws_->links_count()}, {"streams", streams_->relays_count()}});
    http_->drain();
    ready_->begin_drain();
    ws_->begin_drain();
    drain_since_us_ = loop_->now_us();
    on_drain();
  }

  void on_drain() {
    const uint64_t past_us = loop_->now_us() - drain_since_us_;
    const bool is_idle = streams_->relays_count() == 0 && ws_->client_streams_count() == 0;
    if (is_idle || past_us >= config_.shutdown_timeout_us) return loop_->stop();
    if (past_us >= kAgentsLater_us && streams_->flows_count() == 0) ws_->drain_agents();
    drain_timer_ = loop_->after(kDrainPoll_us, Delegate<void()>::bind<&App::on_drain>(this));
  }

  const config::ServerConfig& config_;
  int exit_code_ = kExitFailure;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<Database> database_;
  std::optional<net::TlsContext> tls_;
  std::unique_ptr<net::Signals> signals_;
  std::optional<AgentRegistry> registry_;
  std::optional<ClientStreamService> streams_;
  std::optional<WsHandler> ws_;
  LiveHandler live_;
  std::optional<ReadyHandler> ready_;
  http::Router router_;
  std::unique_ptr<http::Server> http_;
  Ticket drain_timer_;
  bool is_stopping_ = false;
  uint64_t drain_since_us_ = 0;
};

}  // namespace

int run(const config::ServerConfig& config) {
  return App(config).run();
}

}  // namespace tmesh::server
