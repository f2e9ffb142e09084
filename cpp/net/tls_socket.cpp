#include "cpp/net/tls_socket.hpp"

#include <uv.h>

#include <utility>

#include "core/base/check.h"
#include "core/loop/memory.h"
#include "core/loop/socket.h"
#include "core/loop/tcp.h"
#include "core/loop/transport.h"
#include "core/wire/tls.h"

namespace tmesh::net {
namespace {

// How long reading rests when the pool is short of blocks.
constexpr uint64_t kShortRest_us = 100'000;

}  // namespace

struct TlsSocket::Node {
  tmesh_transport c{};
  Ready ready;
  TcpHandler* handler = nullptr;
  tmesh_flush flush{};
  tmesh_alarm alarm{};  // while it is not read
  tmesh_chunkq in{};
  tmesh_chunkq out{};
  std::size_t in_max_bytes = 0;   // 0 = nobody reads yet
  std::size_t writing_bytes = 0;  // at the head of `out`, given to the transport
  uint64_t half_closed_us = 0;    // when the peer of a resting socket was first seen to have ended
  bool is_finishing = false;      // no byte follows what is in `out`
  bool is_finish_begun = false;
  bool is_finished = false;
  bool is_eof = false;
  bool is_broken = false;
  bool owes_readable = false;
  bool is_closing = false;
  // A splice can close the C object while the owner still holds the node.
  bool has_owner = true;
  bool is_closed = false;

  tmesh_loop* loop() { return c.loop; }
  bool is_usable() const { return !is_closing && !is_broken; }
  void request_flush() {
    if (!is_closing) tmesh_loop_flush_request(loop(), &flush);
  }
  void take(const uint8_t* data, std::size_t n);
  void tell_readable();
  void update_reading();
  void look_later(uint64_t us);
  void probe();
  void write_out();
  void finish_out();
  void report_written(std::size_t n);
  void break_with(tmesh_code code);
  void end_use();
  void close(bool is_graceful);
};

struct TlsSocketGlue {
  using Node = TlsSocket::Node;
  static Node& node(void* ctx) { return *static_cast<Node*>(ctx); }

  static void on_ready(void* ctx, tmesh_status st) {
    Node& n = node(ctx);
    n.is_broken = !tmesh_is_ok(st);
    n.ready(tmesh_is_ok(st) ? st : tmesh_err_stream(static_cast<tmesh_code>(st.code)));
  }
  static void on_data(void* ctx, uint8_t* data, size_t len_bytes) { node(ctx).take(data, len_bytes); }
  static void on_eof(void* ctx) {
    Node& n = node(ctx);
    n.is_eof = true;
    n.look_later(n.loop()->paused_probe_us);
    if (n.handler != nullptr) n.handler->on_eof();
  }
  static void on_written(void* ctx) {
    Node& n = node(ctx);
    if (n.is_finish_begun) {
      n.is_finished = true;
      return n.report_written(0);
    }
    const std::size_t written = std::exchange(n.writing_bytes, 0);
    tmesh_chunkq_consume(&n.out, written);
    n.report_written(written);
    n.write_out();
  }
  // For a link it is all the same how a peer went; a splice gives RESET time for the last bytes.
  static void on_error(void* ctx, tmesh_status st) {
    node(ctx).break_with(st.code == TMESH_E_CLOSED ? TMESH_E_RESET : static_cast<tmesh_code>(st.code));
  }
  static void on_closed(void* ctx) {
    Node& n = node(ctx);
    tmesh_chunkq_clear(&n.in);
    tmesh_chunkq_clear(&n.out);
    n.is_closed = true;
    if (!n.has_owner) delete &n;
  }
  static constexpr tmesh_transport_events kEvents = {on_ready,   on_data,  on_eof,
                                                     on_written, on_error, on_closed};

