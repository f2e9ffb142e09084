// One connection of an HTTP client: dial, TLS, then request after request.
//
// Belongs to http::Client. Destroying it ends the connection at any point and nothing is
// called afterwards. Each call to the owner is the last thing it does, so the owner may
// destroy it from inside.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "cpp/base/dial.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/http/response_parser.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/net/tls_context.hpp"
#include "cpp/net/transport.hpp"

namespace tmesh::http {

// Why there is no answer; for the log and for counters, never for a peer.
struct ClientFailure {
  tmesh_code code = TMESH_E_IO;  // TIMEOUT, DNS, REFUSED, ..., TLS, TLS_VERIFY, HTTP, CLOSED, IO
  const char* stage = "";        // "wait", "dns", "connect", "tls", "request", "response"
  const char* text = "";         // static; what to look at
};
using ClientAnswer = std::expected<Response, ClientFailure>;

class ClientConnection : private net::TransportHandler {
 public:
  class Owner {
   public:
    // The answer to the request it carried; it is idle now, or of no use.
    virtual void on_answer(ClientConnection& connection, Response response, bool is_reusable) = 0;
    // It is over, and there is no answer. is_untouched: it was used before, and not a byte of an
    // answer has come: the server may have closed it before it saw the request.
    virtual void on_failure(ClientConnection& connection, const ClientFailure& failure,
                            bool is_untouched) = 0;
    // It was idle, and has ended or spoken unasked.
    virtual void on_idle_over(ClientConnection& connection) = 0;

   protected:
    ~Owner() = default;
  };
  struct Target {
    std::string_view host;
    uint16_t port = 0;
    const net::TlsContext* tls = nullptr;  // null: plain
  };

  ClientConnection(net::Loop& loop, Timers& timers, Owner& owner, const ResponseLimits& limits);
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  // Connects and sends the request, whose bytes stay the caller's until the answer or the
  // end of the connection. The target is copied; its tls is borrowed until the connect.
  void open(Dialer& dialer, const Target& target, std::string_view request, bool is_head,
            uint64_t timeout_us);
  // On an idle connection. False: it is broken, and nobody is called.
  bool send(std::string_view request, bool is_head);
  // Idle: ends it with the owner's on_idle_over after that time.
  void end_after(uint64_t idle_us);
  // Idle: says goodbye before the destructor cuts it.
  void close_gracefully() { transport_.close(true); }

  bool is_idle() const { return phase_ == Phase::idle; }
  bool was_used() const { return answers_count_ > 0; }
  // Where a request would be lost now.
  const char* stage() const;

 private:
  enum class Phase : uint8_t { dialing, handshake, request, idle };

  void on_dialed(DialResult result);
  void on_idle_timeout();
  void deliver_failure();
  void fail(const char* stage, tmesh_code code, const char* text);
  bool write();
  void answer(bool is_clean);

  void on_ready(tmesh_status status) override;
  void on_data(std::span<uint8_t> data) override;
  void on_eof() override;
  void on_written() override;
  void on_error(tmesh_status status) override;

  net::Loop& loop_;
  Timers& timers_;
  Owner& owner_;
  ResponseParser parser_;
  Phase phase_ = Phase::dialing;
  std::string host_;
  const net::TlsContext* tls_ = nullptr;
  std::string_view request_;
  bool is_written_ = false;
  uint64_t answers_count_ = 0;
  ClientFailure failure_;
  Ticket step_;  // the dial, a failure to be told, or the end of idleness
  net::Transport transport_;
};

}  // namespace tmesh::http
