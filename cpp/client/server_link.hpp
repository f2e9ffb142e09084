// The client's link to the server for one agent: hello, and streams to open.
//
// A role of session::Slot, which keeps it connected. Local listeners know nothing of it
// (requirement J4).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cpp/client/stream_opener.hpp"
#include "cpp/config/client.hpp"
#include "cpp/session/slot.hpp"

namespace tmesh::client {

// What every link of a client shares. Borrowed; outlives the links.
struct ClientIdentity {
  const config::ClientConfig& config;
  session::ServerEndpoint endpoint;
  std::string instance_id;
  int64_t started_at_us = 0;  // wall clock
  session::SessionLife life = session::kDialerLife;
};

class ServerLink final : private session::SlotRole {
 public:
  // number: 1-based place within the agent's group.
  ServerLink(net::Loop& loop, Dialer& dialer, const ClientIdentity& identity, std::string agent_id,
             uint32_t number);

  void start() { slot_.start(); }
  void drain() { slot_.drain(); }

  // CLOSED when there is no ready session; otherwise as tmesh_mux_open.
  Result<OpenedStream> open(const OpenRequest& request, bool allow_strict);
  // See StreamOpener. The link outlives the Ticket.
  Ticket await_link(Delegate<void()> done);
  void open_timed_out(const tmesh_stream& stream) { slot_.doubt(stream.mux); }

 private:
  tmesh_mux_config mux_config(tmesh_subprotocol subprotocol) override;
  void on_session(session::Session& session, tmesh_subprotocol subprotocol) override;
  void on_session_over(session::Session&) override {}
  void on_attempt_failed() override { wake_waiting(); }
  session::SessionLife life() override { return identity_.life; }
  void on_open(session::Session& session, tmesh_stream* stream, const tmesh_open_stream& open) override;
  tmesh_status on_control(session::Session& session, const tmesh_frame_header& header,
                          std::span<const uint8_t> payload) override;

  void wake_waiting();
  void send_hello(session::Session& session);
  void on_hello_ack(session::Session& session, std::span<const uint8_t> payload);

  net::Loop& loop_;
  const ClientIdentity& identity_;
  const std::string agent_id_;
  uint64_t hello_revision_ = 0;
  std::map<uint64_t, Delegate<void()>> waiting_;  // for a link; one per local connection
  uint64_t next_waiting_ = 0;
  session::Slot slot_;
};

}  // namespace tmesh::client
