#include "cpp/server/ws_handler.hpp"

#include <string_view>
#include <utility>

#include "cpp/base/log.hpp"
#include "cpp/server/link_config.hpp"

namespace tmesh::server {
namespace {

constexpr std::string_view kAgentPath = "/ws/agent";
constexpr std::string_view kClientPath = "/ws/client";

http::Response draining_response() {
  return http::Response::plain(503, "the server takes no new links now");
}

}  // namespace

// One request between its check and its link.
class WsHandler::Upgrade {
 public:
  Upgrade(WsHandler& handler, http::WsAccepted accepted, TokenType type)
      : handler_(handler), accepted_(std::move(accepted)), type_(type) {
    uint32_t offered = 0;
    for (const std::string& name : accepted_.protocols) {
      offered = tmesh_subprotocol_offered(offered, name.data(), name.size());
    }
    // Sub-protocols are for clients; an agent's abilities come in its hello.
    if (type_ == TokenType::client) {
      subprotocol_ = tmesh_subprotocol_choose(offered, enabled_capabilities(handler_.config_.capabilities));
    }
  }

  void start(http::Exchange& exchange) {
    generation_ = handler_.watch_.generation();
    deferred_ = exchange.defer(Delegate<void()>::bind<&Upgrade::on_abort>(this));
    auto lookup = handler_.database_.authenticate(
        accepted_.token, type_, Delegate<void(Result<Identity>)>::bind<&Upgrade::on_identity>(this));
    accepted_.token.wipe();
    if (!lookup) return answer(http::Response::plain(503, "too many requests wait for the database"));
    lookup_ = std::move(*lookup);
  }

  TokenType type() const { return type_; }
  tmesh_subprotocol subprotocol() const { return subprotocol_; }
  Identity take_identity() { return std::move(identity_); }
  // Of rights, before the look-up began.
  uint64_t generation() const { return generation_; }
  KeyedSlots::Slot take_slot() { return std::move(slot_); }

  std::list<std::unique_ptr<Upgrade>>::iterator place;

 private:
  void on_identity(Result<Identity> identity) {
    lookup_.release();
    if (!identity) {
      const bool is_refusal = identity.error().code == TMESH_E_POLICY;
      handler_.log_refusal(log::Level::warn, "link_refused",
                           {{"role", token_type_name(type_)}, {"reason", identity.error().text}});
      if (!is_refusal) return answer(http::Response::plain(503, "the token cannot be checked now"));
      http::Response refused = http::Response::plain(401, "the token is not accepted");
      refused.headers.add("WWW-Authenticate", "Bearer");
      return answer(refused);
    }
    handler_.database_.note_use(*identity);
    if (handler_.is_draining_ || !handler_.is_serving_) return answer(draining_response());
    if (!claim_slot(identity->token_id)) return answer(http::Response::plain(503, "too many links"));
    identity_ = std::move(*identity);
    const char* name = tmesh_subprotocol_name(subprotocol_);
    if (!deferred_.upgrade(http::ws_switching_fields(accepted_, name),
                           Delegate<void(http::Upgraded)>::bind<&Upgrade::on_upgraded>(this))) {
      handler_.remove(*this);
    }
  }

  // An agent's links are counted by the registry, once it has said which agent it is.
  bool claim_slot(const std::string& token_id) {
    if (type_ != TokenType::client) return true;
    auto slot = handler_.token_links_.claim(token_id);
    if (slot) {
      slot_ = std::move(*slot);
      return true;
    }
    handler_.capacity_refused_count_++;
    handler_.log_refusal(log::Level::warn, "link_refused",
                         {{"role", token_type_name(type_)}, {"reason", "capacity"}});
    return false;
  }

  void on_upgraded(http::Upgraded upgraded) { handler_.adopt(*this, std::move(upgraded)); }
  void on_abort() { handler_.remove(*this); }
  void answer(const http::Response& response) {
    deferred_.respond(response);
    handler_.remove(*this);
  }

