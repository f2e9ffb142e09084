// A session: one link, its mux and its life.
//
// Owns the link. Knows no role: what hello, metadata and opens mean is the handler's
// business. It keeps the link alive and judges it dead: protocol PING every
// ping_interval with round-trip time, a WebSocket ping on a silent link (deployed peers
// answer it), the end after silence_dead without a single byte (WIRE E; any received
// byte counts as life, LESSONS P-C5). Its timer also ends streams whose peer forgot them
// (tmesh_mux_reset_stalled) and notices when a TLS connection is worn out. One thread; time comes from
// Timers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/mux/mux.h"
#include "cpp/base/result.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/net/link.hpp"

namespace tmesh::session {

class Session;

// All calls come from the loop. Only on_down may destroy the Session.
class SessionHandler {
 public:
  // Acceptor: a valid OPEN_STREAM. Attach before returning, answer now or later.
  virtual void on_open(Session& session, tmesh_stream* stream, const tmesh_open_stream& open) = 0;
  // Hello, metadata, acknowledgement and trace frames. A SESSION status ends the link.
  virtual tmesh_status on_control(Session& session, const tmesh_frame_header& header,
                                  std::span<const uint8_t> payload) = 0;
  // The peer wants no new streams.
  virtual void on_goaway(Session& session) = 0;
  // The link is over; its streams have their OVER events. Called once.
  virtual void on_down(Session& session, tmesh_status why) = 0;
  // The TLS connection has used its keys for as many records as it should: whoever
  // dialled replaces it. May be repeated.
  virtual void on_worn_out(Session&) {}

 protected:
  ~SessionHandler() = default;
};

struct SessionLife {
  uint64_t ping_interval_us = 0;  // protocol PING; 0 = none
  uint64_t silence_ping_us = 0;   // WebSocket ping after this much silence; 0 = none
  uint64_t silence_dead_us = 0;   // dead after this much silence; 0 = never
};

// Agents and clients: PING every 20 s (some middle-boxes cut at 30 s), dead after three
// of them went by without a byte. Servers: WebSocket ping after 25 s, dead after 90 s.
inline constexpr SessionLife kDialerLife{20'000'000, 0, 62'000'000};
inline constexpr SessionLife kServerLife{0, 25'000'000, 90'000'000};

class Session final : private net::LinkHandler {
 public:
  // Takes the transport over, right after the 101. NO_MEMORY.
  static Result<std::unique_ptr<Session>> open(net::Loop& loop, net::Transport transport, bool is_client,
                                               const tmesh_mux_config& config, const SessionLife& life,
                                               SessionHandler& handler, std::span<const uint8_t> early);
  // Closes the link. Streams get their OVER events from the loop afterwards.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  tmesh_mux* mux() { return link_.mux(); }
  // Queues a session-level frame. A full control queue ends the link.
  void send(uint8_t frame_type, std::span<const uint8_t> payload);
  // GOAWAY: the peer opens no more streams here; neither do we.
  void goaway();
  // Only we open no more.
  void stop_opens() { is_draining_ = true; }
  // A WebSocket ping now: whoever lives is heard of within a round trip.
  void probe() { link_.ws_ping(); }
  // Ends the link; on_down follows from the loop.
  void fail(tmesh_status why) { link_.fail(why); }

  // The link is up, no GOAWAY was sent or received, and nobody called stop_opens().
  bool takes_opens() const { return is_up_ && !is_draining_; }
  std::size_t live_streams_count() { return link_.mux()->live_count; }
  // Also those that are over but still need the link: not released by their users, or
  // with something to send.
  bool has_streams() { return link_.mux()->streams.count > 0; }
  // Last and smoothed round-trip time; 0 = not measured yet.
  uint64_t rtt_us() const { return rtt_us_; }
  uint64_t smoothed_rtt_us() const { return smoothed_rtt_us_; }
  uint64_t last_read_us() const { return link_.last_read_us(); }

 private:
  Session(net::Loop& loop, const SessionLife& life, SessionHandler& handler);

  void on_down(tmesh_status why) override;
  void on_open(tmesh_stream* stream, const tmesh_open_stream& open) override;
  tmesh_status on_control(const tmesh_frame_header& header, std::span<const uint8_t> payload) override;
  void on_pong(std::span<const uint8_t> payload) override;
  void on_goaway() override;

  void arm();
  void on_timer();
  void send_ping(uint64_t now_us);

  Timers& timers_;
  SessionLife life_;
  SessionHandler& handler_;
  net::Link link_;
  Ticket timer_;
  bool is_up_ = true;
  bool is_draining_ = false;
  uint64_t ping_due_us_ = 0;
  uint64_t silence_pinged_us_ = 0;  // last_read at the time of the last WebSocket ping
  uint64_t ping_id_ = 0;
  uint64_t ping_sent_us_ = 0;  // 0 = none outstanding
  uint64_t rtt_us_ = 0;
  uint64_t smoothed_rtt_us_ = 0;
};

}  // namespace tmesh::session
