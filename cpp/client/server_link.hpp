// One link of a client's pool: hello, and streams to open.
//
// A role of session::Slot, which keeps it connected. Local listeners know nothing of it
// (requirement J4).
#pragma once

#include <cstdint>
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
  // number: 1-based place within the agent's pool. on_change: a session is there, or an attempt
  // to connect one failed.
  ServerLink(net::Loop& loop, Dialer& dialer, const ClientIdentity& identity, std::string agent_id,
             uint32_t number, Delegate<void()> on_change = {});

  void start() { slot_.start(); }
  // No new streams; those that run go on.
  void drain();
  // Takes drain() back.
  void resume();
  bool is_draining() const { return is_draining_; }

  // CLOSED when there is no ready session; otherwise as tmesh_mux_open.
  Result<OpenedStream> open(const OpenRequest& request, bool allow_strict);
  void open_timed_out(const tmesh_stream& stream) { slot_.doubt(stream.mux); }

  const std::string& agent_id() const { return agent_id_; }

  uint32_t number() const { return slot_.number(); }
  session::SlotStatus status() const { return slot_.status(); }
  // The last acknowledgement of a hello; answered_us 0: none yet.
  struct Hello {
    uint64_t answered_us = 0;
    bool is_accepted = false;
  };
  const Hello& hello() const { return hello_; }
  // See session::Slot.
  session::Session* ready() { return slot_.ready(); }
  session::Session* session_of(const tmesh_mux* mux) { return slot_.session_of(mux); }
  bool is_link_coming() { return slot_.is_link_coming(); }
  bool has_streams() { return slot_.has_streams(); }

  // Nothing comes on that session although something should have. Any byte ends it.
  void note_silent(const session::Session& session);
  // Whether that is so of the session that takes streams.
  bool is_silent();

 private:
  tmesh_mux_config mux_config(tmesh_subprotocol subprotocol) override;
  void on_session(session::Session& session, tmesh_subprotocol subprotocol) override;
  void on_session_over(session::Session& session) override;
  void on_attempt_failed() override { changed(); }
  session::SessionLife life() override { return identity_.life; }
  void on_open(session::Session& session, tmesh_stream* stream, const tmesh_open_stream& open) override;
  tmesh_status on_control(session::Session& session, const tmesh_frame_header& header,
                          std::span<const uint8_t> payload) override;

  void changed() {
    if (on_change_) on_change_();
  }
  void send_hello(session::Session& session);
  void on_hello_ack(session::Session& session, std::span<const uint8_t> payload);

  net::Loop& loop_;
  const ClientIdentity& identity_;
  const std::string agent_id_;
  const Delegate<void()> on_change_;
  uint64_t hello_revision_ = 0;
  Hello hello_;
  bool is_draining_ = false;
  const session::Session* silent_ = nullptr;
  uint64_t silent_bytes_in_ = 0;  // of that session
  session::Slot slot_;
};

}  // namespace tmesh::client
