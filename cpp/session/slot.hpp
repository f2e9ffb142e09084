// A slot: one place of a client or an agent that is kept connected to the server.
//
// Owns the reconnector, the current session and those that drain beside it. A session
// that may take no new streams (GOAWAY) is put aside and a successor connected (reconnector.hpp);
// one that is to be replaced (rotate) goes on until its successor is there, and one that
// is suspect gets a successor beside it at once (liveness.hpp). A link without a selected
// sub-protocol is renegotiated after five minutes (WIRE D). What the frames mean is the
// role's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "cpp/session/reconnector.hpp"
#include "cpp/session/session.hpp"
#include "cpp/session/slot_status.hpp"

namespace tmesh::session {

class SlotRole {
 public:
  // For a link with this sub-protocol. Pool and events are filled in by the link.
  virtual tmesh_mux_config mux_config(tmesh_subprotocol subprotocol) = 0;
  // A fresh session: send the hello. It is current() from here on.
  virtual void on_session(Session& session, tmesh_subprotocol subprotocol) = 0;
  // How its sessions are kept alive and judged.
  virtual SessionLife life() { return kDialerLife; }
  // The session is about to be destroyed.
  virtual void on_session_over(Session& session) = 0;
  virtual void on_open(Session& session, tmesh_stream* stream, const tmesh_open_stream& open) = 0;
  virtual tmesh_status on_control(Session& session, const tmesh_frame_header& header,
                                  std::span<const uint8_t> payload) = 0;
  // The server was not reached; it will be tried again.
  virtual void on_attempt_failed() {}

 protected:
  ~SlotRole() = default;
};

class Slot final : private ReconnectorHandler, private SessionHandler {
 public:
  // Sessions that drain beside the current one. Streams may last for days and links
  // change for many reasons; each that drains costs a socket here and at the server.
  static constexpr std::size_t kDrainingMax = 8;
  // Links that a peer's window violations ended: a broken peer would fill the log.
  static constexpr uint64_t kStormLogEvery_us = 60'000'000;

  // offered: capabilities whose sub-protocols a client offers; has_offer false for agents.
  // number: for the log and the hello, 1-based.
  // timers: the loop, or a test's clock.
  Slot(net::Loop& loop, Timers& timers, Dialer& dialer, const ServerEndpoint& endpoint, bool has_offer,
       uint32_t offered, uint32_t number, SlotRole& role);
  // Streams of its sessions get their OVER events from the loop afterwards.
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  void start() {
    is_started_ = true;
    reconnector_.start();
  }
  // No new streams and no reconnect; streams that run go on. Not told, the peer may still
  // open some.
  void drain(bool tells_peer = true);
  // A client's slot only: takes drain() back. What drained takes streams again, or a link is
  // connected.
  void resume();
  // The current session is used up by its own work: connects a successor at once, while it
  // goes on taking streams.
  void rotate(const char* reason);

  // An open on this mux was not answered in its time.
  void doubt(const tmesh_mux* mux);

  // The session for new streams; null when there is none that takes them.
  Session* ready() { return current_ != nullptr && current_->takes_opens() ? current_.get() : nullptr; }
  // Whose mux this is, of those that live; null when it is over.
  Session* session_of(const tmesh_mux* mux);
  // Streams of any of its sessions that still need their link (Session::has_streams).
  bool has_streams();
  // No session is ready, but one is likely to be soon: no attempt has failed since the last
  // link (or the start).
  bool is_link_coming() { return is_started_ && !is_stopping_ && !has_failed_ && ready() == nullptr; }
  uint32_t number() const { return number_; }
  SlotStatus status() const;

 private:
  void on_connected(Connected connected) override;
  void on_connect_failed(const ConnectFailure& failure, uint64_t retry_us) override;
  void on_open(Session& session, tmesh_stream* stream, const tmesh_open_stream& open) override;
  tmesh_status on_control(Session& session, const tmesh_frame_header& header,
                          std::span<const uint8_t> payload) override;
  void on_goaway(Session& session) override;
  void on_down(Session& session, tmesh_status why) override;
  void on_worn_out(Session& session) override;
  void on_suspect(Session& session) override;

  void replace(const char* reason, bool is_used_up);
  void put_aside(const char* reason);
  void stop_opens(Session& session);
  void sweep();
  void log_storm();
  void plan_renegotiation();
  void on_renegotiate() { rotate("renegotiate"); }

  net::Loop& loop_;
  Timers& timers_;
  const bool has_offer_;
  const uint32_t number_;
  SlotRole& role_;
  Reconnector reconnector_;
  std::unique_ptr<Session> current_;
  std::list<std::unique_ptr<Session>> draining_;
  Ticket renegotiate_;
  Ticket sweep_;
  bool is_rotating_ = false;
  bool is_stopping_ = false;
  bool is_started_ = false;
  bool has_failed_ = false;       // an attempt, since the last link
  uint64_t storm_logged_us_ = 0;  // 0 = never
  // For status().
  uint64_t links_count_ = 0;
  uint64_t up_since_us_ = 0;
  tmesh_subprotocol subprotocol_ = TMESH_SUBPROTOCOL_NONE;
  ConnectTimes connect_times_;
  SlotFailure last_failure_;
};

}  // namespace tmesh::session
