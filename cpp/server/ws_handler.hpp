// The doors /ws/agent and /ws/client: request checks, the token, the upgrade, and the
// links that come of it.
//
// Owns upgrades in flight and all links of this server. A request is judged without I/O
// (cpp/http/ws_request), then its token is looked up on the database's thread, then the
// 101 is written; nothing of that blocks another link.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string_view>

#include "cpp/base/log.hpp"
#include "cpp/config/server.hpp"
#include "cpp/http/exchange.hpp"
#include "cpp/http/ws_request.hpp"
#include "cpp/server/active_slots.hpp"
#include "cpp/server/admin_api/api.hpp"
#include "cpp/server/agent_link.hpp"
#include "cpp/server/agent_presence.hpp"
#include "cpp/server/audit_trail.hpp"
#include "cpp/server/client_link.hpp"
#include "cpp/server/client_stream_service.hpp"
#include "cpp/server/database.hpp"
#include "cpp/server/live_revocation.hpp"
#include "cpp/server/log_gate.hpp"
#include "cpp/server/revision_watch.hpp"

namespace tmesh::server {

class WsHandler final : public http::Handler,
                        public ApiLive,
                        private AgentLinkOwner,
                        private ClientLinkOwner {
 public:
  WsHandler(net::Loop& loop, const config::ServerConfig& config, Database& database, RevisionWatch& watch,
            AgentRegistry& registry, ClientStreamService& streams,
            uint64_t links_per_token_max = kLinksPerTokenMax);
  ~WsHandler();

  void on_request(http::Exchange& exchange) override;
  // Is told about agents' links from here on; nullptr: nobody is.
  void set_presence(AgentPresence* presence) { presence_ = presence; }
  // Off: no new links, and those that are here are asked to leave, and ended kLeave_us later.
  // (An administrator disabled or deleted this server.)
  void set_serving(bool is_serving);
  static constexpr uint64_t kLeave_us = 10'000'000;

  std::vector<LiveAgentLink> agent_links(std::string_view agent_id) override;
  bool close_agent_link(std::string_view agent_id, std::string_view connection_id, int64_t epoch) override;

  // No new links; clients are told to open nothing more here.
  void begin_drain();
  // Agents are told too, as far as they can take it: from here on every open fails.
  void drain_agents();
  std::size_t links_count() const { return agents_.size() + clients_.size(); }
  std::size_t client_streams_count() const;
  // Requests that wait for the answer about their token.
  std::size_t upgrades_count() const { return upgrades_.size(); }
  // Links refused for their token's ceiling: error_class capacity (LESSONS R26).
  uint64_t capacity_refused_count() const { return capacity_refused_count_; }
  const AuditTrail& audit() const { return audit_; }

  // Ends links whose token may not be used any more: an agent must get no further stream, and
  // nothing else asks about it while its link stays. (A client's token is asked about at each
  // open; its link ends too unless streams are to outlive their rights.)
  const LiveRevocation& live_links() const { return live_links_; }

  // A fleet that reconnects at once is larger than this, but then it is better to answer 503.
  static constexpr std::size_t kUpgradesMax = 4096;
  // Links of one client token at a time; beyond it 503. Two of the largest pools that a
  // client can be configured for (512), or a thousand people who share a token: more is a
  // client that leaks links, and they must not take the server's open files from others.
  static constexpr uint64_t kLinksPerTokenMax = 1024;

 private:
  class Upgrade;
  friend class Upgrade;

  void on_agent_link_up(AgentLink& link, const tmesh_agent_metadata& hello) override;
  void on_agent_metadata(AgentLink& link, const tmesh_agent_metadata& update) override;
  void on_agent_link_down(AgentLink& link, tmesh_status why) override;
  void on_client_open(ClientLink& link, tmesh_stream* stream, const tmesh_open_stream& open) override;
  void on_client_link_down(ClientLink& link, tmesh_status why) override;
  void note_end(const Identity& identity, const char* link_type, std::string_view link_name,
                tmesh_status why);
  void on_leave_due();
  void adopt(Upgrade& upgrade, http::Upgraded upgraded);
  void remove(Upgrade& upgrade);
  // Refusals cost their sender nothing, so they are not all written down.
  void log_refusal(log::Level level, std::string_view event, log::Fields fields);

  // A link rests on its token alone.
  class TokenChecks final : public StreamAuthorizer {
   public:
    explicit TokenChecks(Database& database) : database_(database) {}
    Result<Ticket> authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) override {
      return database_.recheck(std::move(request.token_id), done);
    }

   private:
    Database& database_;
  };

  net::Loop& loop_;
  const config::ServerConfig& config_;
  Database& database_;
  RevisionWatch& watch_;
  AgentRegistry& registry_;
  ClientStreamService& streams_;
  const http::WsPolicy policy_;
  AgentPresence* presence_ = nullptr;
  bool is_draining_ = false;
  bool is_serving_ = true;
  Ticket leave_timer_;
  uint64_t next_link_id_ = 1;
  LogGate refusal_log_;
  AuditTrail audit_;
  uint64_t capacity_refused_count_ = 0;
  KeyedSlots token_links_;
  TokenChecks token_checks_;
  LiveRevocation live_links_;  // outlives the links
  std::list<std::unique_ptr<Upgrade>> upgrades_;
  std::list<std::unique_ptr<AgentLink>> agents_;
  std::list<std::unique_ptr<ClientLink>> clients_;
};

}  // namespace tmesh::server
