// A session: one link, its mux and its life.
//
// Owns the link. Knows no role: what hello, metadata and opens mean is the handler's
// business. It keeps the link alive, measures its round-trip time and ends it when it is
// dead (liveness.hpp). Its timer also ends streams whose peer forgot them
// (tmesh_mux_reset_stalled) and notices when a TLS connection is worn out. One thread;
// time comes from Timers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/mux/mux.h"
#include "cpp/base/result.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/net/link.hpp"
#include "cpp/session/liveness.hpp"

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
  // The peer does not answer: the session takes no opens until a byte arrives, or ends
  // soon. Told once per doubt; whoever dialled looks for another link.
  virtual void on_suspect(Session&) {}

 protected:
  ~SessionHandler() = default;
};

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
  // Only we open no more, until resume_opens().
  void stop_opens() { is_stopped_ = true; }
  void resume_opens() { is_stopped_ = false; }
  // A WebSocket ping now: whoever lives is heard of within a round trip.
  void probe() { link_.ws_ping(); }
  // An open left that the peer has to answer: silence from now on is a sign.
  void expect_answer();
  // One was not answered in its time: the peer is asked at once whether it lives.
  void doubt();
  // PING at once, and from then on: for window growth, and only towards peers of this
  // project (deployed ones never get a PING from a server).
  void measure_rtt();
  // One PING now, unless one is on its way: for the round-trip time, and to see whether a byte
  // comes back. Judges nothing by itself.
  void ping();
  // What both ends named in hello and acknowledgement: switches the extensions on that
  // this link's base allows. The first call counts. peer_is_ours: see tmesh_mux_config.
  void use_extensions(uint32_t named_by_both, bool peer_is_ours);
  // Ends the link; on_down follows from the loop.
  void fail(tmesh_status why) { link_.fail(why); }

  // The link is up and not suspect, no GOAWAY was sent or received, and opens are not stopped.
  bool takes_opens() const { return is_up_ && !is_draining_ && !is_stopped_ && !is_suspect(); }
  // Probed, and not a byte since (liveness.hpp).
  bool is_suspect() const { return liveness_.is_suspect(link_.bytes_in()); }
  std::size_t live_streams_count() { return link_.mux()->live_count; }
  // Also those that are over but still need the link: not released by their users, or
  // with something to send.
  bool has_streams() { return link_.mux()->streams.count > 0; }
  // Last, smoothed and lowest recent round-trip time; 0 = not measured yet.
  uint64_t rtt_us() const { return rtt_us_; }
  uint64_t smoothed_rtt_us() const { return smoothed_rtt_us_; }
  uint64_t lowest_rtt_us() const;
  uint64_t last_read_us() const { return link_.last_read_us(); }
  // Of any kind, on the wire.
  uint64_t bytes_in() const { return link_.bytes_in(); }

 private:
  Session(net::Loop& loop, const SessionLife& life, SessionHandler& handler);

  void on_down(tmesh_status why) override;
  void on_open(tmesh_stream* stream, const tmesh_open_stream& open) override;
  tmesh_status on_control(const tmesh_frame_header& header, std::span<const uint8_t> payload) override;
  void on_pong(std::span<const uint8_t> payload) override;
  void on_goaway() override;

  Liveness::Seen seen() const;
  void arm();
  void on_timer();
  void send_ping(uint64_t now_us, bool is_sample);

  // Enough to look past one burst of bulk; few enough to follow a path that changed
  // within two minutes of PINGs.
  static constexpr std::size_t kRttSamples = 4;
  static constexpr uint64_t kMeasureEvery_us = 20'000'000;

  Timers& timers_;
  SessionHandler& handler_;
  net::Link link_;
  Liveness liveness_;
  Ticket timer_;
  uint64_t timer_due_us_ = Liveness::kNever;
  bool is_up_ = true;
  bool is_draining_ = false;
  bool is_stopped_ = false;
  bool is_extended_ = false;
  uint64_t ping_id_ = 0;
  uint64_t ping_sent_us_ = 0;    // 0 = none outstanding
  bool is_ping_sample_ = false;  // its answer goes into rtts_us_
  uint64_t rtt_us_ = 0;
  uint64_t smoothed_rtt_us_ = 0;
  std::array<uint64_t, kRttSamples> rtts_us_{};  // a ring; 0 = none yet
  std::size_t rtt_next_ = 0;
};

}  // namespace tmesh::session