  WsHandler& handler_;
  http::WsAccepted accepted_;
  const TokenType type_;
  tmesh_subprotocol subprotocol_ = TMESH_SUBPROTOCOL_NONE;
  http::Deferred deferred_;
  Ticket lookup_;
  uint64_t generation_ = 0;
  Identity identity_;
  KeyedSlots::Slot slot_;
};

WsHandler::WsHandler(net::Loop& loop, const config::ServerConfig& config, Database& database,
                     RevisionWatch& watch, AgentRegistry& registry, ClientStreamService& streams,
                     uint64_t links_per_token_max)
    : loop_(loop),
      config_(config),
      database_(database),
      watch_(watch),
      registry_(registry),
      streams_(streams),
      policy_{config.allowed_hosts, config.allowed_origins},
      audit_(loop, database),
      token_links_(links_per_token_max),
      token_checks_(database),
      live_links_(loop, token_checks_, watch.generation(), {.event = "links_rechecked"}) {
  watch_.add_listener(live_links_);
}

WsHandler::~WsHandler() {
  watch_.remove_listener(live_links_);
}

void WsHandler::on_request(http::Exchange& exchange) {
  const bool is_agent = exchange.request().path == kAgentPath;
  auto accepted = http::check_ws_request(exchange.request(), is_agent ? kAgentPath : kClientPath, policy_);
  if (!accepted) {
    log_refusal(log::Level::info, "upgrade_refused", {{"reason", http::ws_refusal_name(accepted.error())}});
    return exchange.respond(http::ws_refusal_response(accepted.error()));
  }
  if (is_draining_ || !is_serving_ || upgrades_.size() >= kUpgradesMax) {
    return exchange.respond(draining_response());
  }
  upgrades_.push_back(std::make_unique<Upgrade>(*this, std::move(*accepted),
                                                is_agent ? TokenType::agent : TokenType::client));
  Upgrade& upgrade = *upgrades_.back();
  upgrade.place = std::prev(upgrades_.end());
  upgrade.start(exchange);
}

void WsHandler::remove(Upgrade& upgrade) {
  upgrades_.erase(upgrade.place);
}

void WsHandler::adopt(Upgrade& upgrade, http::Upgraded upgraded) {
  Identity identity = upgrade.take_identity();
  Grant grant;
  grant.token_id = identity.token_id;
  grant.expires_at_us = identity.expires_at_us;
  grant.generation = upgrade.generation();
  const TokenType type = upgrade.type();
  const tmesh_subprotocol subprotocol = upgrade.subprotocol();
  KeyedSlots::Slot slot = upgrade.take_slot();
  remove(upgrade);
  if (is_draining_ || !is_serving_) return;
  if (type == TokenType::agent) {
    agents_.push_back(std::make_unique<AgentLink>(loop_, loop_, registry_, config_, std::move(identity),
                                                  static_cast<AgentLinkOwner&>(*this)));
    agents_.back()->place = std::prev(agents_.end());
    live_links_.watch(*agents_.back(), grant);
    if (!agents_.back()->start(std::move(upgraded.transport), upgraded.early)) agents_.pop_back();
    return;
  }
  clients_.push_back(std::make_unique<ClientLink>(loop_, config_, std::move(identity), next_link_id_++,
                                                  subprotocol, static_cast<ClientLinkOwner&>(*this)));
  clients_.back()->place = std::prev(clients_.end());
  clients_.back()->slot = std::move(slot);
  if (config_.authorization_cache.revoke_open_streams) live_links_.watch(*clients_.back(), grant);
  if (!clients_.back()->start(std::move(upgraded.transport), upgraded.early)) clients_.pop_back();
}

void WsHandler::log_refusal(log::Level level, std::string_view event, log::Fields fields) {
  if (!log::enabled(level) || !refusal_log_.admits(loop_.now_us())) return;
  if (const uint64_t dropped = refusal_log_.take_dropped(); dropped > 0) {
    log::warn("refusals_not_logged", {{"count", dropped}});
  }
  log::write(level, event, fields);
}

void WsHandler::set_serving(bool is_serving) {
  is_serving_ = is_serving;
  leave_timer_.cancel();
  if (is_serving) return;
  for (auto& link : clients_) link->begin_drain();
  for (auto& link : agents_) link->begin_drain();
  leave_timer_ = loop_.after(kLeave_us, Delegate<void()>::bind<&WsHandler::on_leave_due>(this));
}

void WsHandler::on_leave_due() {
  leave_timer_.release();
  // Ending one link may take it out of its list.
  std::vector<AgentLink*> agents;
  for (const auto& link : agents_) agents.push_back(link.get());
  for (AgentLink* link : agents) link->end();
  std::vector<ClientLink*> clients;
  for (const auto& link : clients_) clients.push_back(link.get());
  for (ClientLink* link : clients) link->end();
}

std::vector<LiveAgentLink> WsHandler::agent_links(std::string_view agent_id) {
  std::vector<LiveAgentLink> links;
  const int64_t wall_us = loop_.wall_us();
  const uint64_t now_us = loop_.now_us();
  for (const auto& link : agents_) {
    if (!link->is_registered() || link->agent_id != agent_id) continue;
    LiveAgentLink& live = links.emplace_back();
    live.agent_id = link->agent_id;
    live.instance_id = link->instance_id();
    live.connection_id = link->connection_id;
    live.epoch = link->epoch;
    live.streams_count = link->streams_count();
    live.rtt_us = link->rtt_us();
    live.last_heard_at_us = wall_us - static_cast<int64_t>(now_us - link->last_heard_us());
    live.health_score = link->health_score();
  }
  return links;
}

bool WsHandler::close_agent_link(std::string_view agent_id, std::string_view connection_id, int64_t epoch) {
  for (const auto& link : agents_) {
    if (!link->is_registered() || link->agent_id != agent_id || link->connection_id != connection_id)
      continue;
    if (link->epoch != epoch) return false;
    log::info("agent_link_closed_by_admin", {{"agent", agent_id}});
    link->end();
    return true;
  }
  return false;
}

void WsHandler::begin_drain() {
  is_draining_ = true;
  for (auto& link : clients_) link->begin_drain();
}

void WsHandler::drain_agents() {
  for (auto& link : agents_) link->begin_drain();
}

std::size_t WsHandler::client_streams_count() const {
  std::size_t count = 0;
  for (const auto& link : clients_) count += link->streams_count();
  return count;
}

void WsHandler::on_client_open(ClientLink& link, tmesh_stream* stream, const tmesh_open_stream& open) {
  streams_.open(link.identity().token_id, link.id(), stream, open);
}

void WsHandler::on_agent_link_up(AgentLink& link, const tmesh_agent_metadata& hello) {
  if (presence_ != nullptr) presence_->add(link, make_agent_report(hello));
}

void WsHandler::on_agent_metadata(AgentLink& link, const tmesh_agent_metadata& update) {
  if (presence_ != nullptr) presence_->report(link, make_agent_report(update));
}

void WsHandler::on_agent_link_down(AgentLink& link, tmesh_status why) {
  if (presence_ != nullptr) presence_->remove(link);
  note_end(link.identity(), "agent_link", link.identity().agent_id, why);
  agents_.erase(link.place);
}

void WsHandler::on_client_link_down(ClientLink& link, tmesh_status why) {
  note_end(link.identity(), "client_link", link.connection_id(), why);
  clients_.erase(link.place);
}

// A storm of window violations is the one end of a link that somebody meant (requirement
// E5): the mux ends a link with this code for nothing else.
void WsHandler::note_end(const Identity& identity, const char* link_type, std::string_view link_name,
                         tmesh_status why) {
  if (why.code != TMESH_E_WINDOW_EXCEEDED) return;
  const bool is_noted = audit_.note({"link.window_violations", identity.owner_user_id, link_type, link_name});
  if (is_noted) log::warn("link_window_violations", {{"link_type", link_type}, {"link", link_name}});
}

}  // namespace tmesh::server
