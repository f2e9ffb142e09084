// The server's side of one agent's WebSocket.
//
// Waits one second for the AGENT_HELLO (WIRE E), checks it against the token, registers
// the link, answers with the AGENT_METADATA_ACK before any OPEN can leave (LESSONS Z4).
// Later metadata updates are acknowledged or refused without ending the session.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "core/proto/metadata.h"
#include "cpp/config/server.hpp"
#include "cpp/server/agent_registry.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/server/link_health.hpp"
#include "cpp/server/live_revocation.hpp"
#include "cpp/session/session.hpp"

namespace tmesh::server {

class AgentLink;

class AgentLinkOwner {
 public:
  // It registered, before its acknowledgement leaves; it sent a report that is newer than
  // its last one.
  virtual void on_agent_link_up(AgentLink&, const tmesh_agent_metadata&) {}
  virtual void on_agent_metadata(AgentLink&, const tmesh_agent_metadata&) {}
  // The link is over, and why: destroy it.
  virtual void on_agent_link_down(AgentLink& link, tmesh_status why) = 0;

 protected:
  ~AgentLinkOwner() = default;
};

class AgentLink final : public RegisteredLink, public Revocable, private session::SessionHandler {
 public:
  static constexpr uint64_t kHelloDeadline_us = 1'000'000;
  // Deployed agents PING every 30 s, and a link silent for 25 s is pinged by its session.
  static constexpr uint64_t kSilent_us = 35'000'000;
  // A pong takes a round trip, and on a slow link what is queued before it (64 KiB).
  static constexpr uint64_t kProbeAnswer_us = 3'000'000;

  AgentLink(net::Loop& loop, Timers& timers, AgentRegistry& registry, const config::ServerConfig& config,
            Identity identity, AgentLinkOwner& owner);
  ~AgentLink() override;

  // Takes the upgraded transport over. NO_MEMORY.
  Result<void> start(net::Transport transport, std::span<const uint8_t> early);
  // Agents of ours keep their streams after GOAWAY; deployed ones end the session at
  // once, so they get it last (WIRE D).
  void begin_drain();
  // Ends the link with its streams, because somebody wants so. May destroy this.
  void end();

  bool takes_opens() const override {
    return is_registered_ && session_ != nullptr && session_->takes_opens();
  }
  std::size_t streams_count() const override { return session_->live_streams_count(); }
  uint64_t last_heard_us() const override { return session_->last_read_us(); }
  uint32_t health_percent() const override { return health_.percent(timers_.now_us()); }
  void note_open(bool is_good) override { health_.note(is_good, timers_.now_us()); }
  bool is_suspect() const override;
  void probe() override;
  uint32_t capabilities() const override { return capabilities_; }
  tmesh_mux* mux() override { return session_->mux(); }
  void on_replaced() override;

  const Identity& identity() const { return identity_; }
  bool is_registered() const { return is_registered_; }
  const std::string& instance_id() const { return instance_id_; }
  uint64_t rtt_us() const override { return session_->rtt_us(); }

  std::list<std::unique_ptr<AgentLink>>::iterator place;  // in the owner's list

 private:
  // Its token may no longer be used: ends the link with its streams. May destroy this.
  void on_revoked() override;
  void on_open(session::Session& session, tmesh_stream* stream, const tmesh_open_stream& open) override;
  tmesh_status on_control(session::Session& session, const tmesh_frame_header& header,
                          std::span<const uint8_t> payload) override;
  void on_goaway(session::Session& session) override;
  void on_down(session::Session& session, tmesh_status why) override;

  tmesh_status on_hello(const tmesh_agent_metadata& hello);
  void on_update(const tmesh_agent_metadata& update);
  void send_ack(const tmesh_agent_metadata* about, bool is_idempotent, const tmesh_metadata_error* error);
  void on_hello_deadline();

  net::Loop& loop_;
  Timers& timers_;
  AgentRegistry& registry_;
  const config::ServerConfig& config_;
  const Identity identity_;
  AgentLinkOwner& owner_;
  std::unique_ptr<session::Session> session_;
  Ticket hello_deadline_;
  LinkHealth health_;
  uint32_t capabilities_ = 0;
  std::string node_id_;
  std::string instance_id_;
  uint64_t revision_ = 0;
  uint64_t revision_hash_ = 0;
  uint64_t payload_hash_ = 0;
  uint64_t probed_at_us_ = 0;  // 0 = never
  bool is_hello_refused_ = false;
  bool is_registered_ = false;
  bool is_ours_ = false;  // an agent that keeps its streams after GOAWAY
};

}  // namespace tmesh::server
