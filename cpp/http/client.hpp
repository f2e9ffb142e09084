// HTTP/1.1 client that keeps its connections: plain or TLS, one request at a time on each.
//
// Requests to one origin share its connections; beyond their number they wait in the order
// they came. A connection that was used before may turn out to be closed by the server just
// then: if nothing of an answer has come, a request that may be repeated is sent once more
// on a fresh one (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1). Redirects are answers like
// others; interim answers are read over. Under TLS the certificate must be valid for the
// host, which is also sent as SNI.
//
// A body that is longer than the limit is cut and its connection ends; the answer must
// otherwise be complete, framing included. Whatever comes unasked on an idle connection
// ends it.
//
// Owns its connections and the bytes of requests, which it wipes: they may hold passwords.
// Bounds: ClientOptions; per connection some 100 bytes and the parser, under TLS 70 KiB
// more. One thread. Outlives the Tickets. Time: the Timers given, the network's own the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "cpp/base/dial.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/base/url.hpp"
#include "cpp/http/client_connection.hpp"
#include "cpp/http/message.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/net/tls_context.hpp"

namespace tmesh::http {

struct ClientOptions {
  std::size_t max_connections_per_origin = 8;  // what browsers and proxies use at most
  std::size_t max_connections = 64;            // memory under TLS: 5 MiB
  std::size_t max_requests = 1024;             // under way, waiting ones included
  // Below the 60 s and more after which common servers and middleboxes drop a connection.
  uint64_t idle_timeout_us = 30'000'000;
  ResponseLimits response;
};

struct ClientRequest {
  Method method = Method::get;
  Url url;
  Headers headers;  // Host and those of framing are the client's business
  std::string body;
  uint64_t timeout_us = 10'000'000;  // from send() to the last byte of the answer
  // Sending it twice does what sending it once does, whatever its method: it may be repeated.
  bool is_repeatable = false;
};

struct ClientStats {
  uint64_t requests_count = 0;
  uint64_t connections_count = 0;  // opened, or tried to
  uint64_t reused_count = 0;       // requests that went out on a used connection
  uint64_t repeated_count = 0;
};

class Client final : private ClientConnection::Owner {
 public:
  using Done = Delegate<void(ClientAnswer)>;

  Client(net::Loop& loop, Timers& timers, Dialer& dialer, const ClientOptions& options);
  // Cancels every request; nobody is told.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // For https from now on; borrowed. Until the first call https is refused. Never taken away: a
  // request that waits, or is repeated, would go out in the clear.
  void set_tls(const net::TlsContext& tls) { tls_ = &tls; }
  // `done` once, never from inside the call and never after the Ticket is gone; it may do
  // anything, destroying the client included. Destroying the Ticket ends the request's
  // connection. LIMIT (too many requests), INVALID (a byte that HTTP cannot carry), STATE
  // (https without TLS).
  Result<Ticket> send(ClientRequest request, Done done);
  // Connections without a request end now, those with one after their answer.
  void close_idle();

  std::size_t connections_count() const { return connections_count_; }
  std::size_t idle_count() const;
  std::size_t requests_count() const { return exchanges_.size(); }  // under way
  const ClientStats& stats() const { return stats_; }

 private:
  struct Origin;
  struct Member;
  struct Exchange;

  void on_answer(ClientConnection& connection, Response response, bool is_reusable) override;
  void on_failure(ClientConnection& connection, const ClientFailure& failure, bool is_untouched) override;
  void on_idle_over(ClientConnection& connection) override;

  Origin& origin_of(const Url& url);
  // Finds it a connection: false when it has to wait for one.
  bool start(Exchange& exchange);
  bool start_on_idle(Exchange& exchange);
  // Whether one more connection of that origin may be opened; ends an idle one of another
  // origin for it.
  bool make_room(const Origin& origin);
  void open_connection(Exchange& exchange);
  void remove(Member& connection);
  // The exchange and its connection are gone; nobody is told.
  void drop(Exchange& exchange);
  // What waits and can go now.
  void start_waiting();
  // As the last thing: the callback may destroy the client.
  void finish(Exchange& exchange, ClientAnswer answer);
  void on_timeout(Exchange& exchange);
  static void cancel(void* owner, uint64_t id);

  net::Loop& loop_;
  Timers& timers_;
  Dialer& dialer_;
  const ClientOptions options_;
  const net::TlsContext* tls_ = nullptr;
  std::map<std::string, std::unique_ptr<Origin>> origins_;  // those with connections or requests
  std::map<uint64_t, std::unique_ptr<Exchange>> exchanges_;
  uint64_t last_id_ = 0;
  std::size_t connections_count_ = 0;
  uint64_t epoch_ = 0;  // of close_idle()
  ClientStats stats_;
};

}  // namespace tmesh::http
