#include "cpp/client/http_local.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "core/base/chunkq.h"
#include "cpp/net/peer.hpp"

namespace tmesh::client {
namespace {

using Wait = http::ProxyConnection::Wait;
using Verdict = http::ProxyConnection::Verdict;

std::span<const uint8_t> front_of(const tmesh_chunkq* queue) {
  tmesh_span span{};
  if (tmesh_chunkq_peek(queue, &span, 1) == 0) return {};
  return {span.data, span.len_bytes};
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

HttpLocal::~HttpLocal() {
  // Its last answer may not have arrived yet, and a reset would overtake it.
  if (tcp_ && is_idle() && connection_->requests_count() > 0) {
    connection_->stop();
    tcp_.close(true);
  }
  if (stream_ != nullptr) tmesh_stream_release(stream_);
  tmesh_pool_charge_drop(&entry_.heads(), charged_bytes_);
}

void HttpLocal::start(int fd) {
  const HostPort local = net::local_address(fd);
  tcp_ = net::Tcp::open_prepared(entry_.loop(), fd, *this);
  socket_ = tcp_.end();
  connection_ =
      std::make_unique<http::ProxyConnection>(static_cast<http::ProxyIo&>(*this), entry_.rules(), local);
  watch();
}

bool HttpLocal::is_idle() const {
  return connection_ != nullptr && connection_->is_idle() && socket_.out->len_bytes == 0;
}

// --- events -------------------------------------------------------------------------------

void HttpLocal::on_readable() {
  run();
}

void HttpLocal::on_eof() {
  is_client_ended_ = true;
  run();
}

void HttpLocal::on_broken(tmesh_status) {
  end(false);
}

void HttpLocal::on_written(std::size_t n, bool is_all) {
  const std::size_t own = std::min(n, own_bytes_);
  own_bytes_ -= own;
  // A head that was rewritten may have become shorter: the rest is due when all is out.
  const std::size_t credited = is_all ? owed_bytes_ : std::min(n - own, owed_bytes_);
  owed_bytes_ -= credited;
  if (is_all) own_bytes_ = 0;
  if (credited > 0 && stream_ != nullptr) tmesh_stream_consumed(stream_, credited);
  run();
}

void HttpLocal::on_stream_event(void* user, tmesh_stream*, unsigned events) {
  auto* self = static_cast<HttpLocal*>(user);
  const bool is_over = (events & TMESH_STREAM_EV_OVER) != 0;
  // A flow would not be told once more.
  if (is_over && self->connection_->verdict() == Verdict::tunnel) return self->end(false);
  if (is_over) self->connection_->origin_broken();
  self->run();
}

void HttpLocal::on_opened(const tmesh_open_result& result) {
  entry_.count(result);
  if (result.accepted) {
    stream_ = opening_->take();
    tmesh_stream_attach(stream_, this, &HttpLocal::on_stream_event);
    opening_.reset();
    connection_->opened();
  } else {
    opening_.reset();
    connection_->refused(result);
  }
  act();
}

void HttpLocal::on_timeout() {
  // A connection that served requests may have its last answer on the way.
  connection_->stop();
  end(connection_->requests_count() > 0);
}

void HttpLocal::run() {
  if (connection_ == nullptr) return;
  if (entry_.is_stopping()) connection_->stop();
  connection_->run();
  act();
}

void HttpLocal::act() {
  if (connection_->is_running()) return;  // an open that was answered at once
  if (has_failed_ || !charge_heads()) return end(false);
  switch (connection_->verdict()) {
    case Verdict::abort:
      return end(false);
    case Verdict::close:
      timeout_.cancel();
      // A closed socket has some seconds for its last bytes, and a slow reader needs longer; what
      // it still sends is nobody's.
      client_drop(socket_.in->len_bytes);
      if (socket_.out->len_bytes == 0) end(true);
      return;
    case Verdict::tunnel:
      timeout_.cancel();
      // What the stream is still owed for would be lost to it.
      if (owed_bytes_ == 0) start_flow();
      return;
    case Verdict::running:
      return watch();
  }
}

bool HttpLocal::charge_heads() {
  const std::size_t held_bytes = connection_->held_bytes();
  const std::size_t before_bytes = charged_bytes_;
  if (held_bytes <= before_bytes) {
    tmesh_pool_charge_drop(&entry_.heads(), before_bytes - held_bytes);
  } else if (!tmesh_pool_charge_add(&entry_.heads(), held_bytes - before_bytes)) {
    return false;
  }
  charged_bytes_ = held_bytes;
  return true;
}

// Reads on, and limits the client's time where something is expected of it.
void HttpLocal::watch() {
  // Never less again: more may wait already.
  if (stream_ != nullptr) read_max_bytes_ = TMESH_BLOCK_BYTES;
  tcp_.read(read_max_bytes_);
  const Wait wait = connection_->wait();
  const uint64_t number = connection_->requests_count();
  const bool is_first = number == 0;
  // The time for the first request begins with the connection.
  const bool goes_on = is_first && wait == Wait::head && waited_for_ == Wait::request;
  const bool is_same = timeout_.active() && wait == waited_for_ && number == waited_at_request_;
  waited_for_ = wait;
  waited_at_request_ = number;
  const bool is_between = wait == Wait::request && !is_first;
  // Who still reads the last answer is not late with a request.
  const bool is_reading = is_between && socket_.out->len_bytes > 0;
  if (wait == Wait::nothing || is_reading) return timeout_.cancel();
  if (is_same || goes_on) return;
  timeout_ = entry_.loop().after(is_between ? kIdle_us : entry_.deps().handshake_timeout_us,
                                 Delegate<void()>::bind<&HttpLocal::on_timeout>(this));
}

void HttpLocal::start_flow() {
  connection_.reset();
  flow_.emplace(std::move(tcp_), std::exchange(stream_, nullptr),
                Delegate<void(tmesh_status)>::bind<&HttpLocal::on_flow_done>(this));
  flow_->start();
}

void HttpLocal::on_flow_done(tmesh_status why) {
  entry_.log_flow(*flow_, why);
  entry_.remove(*this);
}

void HttpLocal::end(bool is_graceful) {
  if (tcp_) tcp_.close(is_graceful);
  entry_.remove(*this);
}

// --- the client's side ------------------------------------------------------------------------

std::span<const uint8_t> HttpLocal::client_front() {
  return front_of(socket_.in);
}

void HttpLocal::client_drop(std::size_t n) {
  tmesh_chunkq_consume(socket_.in, n);
  socket_.ops->consumed(socket_.impl, n);
}

std::size_t HttpLocal::client_room() {
  return socket_.ops->room(socket_.impl);
}

bool HttpLocal::client_send(std::string_view text) {
  if (!tmesh_is_ok(tcp_.send(bytes_of(text)))) return false;
  own_bytes_ += text.size();
  return true;
}

// --- the origin's ---------------------------------------------------------------------------------

void HttpLocal::open_origin(const HostPort& to) {
  opening_ = entry_.make_opening(Opening::Done::bind<&HttpLocal::on_opened>(this));
  const http::ProxyRules& rules = entry_.rules();  // what was shown, where something must be
  opening_->start(entry_.request_for(to),
                  rules.has_login ? ShownLogin{rules.username, rules.password.reveal()} : ShownLogin{});
}

void HttpLocal::close_origin(bool is_clean) {
  opening_.reset();
  own_bytes_ += std::exchange(owed_bytes_, 0);
  if (stream_ == nullptr) return;
  tmesh_stream* const stream = std::exchange(stream_, nullptr);
  if (is_clean) {
    entry_.leaving().add(stream);
  } else {
    tmesh_stream_release(stream);
  }
}

std::span<const uint8_t> HttpLocal::origin_front() {
  return stream_ == nullptr ? std::span<const uint8_t>() : front_of(&stream_->in);
}

void HttpLocal::origin_drop(std::size_t n) {
  tmesh_chunkq_consume(&stream_->in, n);
  owed_bytes_ += n;
}

std::size_t HttpLocal::origin_room() {
  if (stream_ != nullptr) return tmesh_stream_out_room(stream_);
  return opening_ == nullptr ? 0 : opening_->early_room();
}

std::size_t HttpLocal::origin_send(std::string_view text) {
  if (stream_ == nullptr) return opening_->send_early(bytes_of(text));
  const std::size_t n = tmesh_stream_write(stream_, text.data(), text.size());
  if (n == 0 && stream_->out.len_bytes == 0 && stream_->batched_bytes == 0) has_failed_ = true;
  return n;
}

std::size_t HttpLocal::pass_to_origin(std::size_t n) {
  if (stream_ == nullptr) {
    const auto bytes = client_front();
    const std::size_t taken = opening_->send_early(bytes.first(std::min(n, bytes.size())));
    client_drop(taken);
    return taken;
  }
  const std::size_t moved = tmesh_chunkq_move(&stream_->out, socket_.in, n);
  if (moved > 0) {
    tmesh_stream_out_added(stream_);
    socket_.ops->consumed(socket_.impl, moved);
  } else if (stream_->out.len_bytes == 0 && stream_->batched_bytes == 0) {
    has_failed_ = true;
  }
  return moved;
}

std::size_t HttpLocal::pass_to_client(std::size_t n) {
  const std::size_t moved = tmesh_chunkq_move(socket_.out, &stream_->in, n);
  owed_bytes_ += moved;
  if (moved > 0) {
    socket_.ops->added(socket_.impl);
  } else if (socket_.out->len_bytes == 0) {
    has_failed_ = true;
  }
  return moved;
}

}  // namespace tmesh::client
