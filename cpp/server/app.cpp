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
#include "cpp/reload/reloader.hpp"
#include "cpp/server/api_door.hpp"
#include "cpp/server/caching_authorizer.hpp"
#include "cpp/server/database_settings.hpp"
#include "cpp/server/health.hpp"
#include "cpp/server/housekeeper.hpp"
#include "cpp/server/live_config.hpp"
#include "cpp/server/live_revocation.hpp"
#include "cpp/server/node_identity.hpp"
#include "cpp/server/presence_writer.hpp"
#include "cpp/server/revision_watch.hpp"
#include "cpp/server/ws_handler.hpp"
#include "cpp/storage/migrator.hpp"
#include "cpp/storage/mysql_dsn.hpp"
#include "cpp/storage/open.hpp"

namespace tmesh::server {
namespace {

constexpr uint64_t kDrainPoll_us = 50'000;
// Opens that crossed the GOAWAY to their client still reach an agent: a long round trip.
constexpr uint64_t kAgentsLater_us = 500'000;
// For the last word of presence; what it does not say by then, expires.
constexpr uint64_t kLastWord_us = 1'000'000;

constexpr char kSecretBox[] = "the key for token secrets";

using Reloader = reload::Reloader<config::ServerConfig>;

reload::MadeTls make_tls(const config::ServerConfig& config) {
  if (!config.tls.is_enabled) return reload::TlsContexts{};
  auto tls = net::TlsContext::server({config.tls.cert_file, config.tls.key_file, "", config.tls.needs_tls13});
  if (!tls) return std::unexpected("tls.cert_file, tls.key_file: " + tls.error());
  return reload::TlsContexts{std::move(*tls), std::nullopt};
}

class App {
 public:
  // Both outlive it; SIGHUP and changed files load from the source.
  App(const config::Loaded<config::ServerConfig>& started, const config::Source& source)
      : config_(started.config), started_(started), source_(source) {}

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
    auto secret_box = SecretBox::if_given(config_.token_encryption_key, config_.token_encryption_key_id);
    if (!secret_box) {
      exit_code_ = kExitConfig;
      return complain(kSecretBox, secret_box.error().text);
    }
    exit_code_ = kExitFailure;
    net::ignore_sigpipe();
    net::raise_open_file_limit();
    auto loop = net::Loop::create(config_.limits.memory_budget_bytes);
    if (!loop) return complain("cannot create the event loop", loop.error().text);
    loop_ = std::move(*loop);
    if (!open_database()) return false;
    auto tls = make_tls(config_);
    if (!tls) {
      std::fprintf(stderr, "%s\n", tls.error().c_str());
      return false;
    }
    tls_ = std::move(tls->links);
    auto signals = net::Signals::open(*loop_, Delegate<void(int)>::bind<&App::on_signal>(this));
    if (!signals) return complain("cannot watch signals", signals.error().text);
    signals_ = std::move(*signals);
    watch_.emplace(*loop_, *database_, watch_settings());
    authorizer_.emplace(
        *loop_, *database_, *watch_,
        CachingStreamAuthorizer::settings(config_.authorization_cache, config_.storage.driver));
    if (config_.authorization_cache.revoke_open_streams) {
      revocation_.emplace(*loop_, *authorizer_, watch_->generation(), LiveRevocation::Settings{});
      watch_->add_listener(*revocation_);
    }
    registry_.emplace(static_cast<std::size_t>(config_.connections_per_agent_max));
    streams_.emplace(*loop_, *authorizer_, *registry_, config_.stream, revocation_ ? &*revocation_ : nullptr);
    ws_.emplace(*loop_, config_, *database_, *watch_, *registry_, *streams_);
    presence_writer_.emplace(*database_);
    presence_.emplace(*loop_, *presence_writer_, node_,
                      Delegate<void(NodeStanding)>::bind<&App::on_node_standing>(this));
    ws_->set_presence(&*presence_);
    presence_->start();
    auto api =
        ApiDoor::create({*loop_, *database_, *watch_, *ws_}, config_, node_.id, std::move(*secret_box));
    if (!api) return complain("cannot start the thread for passwords", api.error().text);
    api_ = std::move(*api);
    housekeeper_.emplace(*loop_, *database_, config_.audit_retention_days);
    ready_.emplace(*loop_, *database_, config_.authorization_cache.is_enabled ? &*watch_ : nullptr);
    router_.add("/ws/agent", {}, *ws_);
    router_.add("/ws/client", {}, *ws_);
    router_.add_prefix("/api/", api_->handler());
    router_.add("/health/live", {http::Method::get}, live_);
    router_.add("/health/ready", {http::Method::get}, *ready_);
    watch_->start();
    if (!listen()) return false;
    auto reloader = Reloader::create(*loop_, {config::kServer, &config::load_server, &make_tls}, started_,
                                     source_, Reloader::Apply::bind<&App::on_fresh>(this));
    if (!reloader) return complain("cannot watch the configuration", reloader.error().text);
    reloader_ = std::move(*reloader);
    exit_code_ = kExitOk;
    return true;
  }

