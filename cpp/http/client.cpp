#include "cpp/http/client.hpp"

#include <utility>

#include "core/base/check.h"
#include "cpp/base/redact.hpp"
#include "cpp/http/request_writer.hpp"

namespace tmesh::http {

// A connection with what the pool knows of it.
struct Client::Member final : ClientConnection {
  explicit Member(Client& client)
      : ClientConnection(client.loop_, client.timers_, client, client.options_.response) {}

  Origin* origin = nullptr;
  std::list<Member>::iterator place;
  Exchange* exchange = nullptr;  // null: idle
  uint64_t epoch = 0;            // of its beginning
  uint64_t idle_since_us = 0;
};

struct Client::Origin {
  bool is_tls = false;
  std::string host;
  uint16_t port = 0;
  std::list<Member> connections;
  std::list<Exchange*> waiting;
};

struct Client::Exchange {
  Exchange(Client& owner, uint64_t number) : client(owner), id(number) {}
  ~Exchange() { secure_wipe(bytes); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void on_timeout() { client.on_timeout(*this); }

  Client& client;
  const uint64_t id;
  Origin* origin = nullptr;
  std::string bytes;
  bool is_head = false;
  bool is_repeatable = false;
  uint64_t deadline_us = 0;
  Done done;
  Ticket timeout;
  Member* connection = nullptr;
  bool is_waiting = false;
  std::list<Exchange*>::iterator place;  // where it waits
};

Client::Client(net::Loop& loop, Timers& timers, Dialer& dialer, const ClientOptions& options)
    : loop_(loop), timers_(timers), dialer_(dialer), options_(options) {}

// Connections first: they borrow the bytes of exchanges.
Client::~Client() {
  origins_.clear();
}

std::size_t Client::idle_count() const {
  std::size_t count = 0;
  for (const auto& [name, origin] : origins_) {
    for (const Member& member : origin->connections) count += member.exchange == nullptr ? 1 : 0;
  }
  return count;
}

Client::Origin& Client::origin_of(const Url& url) {
  std::unique_ptr<Origin>& origin = origins_[(url.is_tls ? "https://" : "http://") + url_authority(url)];
  if (origin == nullptr) {
    origin = std::make_unique<Origin>();
    origin->is_tls = url.is_tls;
    origin->host = url.host;
    origin->port = url.port;
  }
  return *origin;
}

Result<Ticket> Client::send(ClientRequest request, Done done) {
  std::optional<std::string> bytes =
      serialize_request(request.method, request.url, request.headers, request.body);
  secure_wipe(request.body);
  if (!bytes) return fail(TMESH_E_INVALID, "the request holds a byte that HTTP cannot carry");
  auto exchange = std::make_unique<Exchange>(*this, ++last_id_);
  exchange->bytes = std::move(*bytes);
  if (request.url.is_tls && tls_ == nullptr) return fail(TMESH_E_STATE, "TLS is not set up");
  if (exchanges_.size() >= options_.max_requests) return fail(TMESH_E_LIMIT, "too many requests");
  exchange->is_head = request.method == Method::head;
  exchange->is_repeatable = request.is_repeatable;
  exchange->done = done;
  exchange->deadline_us = timers_.now_us() + request.timeout_us;
  exchange->timeout =
      timers_.after(request.timeout_us, Delegate<void()>::bind<&Exchange::on_timeout>(exchange.get()));
  exchange->origin = &origin_of(request.url);
  stats_.requests_count++;
  Exchange& added = *exchange;
  exchanges_.emplace(added.id, std::move(exchange));
  if (!added.origin->waiting.empty() || !start(added)) {
    added.place = added.origin->waiting.insert(added.origin->waiting.end(), &added);
    added.is_waiting = true;
  }
  return Ticket(this, added.id, &Client::cancel);
}

bool Client::start(Exchange& exchange) {
  if (start_on_idle(exchange)) return true;
  if (!make_room(*exchange.origin)) return false;
  open_connection(exchange);
  return true;
}

// The one used last: it is the least likely to have been closed meanwhile.
bool Client::start_on_idle(Exchange& exchange) {
  for (;;) {
    Member* latest = nullptr;
    for (Member& member : exchange.origin->connections) {
      if (member.exchange != nullptr) continue;
      if (latest == nullptr || member.idle_since_us >= latest->idle_since_us) latest = &member;
    }
    if (latest == nullptr) return false;
    if (latest->send(exchange.bytes, exchange.is_head)) {
      latest->exchange = &exchange;
      exchange.connection = latest;
      stats_.reused_count++;
      return true;
    }
    remove(*latest);
  }
}

bool Client::make_room(const Origin& origin) {
  if (origin.connections.size() >= options_.max_connections_per_origin) return false;
  if (connections_count_ < options_.max_connections) return true;
  Member* oldest = nullptr;
  for (const auto& [name, other] : origins_) {
    for (Member& member : other->connections) {
      if (member.exchange != nullptr) continue;
      if (oldest == nullptr || member.idle_since_us < oldest->idle_since_us) oldest = &member;
    }
  }
  if (oldest == nullptr) return false;
  oldest->close_gracefully();
  remove(*oldest);
  return true;
}

void Client::open_connection(Exchange& exchange) {
  Origin& origin = *exchange.origin;
  Member& member = origin.connections.emplace_back(*this);
  member.origin = &origin;
  member.place = std::prev(origin.connections.end());
  member.exchange = &exchange;
  member.epoch = epoch_;
  exchange.connection = &member;
  connections_count_++;
  stats_.connections_count++;
  const uint64_t now_us = timers_.now_us();
  const uint64_t left_us = exchange.deadline_us > now_us ? exchange.deadline_us - now_us : 1;
  const ClientConnection::Target target{origin.host, origin.port, origin.is_tls ? tls_ : nullptr};
  member.open(dialer_, target, exchange.bytes, exchange.is_head, left_us);
}

void Client::remove(Member& connection) {
  if (connection.exchange != nullptr) connection.exchange->connection = nullptr;
  connections_count_--;
  Origin& origin = *connection.origin;
  origin.connections.erase(connection.place);
}

void Client::drop(Exchange& exchange) {
  if (exchange.connection != nullptr) remove(*exchange.connection);
  if (exchange.is_waiting) exchange.origin->waiting.erase(exchange.place);
  exchanges_.erase(exchange.id);
}

void Client::start_waiting() {
  for (auto at = origins_.begin(); at != origins_.end();) {
    Origin& origin = *at->second;
    while (!origin.waiting.empty()) {
      Exchange& exchange = *origin.waiting.front();
      if (!start(exchange)) break;
      origin.waiting.pop_front();
      exchange.is_waiting = false;
    }
    // Making room for one may have emptied another that was passed already: a later call's.
    at = origin.connections.empty() && origin.waiting.empty() ? origins_.erase(at) : std::next(at);
  }
}

void Client::finish(Exchange& exchange, ClientAnswer answer) {
  const Done done = exchange.done;
  drop(exchange);
  start_waiting();
  done(std::move(answer));
}

void Client::on_answer(ClientConnection& connection, Response response, bool is_reusable) {
  auto& member = static_cast<Member&>(connection);
  Exchange& exchange = *std::exchange(member.exchange, nullptr);
  exchange.connection = nullptr;
  if (is_reusable && member.epoch == epoch_) {
    member.idle_since_us = timers_.now_us();
    member.end_after(options_.idle_timeout_us);
  } else {
    if (is_reusable) member.close_gracefully();
    remove(member);
  }
  finish(exchange, std::move(response));
}

void Client::on_failure(ClientConnection& connection, const ClientFailure& failure, bool is_untouched) {
  auto& member = static_cast<Member&>(connection);
  Exchange& exchange = *member.exchange;
  const ClientFailure copy = failure;
  remove(member);
  // Not a second time: the fresh connection was not used before. Its place has just become
  // free, so nothing else needs to make room.
  if (!is_untouched || !exchange.is_repeatable) return finish(exchange, std::unexpected(copy));
  stats_.repeated_count++;
  open_connection(exchange);
}

void Client::on_idle_over(ClientConnection& connection) {
  auto& member = static_cast<Member&>(connection);
  member.close_gracefully();
  remove(member);
  start_waiting();
}

void Client::on_timeout(Exchange& exchange) {
  const char* stage = exchange.connection == nullptr ? "wait" : exchange.connection->stage();
  finish(exchange, std::unexpected(ClientFailure{TMESH_E_TIMEOUT, stage, "no answer in time"}));
}

void Client::cancel(void* owner, uint64_t id) {
  auto& self = *static_cast<Client*>(owner);
  const auto found = self.exchanges_.find(id);
  if (found == self.exchanges_.end()) return;
  self.drop(*found->second);
  self.start_waiting();
}

void Client::close_idle() {
  epoch_++;
  for (auto& [name, origin] : origins_) {
    for (auto at = origin->connections.begin(); at != origin->connections.end();) {
      Member& member = *at++;
      if (member.exchange != nullptr) continue;
      member.close_gracefully();
      remove(member);
    }
  }
  start_waiting();
}

}  // namespace tmesh::http
