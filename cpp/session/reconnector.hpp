// Keeps one place (slot) connected to the server, for ever (WIRE E).
//
// Connects, hands the upgraded transport over, and when told that the link ended waits
// (backoff.hpp) and connects again. A client whose offer of sub-protocols is answered
// with 400 or 403 retries once without an offer, at once; that link alone is legacy and
// the next attempt offers all again (requirement B2). Nothing else is a reason to
// downgrade. One thread.
#pragma once

#include <cstdint>
#include <memory>

#include "cpp/session/backoff.hpp"
#include "cpp/session/connector.hpp"

namespace tmesh::session {

class ReconnectorHandler {
 public:
  // A fresh link's transport. The handler makes a Session of it now and calls
  // link_ended() when that is over (or at once if it cannot).
  virtual void on_connected(Connected connected) = 0;
  // The next attempt comes in retry_us; 0 only for the one without an offer.
  virtual void on_connect_failed(const ConnectFailure& failure, uint64_t retry_us) = 0;

 protected:
  ~ReconnectorHandler() = default;
};

class Reconnector {
 public:
  // has_offer false: never offers sub-protocols (agents).
  Reconnector(net::Loop& loop, Timers& timers, Dialer& dialer, const ServerEndpoint& endpoint, bool has_offer,
              uint32_t offered, ReconnectorHandler& handler);

  // First attempt at once.
  void start();
  // The link made of the last on_connected is over. An attempt under way goes on.
  void link_ended();
  // Another link is wanted while the last one still lives. Used up by our own work (ids, TLS
  // records): at once. Otherwise (GOAWAY, a doubt) at once only if that was a good link, else
  // with a wait, so that a server which sends everybody away is not called in a circle. An
  // attempt that runs or waits is not hastened.
  void renew(bool is_used_up);
  // No further attempt, until resume(). Idempotent.
  void stop();
  // has_link: the last link still lives, and link_ended() will be told.
  void resume(bool has_link);

 private:
  void attempt();
  void on_done(std::expected<Connected, ConnectFailure> result);
  void wait(uint64_t us);

  net::Loop& loop_;
  Timers& timers_;
  Dialer& dialer_;
  const ServerEndpoint& endpoint_;
  const bool has_offer_;
  const uint32_t offered_;
  ReconnectorHandler& handler_;
  Backoff backoff_;
  std::unique_ptr<Connector> connector_;
  Ticket timer_;
  bool is_without_offer_ = false;  // the next attempt is the one retry
  bool is_offering_ = false;       // the attempt under way offers sub-protocols
  bool is_stopped_ = false;
  uint64_t connected_at_us_ = 0;
};

}  // namespace tmesh::session