  static void on_flush(tmesh_flush* flush) {
    Node& n = *TMESH_CONTAINER(flush, Node, flush);
    if (std::exchange(n.owes_readable, false)) n.tell_readable();
    if (n.is_usable()) n.write_out();
    if (n.is_usable()) n.update_reading();
  }
  static void on_alarm(tmesh_alarm* alarm) {
    Node& n = *TMESH_CONTAINER(alarm, Node, alarm);
    n.probe();
    if (!n.is_usable()) return;
    n.is_eof ? n.look_later(n.loop()->paused_probe_us) : n.update_reading();
  }

  static size_t room(void* impl) {
    const Node& n = node(impl);
    if (!n.is_usable() || n.is_finishing || n.out.len_bytes >= TMESH_TCP_OUT_MAX_BYTES) return 0;
    return TMESH_TCP_OUT_MAX_BYTES - n.out.len_bytes;
  }
  static void flush_later(void* impl) { node(impl).request_flush(); }
  static void finish(void* impl) {
    node(impl).is_finishing = true;
    node(impl).request_flush();
  }
  static void consumed(void* impl, size_t) { node(impl).request_flush(); }
  static void abort(void* impl) { node(impl).close(false); }
  static constexpr tmesh_end_ops kEnd = {room, flush_later, finish, consumed, abort};
};

// --- inbound -------------------------------------------------------------------------

void TlsSocket::Node::take(const uint8_t* data, std::size_t n) {
  if (is_broken) return;
  const tmesh_status st = tmesh_chunkq_append(&in, data, n);
  if (!tmesh_is_ok(st)) return break_with(TMESH_E_NO_MEMORY);
  // Records are collected until there is a whole block, which moves by pointer.
  if (in.len_bytes < TMESH_BLOCK_BYTES) {
    owes_readable = true;
    return request_flush();
  }
  owes_readable = false;
  tell_readable();
  if (is_usable()) update_reading();
}

void TlsSocket::Node::tell_readable() {
  if (handler != nullptr && !is_closing) handler->on_readable();
}

void TlsSocket::Node::update_reading() {
  if (in_max_bytes == 0 || is_eof) return;
  const bool is_full = in.len_bytes >= in_max_bytes;
  if (!is_full && tmesh_memory_may_read(loop())) {
    tmesh_alarm_clear(&alarm);
    half_closed_us = 0;
    return tmesh_transport_read(&c, true);
  }
  tmesh_transport_rest(&c);
  if (!tmesh_alarm_is_set(&alarm)) look_later(is_full ? loop()->paused_probe_us : kShortRest_us);
}

void TlsSocket::Node::look_later(uint64_t us) {
  if (is_usable()) tmesh_alarm_set(loop(), &alarm, tmesh_loop_now_us(loop()) + us);
}

// Nobody would ever notice that the peer of a socket that is not read is gone.
void TlsSocket::Node::probe() {
  uv_os_fd_t fd;
  if (uv_fileno(reinterpret_cast<const uv_handle_t*>(&c.tcp), &fd) != 0) return;
  const tmesh_peer_state state = tmesh_socket_peer(fd, c.is_shutting_down);
  const uint64_t now_us = tmesh_loop_now_us(loop());
  if (state == TMESH_PEER_GONE) return break_with(TMESH_E_RESET);
  // What has ended regularly may take as long as it likes to read what we send.
  if (state != TMESH_PEER_ENDED || is_eof) return;
  if (half_closed_us == 0) half_closed_us = now_us;
  if (now_us - half_closed_us >= loop()->stalled_close_us) break_with(TMESH_E_TIMEOUT);
}

// --- outbound ------------------------------------------------------------------------

void TlsSocket::Node::report_written(std::size_t n) {
  if (handler != nullptr && !is_closing) {
    handler->on_written(n, out.len_bytes == 0 && (!is_finishing || is_finished));
  }
}

// A handler may change everything: each step looks at the state anew.
void TlsSocket::Node::write_out() {
  std::size_t burst_bytes = 0;
  while (is_usable() && writing_bytes == 0 && !is_finish_begun && out.len_bytes > 0) {
    if (burst_bytes >= TMESH_WRITE_BURST_BYTES) return request_flush();
    tmesh_span span{};
    tmesh_chunkq_peek(&out, &span, 1);
    bool is_done = false;
    // A failure comes as on_error; STATE cannot be.
    if (!tmesh_is_ok(tmesh_transport_try_write(&c, span.data, span.len_bytes, &is_done))) return;
    if (!is_done) {
      writing_bytes = span.len_bytes;
      return;
    }
    burst_bytes += span.len_bytes;
    tmesh_chunkq_consume(&out, span.len_bytes);
    report_written(span.len_bytes);
  }
  finish_out();
}

void TlsSocket::Node::finish_out() {
  if (!is_usable() || !is_finishing || is_finish_begun || writing_bytes != 0 || out.len_bytes != 0) return;
  is_finish_begun = true;
  if (tmesh_tls_negotiated(c.tls) == TMESH_TLS_VERSION_1_2) {
    is_finished = true;
    return report_written(0);
  }
  const tmesh_status st = tmesh_transport_finish(&c);
  TMESH_ASSERT(st.code != TMESH_E_STATE);
}

// --- the end -------------------------------------------------------------------------

void TlsSocket::Node::break_with(tmesh_code code) {
  if (!is_usable()) return;
  if (std::exchange(owes_readable, false)) tell_readable();
  if (!is_usable()) return;
  is_broken = true;
  tmesh_alarm_clear(&alarm);
  tmesh_transport_read(&c, false);
  if (handler != nullptr) handler->on_broken(tmesh_err_stream(code));
}

void TlsSocket::Node::end_use() {
  is_closing = true;
  tmesh_flush_cancel(&flush);
  tmesh_alarm_clear(&alarm);
}

void TlsSocket::Node::close(bool is_graceful) {
  if (is_closed) return;
  end_use();
  tmesh_transport_close(&c, is_graceful && !is_broken);
}

Result<TlsSocket> TlsSocket::connect(Loop& loop, int fd, const TlsContext& tls, const char* server_name,
                                     Ready ready) {
  auto* node = new Node;
  node->ready = ready;
  tmesh_flush_init(&node->flush, &TlsSocketGlue::on_flush);
  tmesh_alarm_init(&node->alarm, &TlsSocketGlue::on_alarm);
  tmesh_chunkq_init(&node->in, loop.pool());
  tmesh_chunkq_init(&node->out, loop.pool());
  // A peer that vanished without a word while nothing is sent is found by the kernel.
  tmesh_socket_keep_alive(fd, TMESH_TCP_KEEPALIVE_S);
  const tmesh_status st = tmesh_transport_open(&node->c, loop.raw(), fd, tls.raw(), false, server_name,
                                               &TlsSocketGlue::kEvents, node);
  if (!tmesh_is_ok(st)) {
    delete node;
    return fail(static_cast<tmesh_code>(st.code), "the connection cannot be set up");
  }
  return TlsSocket(node);
}

TlsSocket& TlsSocket::operator=(TlsSocket&& other) noexcept {
  if (this != &other) {
    close(false);
    node_ = std::exchange(other.node_, nullptr);
  }
  return *this;
}

void TlsSocket::set_handler(TcpHandler& handler) {
  node_->handler = &handler;
}

void TlsSocket::read(std::size_t in_max_bytes) {
  node_->in_max_bytes = in_max_bytes;
  node_->request_flush();
}

tmesh_chunkq* TlsSocket::in() {
  return &node_->in;
}

void TlsSocket::close(bool is_graceful) {
  if (node_ == nullptr) return;
  Node* node = std::exchange(node_, nullptr);
  node->handler = nullptr;
  node->has_owner = false;
  if (node->is_closed) {
    delete node;
  } else {
    node->close(is_graceful);
  }
}

tmesh_end TlsSocket::end() {
  return {&TlsSocketGlue::kEnd, node_,         &node_->in, &node_->out, node_->out.len_bytes,
          TMESH_END_UNKNOWN,    node_->is_eof, false,      false};
}

}  // namespace tmesh::net