  bool open_database() {
    const storage::DatabaseSettings settings = database_settings(config_.storage);
    // What the DSN asks for does not count (LESSONS R31), which must not pass in silence.
    if (settings.driver == storage::Driver::mysql && !settings.is_mysql_tls) {
      const auto dsn = storage::parse_mysql_dsn(settings.mysql_dsn.reveal());
      if (dsn && dsn->asks_for_tls) log::warn("mysql_tls_off", {{"key", "storage.mysql.tls"}});
    }
    auto db = storage::open_database(settings, {.create = config_.storage.is_auto_init});
    if (!db) return complain("database", db.error().text.c_str());
    const auto schema = storage::migrate(**db, config_.storage.is_auto_init);
    if (!schema) return complain("database", schema.error().text.c_str());
    if (schema->version != schema->version_before) {
      log::info("database_migrated", {{"from", schema->version_before}, {"to", schema->version}});
    }
    if (!announce(**db)) return false;
    db->reset();
    auto connections = Database::connect(settings);
    if (!connections) return complain("database", connections.error().text.c_str());
    auto database = Database::create(*loop_, std::move(*connections), node_.id);
    if (!database) return complain("cannot start the database threads", database.error().text);
    database_ = std::move(*database);
    return true;
  }

  bool announce(storage::Db& db) {
    const auto id = node_id({config_.node_id, config_.node_id_path}, config_.http_addr);
    if (!id) return complain(("node.id_path: " + config_.node_id_path).c_str(), id.error().text);
    auto node = announce_node(db, *id, node_address(config_.http_addr), storage::system_clock()());
    if (!node) return complain(("server node " + *id).c_str(), node.error().text);
    node_ = std::move(*node);
    log::info("node", {{"node", node_.id}, {"epoch", node_.epoch}});
    return true;
  }

  // The other life of this id may be a mistake, but links of both work.
  void on_node_standing(NodeStanding standing) {
    ws_->set_serving(standing == NodeStanding::serving || standing == NodeStanding::replaced);
  }

  RevisionWatch::Settings watch_settings() const {
    RevisionWatch::Settings settings;
    settings.poll_interval_us = config_.authorization_cache.revision_poll_interval_us;
    // Changes by the command line count within a second; MySQL has nothing cheaper than a poll.
    if (database_->driver() == storage::Driver::sqlite) settings.foreign_commit_interval_us = 500'000;
    return settings;
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
    reloader_.reset();
    http_.reset();
    api_.reset();
    ready_.reset();
    housekeeper_.reset();
    streams_.reset();
    if (ws_) ws_->set_presence(nullptr);
    presence_.reset();
    presence_writer_.reset();
    ws_.reset();
    registry_.reset();
    if (revocation_) watch_->remove_listener(*revocation_);
    revocation_.reset();
    authorizer_.reset();
    watch_.reset();
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
    if (number == SIGHUP) return reloader_->request();
    if (is_stopping_) return loop_->stop();  // the second signal does not wait
    stop();
  }

  // Connections that exist keep their certificate, streams that run their place.
  void on_fresh(reload::Fresh<config::ServerConfig>& fresh) {
    if (is_stopping_) return;
    take_live(config_, std::move(fresh.loaded.config));
    log::configure(config_.log.level, config_.log.format);
    streams_->use(config_.stream);
    if (tls_ && fresh.tls.links) *tls_ = std::move(*fresh.tls.links);
    log::info("config_reloaded", {{"tls", tls_.has_value()}});
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
    if (is_idle || past_us >= config_.shutdown_timeout_us) return leave();
    if (past_us >= kAgentsLater_us && streams_->flows_count() == 0) ws_->drain_agents();
    drain_timer_ = loop_->after(kDrainPoll_us, Delegate<void()>::bind<&App::on_drain>(this));
  }

  void leave() {
    presence_->leave(Delegate<void()>::bind<&App::end>(this));
    drain_timer_ = loop_->after(kLastWord_us, Delegate<void()>::bind<&App::end>(this));
  }
  void end() { loop_->stop(); }

  config::ServerConfig config_;
  const config::Loaded<config::ServerConfig>& started_;
  const config::Source& source_;
  int exit_code_ = kExitFailure;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<Database> database_;
  std::optional<net::TlsContext> tls_;
  std::unique_ptr<net::Signals> signals_;
  std::optional<RevisionWatch> watch_;
  std::optional<CachingStreamAuthorizer> authorizer_;
  std::optional<LiveRevocation> revocation_;  // unless streams are to outlive their rights
  std::optional<AgentRegistry> registry_;
  std::optional<ClientStreamService> streams_;
  std::optional<WsHandler> ws_;
  ThisNode node_;
  std::optional<DatabasePresence> presence_writer_;
  std::optional<AgentPresence> presence_;
  std::unique_ptr<ApiDoor> api_;
  std::optional<Housekeeper> housekeeper_;
  LiveHandler live_;
  std::optional<ReadyHandler> ready_;
  http::Router router_;
  std::unique_ptr<http::Server> http_;
  std::unique_ptr<Reloader> reloader_;
  Ticket drain_timer_;
  bool is_stopping_ = false;
  uint64_t drain_since_us_ = 0;
};

}  // namespace

std::string config_fault(const config::ServerConfig& config) {
  const auto box = SecretBox::if_given(config.token_encryption_key, config.token_encryption_key_id);
  if (!box) return std::string(kSecretBox) + ": " + box.error().text;
  const auto tls = make_tls(config);
  return tls ? "" : tls.error();
}

int run(const config::Loaded<config::ServerConfig>& started, const config::Source& source) {
  return App(started, source).run();
}

}  // namespace tmesh::server
