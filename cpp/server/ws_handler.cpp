#include "cpp/server/ws_handler.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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
    if (handler_.is_draining_) return answer(draining_response());
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
  Identity identity_;
  KeyedSlots::Slot slot_;
};

WsHandler::WsHandler(net::Loop& loop, const config::ServerConfig& config, Database& database,
                     AgentRegistry& registry, ClientStreamService& streams, uint64_t links_per_token_max)
    : loop_(loop),
      config_(config),
      database_(database),
      registry_(registry),
      streams_(streams),
      policy_{config.allowed_hosts, config.allowed_origins},
      audit_(loop, database),
      token_links_(links_per_token_max) {
  recheck_timer_ = loop_.after(kRecheck_us, Delegate<void()>::bind<&WsHandler::on_recheck_due>(this));
}

WsHandler::~WsHandler() = default;

void WsHandler::on_request(http::Exchange& exchange) {
  const bool is_agent = exchange.request().path == kAgentPath;
  auto accepted = http::check_ws_request(exchange.request(), is_agent ? kAgentPath : kClientPath, policy_);
  if (!accepted) {
    log_refusal(log::Level::info, "upgrade_refused", {{"reason", http::ws_refusal_name(accepted.error())}});
    return exchange.respond(http::ws_refusal_response(accepted.error()));
  }
  if (is_draining_ || upgrades_.size() >= kUpgradesMax) {
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
  const TokenType type = upgrade.type();
  const tmesh_subprotocol subprotocol = upgrade.subprotocol();
  KeyedSlots::Slot slot = upgrade.take_slot();
  remove(upgrade);
  if (is_draining_) return;
  if (type == TokenType::agent) {
    has_new_agents_ = true;
    agents_.push_back(std::make_unique<AgentLink>(loop_, loop_, registry_, config_, std::move(identity),
                                                  static_cast<AgentLinkOwner&>(*this)));
    agents_.back()->place = std::prev(agents_.end());
    if (!agents_.back()->start(std::move(upgraded.transport), upgraded.early)) agents_.pop_back();
    return;
  }
  clients_.push_back(std::make_unique<ClientLink>(loop_, config_, std::move(identity), next_link_id_++,
                                                  subprotocol, static_cast<ClientLinkOwner&>(*this)));
  clients_.back()->place = std::prev(clients_.end());
  clients_.back()->slot = std::move(slot);
  if (!clients_.back()->start(std::move(upgraded.transport), upgraded.early)) clients_.pop_back();
}

void WsHandler::log_refusal(log::Level level, std::string_view event, log::Fields fields) {
  if (!log::enabled(level) || !refusal_log_.admits(loop_.now_us())) return;
  if (const uint64_t dropped = refusal_log_.take_dropped(); dropped > 0) {
    log::warn("refusals_not_logged", {{"count", dropped}});
  }
  log::write(level, event, fields);
}

void WsHandler::on_recheck_due() {
  recheck_timer_ = loop_.after(kRecheck_us, Delegate<void()>::bind<&WsHandler::on_recheck_due>(this));
  recheck_agents();
}

void WsHandler::recheck_agents() {
  const int64_t now_us = loop_.wall_us();
  refuse_agents([now_us](const Identity& identity) {
    return identity.expires_at_us && *identity.expires_at_us <= now_us;
  });
  if (agents_.empty() || recheck_.active()) return;
  std::vector<std::string> token_ids;
  for (const auto& link : agents_) token_ids.push_back(link->identity().token_id);
  std::ranges::sort(token_ids);
  const auto repeats = std::ranges::unique(token_ids);
  token_ids.erase(repeats.begin(), repeats.end());
  // A new link's token may have been revoked between its look-up and now.
  if (has_new_agents_) known_revision_.reset();
  auto asked = database_.recheck(std::move(token_ids), known_revision_,
                                 Delegate<void(Result<TokenRecheck>)>::bind<&WsHandler::on_rechecked>(this));
  if (!asked) return;  // the next round asks again
  recheck_ = std::move(*asked);
  has_new_agents_ = false;
}

void WsHandler::on_rechecked(Result<TokenRecheck> answer) {
  recheck_.release();
  known_revision_ = answer ? answer->revision : std::nullopt;
  if (!answer) return;  // nothing is known; opens fail by themselves then
  refuse_agents([&answer](const Identity& identity) {
    return std::ranges::find(answer->refused, identity.token_id) != answer->refused.end();
  });
}

template <class Predicate>
void WsHandler::refuse_agents(Predicate is_refused) {
  std::vector<AgentLink*> refused;
  for (const auto& link : agents_) {
    if (is_refused(link->identity())) refused.push_back(link.get());
  }
  for (AgentLink* link : refused) link->on_token_refused();
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

void WsHandler::on_agent_link_down(AgentLink& link, tmesh_status why) {
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
