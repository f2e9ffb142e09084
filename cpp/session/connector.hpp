// One attempt to reach the server: dial, TLS, WebSocket upgrade.
//
// Owns everything it starts; destroying it cancels at any point. `done` is called
// exactly once otherwise, never from inside start(), and may destroy the Connector.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/proto/capability.h"
#include "core/wire/tls.h"
#include "core/wire/ws_upgrade.h"
#include "cpp/base/dial.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/base/url.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/net/tls_context.hpp"
#include "cpp/net/transport.hpp"

namespace tmesh::session {

// Where and as whom. Borrowed by connectors; outlives them.
struct ServerEndpoint {
  Url url;                               // ws or wss
  const Secret* token = nullptr;         // bearer
  const net::TlsContext* tls = nullptr;  // required for wss
};

// How long each stage took; 0 for one that was not needed or did not end.
struct ConnectTimes {
  uint64_t dns_us = 0;
  uint64_t connect_us = 0;
  uint64_t tls_us = 0;
  uint64_t upgrade_us = 0;
};

struct Connected {
  net::Transport transport;  // upgraded; has no handler until a Session takes it
  tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_NONE;
  std::vector<uint8_t> early;  // frames behind the 101
  ConnectTimes times;
};

// Why an attempt failed, for the log and for the retry without an offer.
struct ConnectFailure {
  tmesh_status status{};
  const char* stage = "";  // "dns", "connect", "tls", "upgrade"
  const char* text = "";   // static; what to look at
  int http_status = 0;     // of the answer, 0 if there was none
  ConnectTimes times;
};

class Connector final : private net::TransportHandler {
 public:
  using Done = Delegate<void(std::expected<Connected, ConnectFailure>)>;

  // offered: capabilities whose sub-protocols are offered; has_offer false = none at
  // all (agents, and the one retry of a client whose offer was refused).
  Connector(net::Loop& loop, Timers& timers, Dialer& dialer, const ServerEndpoint& endpoint, bool has_offer,
            uint32_t offered, Done done);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  void start();

  // The whole attempt, so that a server that accepts and says nothing is left again.
  static constexpr uint64_t kTimeout_us = 15'000'000;

 private:
  void on_dialed(DialResult result);
  void on_timeout();
  void deliver_failure();
  uint64_t stage_us();
  void fail(const char* stage, tmesh_status status, const char* text, int http_status = 0);

  void on_ready(tmesh_status status) override;
  void on_data(std::span<uint8_t> data) override;
  void on_eof() override;
  void on_written() override;
  void on_error(tmesh_status status) override;

  net::Loop& loop_;
  Timers& timers_;
  Dialer& dialer_;
  const ServerEndpoint& endpoint_;
  bool has_offer_;
  uint32_t offered_;
  Done done_;

  Ticket timeout_;
  Ticket step_;  // the dial, then a deferred failure
  net::Transport transport_;
  struct FreeResponse {
    void operator()(tmesh_ws_response* r) const { tmesh_ws_response_free(r); }
  };
  std::unique_ptr<tmesh_ws_response, FreeResponse> response_;
  const char* offers_[TMESH_SUBPROTOCOL_COUNT] = {};
  tmesh_subprotocol offer_ids_[TMESH_SUBPROTOCOL_COUNT] = {};
  size_t offer_count_ = 0;
  std::string request_;
  bool is_upgrading_ = false;
  bool is_request_sent_ = false;
  ConnectFailure failure_;
  ConnectTimes times_;
  uint64_t stage_began_us_ = 0;
};

}  // namespace tmesh::session
