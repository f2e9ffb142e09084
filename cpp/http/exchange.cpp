#include "cpp/http/exchange.hpp"

#include <utility>

#include "core/base/check.h"
#include "cpp/http/connection.hpp"

namespace tmesh::http {

Deferred::Deferred(Connection* connection) : connection_(connection) {
  connection->deferred_ = this;
}

Deferred::Deferred(Deferred&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {
  if (connection_ != nullptr) connection_->deferred_ = this;
}

Deferred& Deferred::operator=(Deferred&& other) noexcept {
  if (this != &other) {
    detach();
    connection_ = std::exchange(other.connection_, nullptr);
    if (connection_ != nullptr) connection_->deferred_ = this;
  }
  return *this;
}

Deferred::~Deferred() {
  detach();
}

void Deferred::detach() {
  if (connection_ == nullptr) return;
  Connection* connection = std::exchange(connection_, nullptr);
  connection->deferred_ = nullptr;
  connection->abandon();
}

const Request& Deferred::request() const {
  return connection_->parser_.request();
}

void Deferred::respond(const Response& response) {
  if (connection_ == nullptr) return;
  Connection* connection = std::exchange(connection_, nullptr);
  connection->deferred_ = nullptr;
  connection->respond(response);
}

bool Deferred::upgrade(const Headers& fields, Delegate<void(Upgraded)> on_upgraded) {
  if (connection_ == nullptr) return false;
  Connection* connection = connection_;
  // A write that fails at once is told by the answer, not from inside the call.
  Delegate<void()> on_abort = std::exchange(connection->on_abort_, {});
  connection->upgrade(fields, on_upgraded);
  if (connection_ == nullptr) return false;
  connection->on_abort_ = on_abort;
  return true;
}

const Request& Exchange::request() const {
  return connection_.parser_.request();
}

const net::Peer& Exchange::peer() const {
  return connection_.peer();
}

bool Exchange::is_tls() const {
  return connection_.server_.tls != nullptr;
}

void Exchange::respond(const Response& response) {
  connection_.respond(response);
}

Deferred Exchange::defer(Delegate<void()> on_abort) {
  TMESH_ASSERT(connection_.phase_ == Connection::Phase::handling && connection_.deferred_ == nullptr);
  connection_.on_abort_ = on_abort;
  return Deferred(&connection_);
}

}  // namespace tmesh::http
