// The server's side of one client's WebSocket: its identity, its hello, its opens.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "core/proto/capability.h"
#include "cpp/config/server.hpp"
#include "cpp/server/active_slots.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/server/live_revocation.hpp"
#include "cpp/session/session.hpp"

namespace tmesh::server {

class ClientLink;

class ClientLinkOwner {
 public:
  // A valid OPEN_STREAM: attach to the stream before returning.
  virtual void on_client_open(ClientLink& link, tmesh_stream* stream, const tmesh_open_stream& open) = 0;
  // The link is over, and why: destroy it.
  virtual void on_client_link_down(ClientLink& link, tmesh_status why) = 0;

 protected:
  ~ClientLinkOwner() = default;
};

class ClientLink final : public Revocable, private session::SessionHandler {
 public:
  ClientLink(net::Loop& loop, const config::ServerConfig& config, Identity identity, uint64_t id,
             tmesh_subprotocol subprotocol, ClientLinkOwner& owner);
  ~ClientLink() override;

  // Takes the upgraded transport over. NO_MEMORY.
  Result<void> start(net::Transport transport, std::span<const uint8_t> early);
  void begin_drain() { session_->goaway(); }
  // Ends the link with its streams. May destroy this.
  void end() { session_->fail(tmesh_err_session(TMESH_E_CANCELLED)); }

  const Identity& identity() const { return identity_; }
  uint64_t id() const { return id_; }
  // What the client was told this link is called.
  const std::string& connection_id() const { return connection_id_; }
  std::size_t streams_count() { return session_->live_streams_count(); }
  const tmesh_mux* mux() const { return session_->mux(); }

  std::list<std::unique_ptr<ClientLink>>::iterator place;  // in the owner's list
  KeyedSlots::Slot slot;                                   // of its token

 private:
  // Its token may no longer be used: ends the link with its streams. May destroy this.
  void on_revoked() override;
  void on_open(session::Session& session, tmesh_stream* stream, const tmesh_open_stream& open) override;
  tmesh_status on_control(session::Session& session, const tmesh_frame_header& header,
                          std::span<const uint8_t> payload) override;
  void on_goaway(session::Session& session) override;
  void on_down(session::Session& session, tmesh_status why) override;
  // Whether the frame at hand may be looked at: false for a first one that is no hello.
  bool expect_hello(bool is_hello);
  void use_extensions(bool peer_is_ours);
  // error_code null: accepted.
  void send_ack(uint64_t revision, const char* error_name, const char* error_code);

  net::Loop& loop_;
  const config::ServerConfig& config_;
  const Identity identity_;
  const uint64_t id_;
  const tmesh_subprotocol subprotocol_;
  ClientLinkOwner& owner_;
  std::unique_ptr<session::Session> session_;
  const std::string connection_id_;
  std::string instance_id_;    // of the client, from its hello
  uint32_t capabilities_ = 0;  // what both ends named
  bool is_first_frame_ = true;
  bool has_hello_ = false;
};

}  // namespace tmesh::server
