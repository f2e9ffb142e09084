#include "cpp/http/connection.hpp"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "cpp/http/response_writer.hpp"

namespace tmesh::http {

namespace {
// A write deadline is for this much, so it is a minimum speed and not a limit of size.
constexpr std::size_t kSliceBytes = 65536;
// Buffers that a large message grew are given back.
constexpr std::size_t kKeptBufferBytes = 16'384;

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
}  // namespace

Connection::Connection(ServerCore& server, const net::Peer& peer)
    : server_(server), peer_(peer), parser_(server.options.limits) {}

Connection::~Connection() {
  if (deferred_ != nullptr) deferred_->connection_ = nullptr;
}

bool Connection::start(int fd) {
  Result<net::Transport> transport = net::Transport::accept(server_.loop, fd, server_.tls, *this);
  if (!transport) return false;
  transport_ = std::move(*transport);
  arm(Deadline::head, server_.options.read_header_timeout_us);
  return true;
}

void Connection::drain() {
  bool is_idle =
      phase_ == Phase::reading && parser_.state() == RequestParser::State::idle && unread().empty();
  if (is_idle) close(true);
}

void Connection::close(bool is_graceful) {
  if (phase_ == Phase::over) return;
  phase_ = Phase::over;
  deadline_ = Deadline::none;
  timer_.cancel();
  transport_.close(is_graceful);
  server_.account(accounted_bytes_, 0);
  accounted_bytes_ = 0;
  server_.retire(*this);
  if (Deferred* deferred = std::exchange(deferred_, nullptr)) {
    deferred->connection_ = nullptr;
    ++server_.stats.aborted_count;
    if (on_abort_) on_abort_();
  }
}

// --- transport events ---------------------------------------------------------------

void Connection::on_ready(tmesh_status status) {
  if (!tmesh_is_ok(status)) {
    close(false);
    return;
  }
  update_reading();
}

void Connection::on_data(std::span<uint8_t> data) {
  if (phase_ == Phase::over) return;
  input_.insert(input_.end(), data.begin(), data.end());
  advance();
}

void Connection::on_eof() {
  is_eof_ = true;
  switch (phase_) {
    case Phase::reading:
      advance();
      break;
    case Phase::handling:
    case Phase::upgrading:
      // Half-close is legal in HTTP and useless for a WebSocket.
      if (parser_.request().is_upgrade) close(false);
      break;
    case Phase::writing:
    case Phase::over:
      break;
  }
}

void Connection::on_written() {
  is_write_pending_ = false;
  output_done_ += std::exchange(slice_bytes_, 0);
  if (phase_ != Phase::writing && phase_ != Phase::upgrading) return;
  write_more();
  advance();
}

void Connection::on_error(tmesh_status) {
  close(false);
}

// --- requests -----------------------------------------------------------------------

// Requests that wait in input_ are worked off here and nowhere else, so that a handler
// which answers at once does not nest.
void Connection::advance() {
  if (is_advancing_) return;
  is_advancing_ = true;
  while (phase_ == Phase::reading && !unread().empty()) feed_parser();
  is_advancing_ = false;
  if (phase_ == Phase::over) return;
  if (phase_ == Phase::reading) {
    if (is_eof_) {
      close(true);
      return;
    }
    arm_for_reading();
  }
  account();
  update_reading();
}

void Connection::feed_parser() {
  drop_input(parser_.feed(unread()));
  switch (parser_.state()) {
    case RequestParser::State::failed:
      refuse(parser_.error_status());
      break;
    case RequestParser::State::ready:
      dispatch();
      break;
    case RequestParser::State::body:
      if (parser_.wants_continue() && unread().empty()) send_continue();
      break;
    case RequestParser::State::idle:
    case RequestParser::State::head:
      break;
  }
}

void Connection::dispatch() {
  deadline_ = Deadline::none;
  timer_.cancel();
  phase_ = Phase::handling;
  // Behind a refused upgrade the peer may already speak the other protocol.
  is_last_ = !parser_.keeps_alive() || parser_.request().is_upgrade;
  ++server_.stats.request_count;
  Exchange exchange(*this);
  server_.handler.on_request(exchange);
  if (phase_ == Phase::handling && deferred_ == nullptr) abandon();
}

void Connection::abandon() {
  ++server_.stats.unanswered_count;
  if (phase_ != Phase::handling) {
    close(false);
    return;
  }
  is_last_ = true;
  respond(Response::plain(500));
}

void Connection::refuse(int status) {
  ++server_.stats.rejected_count;
  deadline_ = Deadline::none;
  timer_.cancel();
  is_last_ = true;
  phase_ = Phase::writing;
  output_ = serialize(Response::plain(status), false, true, server_.date());
  write_more();
}

void Connection::respond(const Response& response) {
  TMESH_ASSERT(phase_ == Phase::handling);
  if (response.is_last || server_.is_draining) is_last_ = true;
  bool is_head = parser_.request().method == Method::head;
  output_ = serialize(response, is_head, is_last_, server_.date());
  phase_ = Phase::writing;
  write_more();
  advance();
}

void Connection::upgrade(const Headers& fields, Delegate<void(Upgraded)> on_upgraded) {
  TMESH_ASSERT(phase_ == Phase::handling && parser_.request().is_upgrade);
  on_upgraded_ = on_upgraded;
  output_ = serialize_switching(fields, server_.date());
  phase_ = Phase::upgrading;
  write_more();
  if (phase_ != Phase::over) update_reading();
}

void Connection::finish_upgrade() {
  transport_.set_handler(nullptr);
  std::span<const uint8_t> early = unread();
  Upgraded upgraded{std::move(transport_), std::vector<uint8_t>(early.begin(), early.end()), peer_};
  Delegate<void(Upgraded)> deliver = on_upgraded_;
  deferred_->connection_ = nullptr;
  deferred_ = nullptr;
  phase_ = Phase::over;
  server_.account(accounted_bytes_, 0);
  accounted_bytes_ = 0;
  ++server_.stats.upgraded_count;
  server_.retire(*this);
  deliver(std::move(upgraded));
}

// --- writing ------------------------------------------------------------------------

void Connection::send_continue() {
  if (is_continue_sent_ || is_write_pending_) return;
  is_continue_sent_ = true;
  bool is_done = false;
  if (!tmesh_is_ok(transport_.try_write(bytes_of(kContinue), &is_done))) {
    close(false);
    return;
  }
  is_write_pending_ = !is_done;
}

void Connection::write_more() {
  while (!is_write_pending_) {
    if (output_done_ == output_.size()) {
      on_response_written();
      return;
    }
    std::size_t n = std::min(kSliceBytes, output_.size() - output_done_);
    bool is_done = false;
    std::span<const uint8_t> slice = bytes_of(std::string_view(output_).substr(output_done_, n));
    if (!tmesh_is_ok(transport_.try_write(slice, &is_done))) {
      close(false);
      return;
    }
    if (is_done) {
      output_done_ += n;
    } else {
      is_write_pending_ = true;
      slice_bytes_ = n;
    }
  }
  arm(Deadline::write, server_.options.body_timeout_us);
  account();
}

void Connection::on_response_written() {
  output_done_ = 0;
  output_.clear();
  if (output_.capacity() > kKeptBufferBytes) std::string().swap(output_);
  if (phase_ == Phase::upgrading) {
    arm(Deadline::hand_over, 0);
    return;
  }
  deadline_ = Deadline::none;
  timer_.cancel();
  if (is_last_) {
    close(true);
    return;
  }
  parser_.next();
  is_continue_sent_ = false;
  phase_ = Phase::reading;
}

// --- deadlines, flow and accounting -----------------------------------------------------

void Connection::arm(Deadline deadline, uint64_t delay_us) {
  deadline_ = deadline;
  timer_ = server_.loop.after(delay_us, Delegate<void()>::bind<&Connection::on_deadline>(this));
}

void Connection::arm_for_reading() {
  switch (parser_.state()) {
    case RequestParser::State::idle:
      // The first request's deadline runs from accepting.
      if (deadline_ == Deadline::none) arm(Deadline::idle, server_.options.idle_timeout_us);
      break;
    case RequestParser::State::head:
      if (deadline_ != Deadline::head) arm(Deadline::head, server_.options.read_header_timeout_us);
      break;
    case RequestParser::State::body:
      if (deadline_ != Deadline::body) arm(Deadline::body, server_.options.body_timeout_us);
      break;
    case RequestParser::State::ready:
    case RequestParser::State::failed:
      break;
  }
}

void Connection::on_deadline() {
  Deadline deadline = std::exchange(deadline_, Deadline::none);
  if (deadline == Deadline::head || deadline == Deadline::body || deadline == Deadline::write) {
    ++server_.stats.timeout_count;
  }
  switch (deadline) {
    case Deadline::head:
      if (parser_.state() == RequestParser::State::idle) {
        close(false);
        break;
      }
      refuse(408);
      break;
    case Deadline::body:
      refuse(408);
      break;
    case Deadline::idle:
      close(true);
      break;
    case Deadline::write:
      close(false);
      break;
    case Deadline::hand_over:
      finish_upgrade();
      break;
    case Deadline::none:
      break;
  }
}

void Connection::update_reading() {
  if (!transport_) return;
  bool wants = false;
  switch (phase_) {
    case Phase::reading:
      wants = true;
      break;
    case Phase::handling:
    case Phase::writing:
      // One read's worth of pipelined requests waits at most; reading also tells when
      // the peer is gone.
      wants = unread().empty();
      break;
    case Phase::upgrading:  // what follows the 101 belongs to the next owner
    case Phase::over:
      break;
  }
  transport_.read(wants && !is_eof_);
}

void Connection::account() {
  std::size_t held = input_.size() + parser_.held_bytes() + output_.size();
  bool is_within = server_.account(std::exchange(accounted_bytes_, held), held);
  if (!is_within && phase_ == Phase::reading) refuse(503);
}

void Connection::drop_input(std::size_t n) {
  input_begin_ += n;
  if (input_begin_ < input_.size()) return;
  input_begin_ = 0;
  input_.clear();
  if (input_.capacity() > kKeptBufferBytes) std::vector<uint8_t>().swap(input_);
}

}  // namespace tmesh::http
