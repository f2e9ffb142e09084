#include "core/loop/transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/loop/socket.h"
#include "core/loop/transport_internal.h"

static bool pump(struct tmesh_transport* t);

/* --- the end ------------------------------------------------------------------- */

static void on_closed(struct tmesh_closing* closing) {
  struct tmesh_transport* t = TMESH_CONTAINER(closing, struct tmesh_transport, closing);
  tmesh_transport_tls_close(t);
  t->events->on_closed(t->ctx);
}

static void close_handle(struct tmesh_transport* t) {
  if (t->is_handle_closed) return;
  t->is_handle_closed = true;
  tmesh_alarm_clear(&t->grace);
  tmesh_flush_cancel(&t->flush);
  tmesh_flush_cancel(&t->step);
  tmesh_closing_handle(&t->closing, (uv_handle_t*)&t->tcp);
}

void tmesh_transport_fail(struct tmesh_transport* t, enum tmesh_code code) {
  if (!tmesh_transport_is_usable(t)) return;
  if (t->closing.is_begun) {
    close_handle(t);
    return;
  }
  /* For a link it is all the same how the peer went. */
  t->failed = tmesh_err_session(code == TMESH_E_RESET ? TMESH_E_CLOSED : code);
  t->owes_error = true;
  t->is_reading = false;
  (void)uv_read_stop((uv_stream_t*)&t->tcp);
  tmesh_loop_flush_request(t->loop, &t->flush);
}

static void fail_uv(struct tmesh_transport* t, int uv_error) {
  tmesh_transport_fail(t, tmesh_code_from_uv(uv_error));
}

static void on_shutdown(uv_shutdown_t* req, int status) {
  struct tmesh_transport* t = req->data;
  if (t->is_handle_closed) return;
  t->is_finished = true;
  if (!t->closing.is_begun && status == 0) {
    tmesh_transport_pump(t);
  } else if (!t->closing.is_begun) {
    fail_uv(t, status);
  } else if (status != 0 || t->is_eof) {
    close_handle(t);
  }
}

/* One step further towards the end of writing, when nothing is being written; whether it
 * is reached. */
static bool advance_end(struct tmesh_transport* t) {
  if (t->tls != NULL && !t->is_notify_queued) {
    t->is_notify_queued = true;
    tmesh_transport_tls_notify(t);
    if (!pump(t)) return false; /* comes back here when it went */
  }
  if (!t->is_shutting_down) {
    t->is_shutting_down = true;
    t->shutdown_req.data = t;
    const int rc = uv_shutdown(&t->shutdown_req, (uv_stream_t*)&t->tcp, on_shutdown);
    if (rc != 0) fail_uv(t, rc);
  }
  return t->is_finished;
}

static void advance_close(struct tmesh_transport* t) {
  if (t->is_handle_closed || t->is_write_pending || t->is_writing) return;
  if (advance_end(t) && t->is_eof) close_handle(t);
}

static void on_grace_over(struct tmesh_alarm* alarm) {
  close_handle(TMESH_CONTAINER(alarm, struct tmesh_transport, grace));
}

/* --- reading --------------------------------------------------------------------- */

static bool is_in_handshake(const struct tmesh_transport* t) {
  return t->tls != NULL && !t->is_ready;
}

static void on_alloc(uv_handle_t* handle, size_t suggested, uv_buf_t* buf) {
  struct tmesh_transport* t = handle->data;
  (void)suggested;
  if (tmesh_burst_is_over(&t->burst, t->loop)) {
    *buf = uv_buf_init(NULL, 0);
    return;
  }
  if (is_in_handshake(t) && !t->closing.is_begun) {
    *buf = tmesh_transport_tls_room(t);
  } else {
    *buf = uv_buf_init((char*)t->loop->read_buffer, TMESH_READ_BUFFER_BYTES);
  }
}

void tmesh_transport_end(struct tmesh_transport* t) {
  if (t->is_end_delivered) return;
  t->is_end_delivered = true;
  t->events->on_eof(t->ctx);
}

static void take(struct tmesh_transport* t, uint8_t* data, size_t n) {
  t->stats.bytes_in += n;
  t->stats.last_read_us = tmesh_loop_now_us(t->loop);
  tmesh_burst_add(&t->burst, t->loop, n);
  if (t->closing.is_begun) return; /* the peer's last words are dropped */
  if (t->tls == NULL) {
    t->events->on_data(t->ctx, data, n);
  } else if (is_in_handshake(t)) {
    tmesh_transport_tls_handshake_data(t, n);
  } else {
    tmesh_transport_tls_data(t, data, n);
  }
}

static void take_eof(struct tmesh_transport* t) {
  t->is_eof = true;
  t->is_reading = false; /* libuv stopped */
  if (t->closing.is_begun) {
    if (t->is_finished) close_handle(t);
  } else if (t->tls == NULL) {
    tmesh_transport_end(t);
  } else {
    tmesh_transport_tls_eof(t);
  }
}

static void on_read(uv_stream_t* stream, ssize_t n, const uv_buf_t* buf) {
  struct tmesh_transport* t = stream->data;
  if (n == UV_ENOBUFS && tmesh_burst_is_over(&t->burst, t->loop)) return; /* its next turn comes */
  if (n > 0) {
    take(t, (uint8_t*)buf->base, (size_t)n);
    if (!t->is_handle_closed) tmesh_transport_update_reading(t);
  } else if (n == UV_EOF) {
    take_eof(t);
  } else if (n < 0) {
    fail_uv(t, (int)n);
  }
}

static bool wants_to_read(const struct tmesh_transport* t) {
  if (t->is_eof || t->is_end_delivered) return t->closing.is_begun && !t->is_eof;
  if (t->closing.is_begun) return true;
  if (is_in_handshake(t)) return tmesh_transport_tls_wants_data(t);
  return t->is_ready_delivered && t->wants_reading && !t->is_resting &&
         (t->tls == NULL || tmesh_transport_tls_wants_data(t));
}

void tmesh_transport_update_reading(struct tmesh_transport* t) {
  if (!tmesh_transport_is_usable(t)) return;
  const bool on = wants_to_read(t);
  if (on == t->is_reading) return;
  t->is_reading = on;
  if (!on) {
    (void)uv_read_stop((uv_stream_t*)&t->tcp);
    return;
  }
  const int rc = uv_read_start((uv_stream_t*)&t->tcp, on_alloc, on_read);
  if (rc != 0) fail_uv(t, rc);
}

void tmesh_transport_read(struct tmesh_transport* t, bool on) {
  if (t->closing.is_begun) return;
  t->wants_reading = on;
  t->is_resting = false;
  /* What was put aside is delivered by the flush. */
  if (on && t->stash != NULL) tmesh_loop_flush_request(t->loop, &t->flush);
  tmesh_transport_update_reading(t);
}

void tmesh_transport_rest(struct tmesh_transport* t) {
  if (t->closing.is_begun) return;
  t->is_resting = true;
  tmesh_transport_update_reading(t);
}

/* --- writing --------------------------------------------------------------------- */

static void on_uv_written(uv_write_t* req, int status) {
  struct tmesh_transport* t = req->data;
  const size_t n = t->writing_bytes;

  t->is_writing = false;
  t->writing_bytes = 0;
  if (!tmesh_transport_is_usable(t)) return;
  if (status != 0) {
    fail_uv(t, status);
    return;
  }
  t->stats.bytes_out += n;
  if (t->tls != NULL) {
    tmesh_transport_tls_sent(t, n);
  } else {
    t->out_done_bytes += n;
  }
  tmesh_transport_pump(t);
}

ptrdiff_t tmesh_transport_send(struct tmesh_transport* t, const uint8_t* data, size_t n, bool waits) {
  uv_buf_t buf = uv_buf_init((char*)data, (unsigned)n);
  int sent = 0;

  if (!t->is_kernel_full) {
    sent = uv_try_write((uv_stream_t*)&t->tcp, &buf, 1);
    if (sent == UV_EAGAIN) sent = 0;
    if (sent < 0) {
      fail_uv(t, sent);
      return -1;
    }
    t->stats.bytes_out += (size_t)sent;
  }
  t->is_kernel_full = false;
  if ((size_t)sent == n) return sent;
  if (!waits) {
    t->is_kernel_full = true;
    return sent;
  }
  buf = uv_buf_init((char*)data + sent, (unsigned)(n - (size_t)sent));
  t->write_req.data = t;
  t->writing_bytes = n - (size_t)sent;
  t->is_writing = true;
  const int rc = uv_write(&t->write_req, (uv_stream_t*)&t->tcp, &buf, 1, on_uv_written);
  if (rc != 0) {
    t->is_writing = false;
    t->writing_bytes = 0;
    fail_uv(t, rc);
    return -1;
  }
  return sent;
}

static bool pump_plain(struct tmesh_transport* t) {
  if (t->is_writing) return false;
  if (t->out_done_bytes < t->out_len_bytes) {
    const ptrdiff_t n =
        tmesh_transport_send(t, t->out + t->out_done_bytes, t->out_len_bytes - t->out_done_bytes, true);
    if (n < 0) return false;
    t->out_done_bytes += (size_t)n;
  }
  return t->out_done_bytes == t->out_len_bytes;
}

/* Whether everything that was given went to the kernel. */
static bool pump(struct tmesh_transport* t) {
  if (!tmesh_transport_is_usable(t)) return false;
  return t->tls != NULL ? tmesh_transport_tls_pump(t) : pump_plain(t);
}

void tmesh_transport_pump(struct tmesh_transport* t) {
  if (!pump(t)) return;
  if (t->is_finishing && !t->closing.is_begun && !advance_end(t)) return;
  if (t->is_write_pending) {
    t->is_write_pending = false;
    t->owes_written = true;
    tmesh_loop_flush_request(t->loop, &t->flush);
  }
  if (t->closing.is_begun) advance_close(t);
}

static struct tmesh_status begin_write(struct tmesh_transport* t, const void* data, size_t len_bytes) {
  if (!tmesh_is_ok(t->failed)) return t->failed;
  if (t->is_write_pending || t->owes_written || t->is_finishing || !t->is_ready || t->closing.is_begun) {
    return tmesh_err_session(TMESH_E_STATE);
  }
  t->out = data;
  t->out_len_bytes = len_bytes;
  t->out_done_bytes = 0;
  return tmesh_ok();
}

struct tmesh_status tmesh_transport_write(struct tmesh_transport* t, const void* data, size_t len_bytes) {
  const struct tmesh_status st = begin_write(t, data, len_bytes);
  if (!tmesh_is_ok(st)) return st;
  t->is_write_pending = true;
  tmesh_transport_pump(t);
  return t->failed;
}

struct tmesh_status tmesh_transport_finish(struct tmesh_transport* t) {
  const struct tmesh_status st = begin_write(t, NULL, 0);
  if (!tmesh_is_ok(st)) return st;
  t->is_write_pending = true;
  t->is_finishing = true;
  tmesh_transport_pump(t);
  return t->failed;
}

struct tmesh_status tmesh_transport_try_write(struct tmesh_transport* t, const void* data, size_t len_bytes,
                                              bool* done) {
  const struct tmesh_status st = begin_write(t, data, len_bytes);
  *done = false;
  if (!tmesh_is_ok(st)) return st;
  *done = pump(t);
  t->is_write_pending = !*done;
  return t->failed;
}

struct tmesh_status tmesh_transport_push(struct tmesh_transport* t, const void* data, size_t len_bytes,
                                         size_t* taken_bytes, bool* is_flushed) {
  const struct tmesh_status st = begin_write(t, data, len_bytes);
  *taken_bytes = 0;
  *is_flushed = false;
  if (!tmesh_is_ok(st)) return st;
  if (t->tls != NULL) {
    *is_flushed = pump(t);
  } else if (!t->is_writing) {
    const ptrdiff_t n = tmesh_transport_send(t, data, len_bytes, false);
    if (n > 0) t->out_done_bytes = (size_t)n;
    *is_flushed = n >= 0;
  }
  *taken_bytes = t->out_done_bytes;
  t->out = NULL;
  t->out_len_bytes = t->out_done_bytes = 0;
  return t->failed;
}

/* --- life -------------------------------------------------------------------------- */

static void deliver_ready(struct tmesh_transport* t) {
  t->is_ready_delivered = true;
  t->owes_error = false;
  t->events->on_ready(t->ctx, t->failed);
}

static void on_flush(struct tmesh_flush* flush) {
  struct tmesh_transport* t = TMESH_CONTAINER(flush, struct tmesh_transport, flush);

  if (t->closing.is_begun) {
    tmesh_transport_pump(t);
    if (!t->is_handle_closed) tmesh_transport_update_reading(t);
    return;
  }
  if (!t->is_ready_delivered && (t->is_ready || t->owes_error)) deliver_ready(t);
  if (t->owes_error && !t->closing.is_begun) {
    t->owes_error = false;
    t->events->on_error(t->ctx, t->failed);
  }
  if (!tmesh_transport_is_usable(t) || t->closing.is_begun) return;
  if (t->owes_written) {
    t->owes_written = false;
    t->events->on_written(t->ctx);
  }
  if (!t->closing.is_begun && t->tls != NULL && t->is_ready_delivered) tmesh_transport_tls_resume(t);
  if (!t->closing.is_begun) tmesh_transport_update_reading(t);
}

struct tmesh_status tmesh_transport_open(struct tmesh_transport* t, struct tmesh_loop* loop, int fd,
                                         struct tmesh_tls_config* tls_config, bool is_server,
                                         const char* server_name, const struct tmesh_transport_events* events,
                                         void* ctx) {
  if (!tmesh_socket_prepare(fd)) return tmesh_err_session(TMESH_E_IO);
  *t = (struct tmesh_transport){.loop = loop, .events = events, .ctx = ctx};
  tmesh_flush_init(&t->flush, on_flush);
  tmesh_alarm_init(&t->grace, on_grace_over);
  t->stats.last_read_us = tmesh_loop_now_us(loop);
  const struct tmesh_status st = tmesh_transport_tls_open(t, tls_config, is_server ? NULL : server_name);
  if (!tmesh_is_ok(st)) {
    (void)close(fd);
    return st;
  }
  const int rc = tmesh_socket_adopt(loop, &t->tcp, fd);
  t->tcp.data = t;
  if (rc != 0) {
    fail_uv(t, rc);
  } else if (t->tls == NULL) {
    t->is_ready = true;
    tmesh_loop_flush_request(loop, &t->flush);
  } else {
    tmesh_loop_after_poll_request(loop, &t->step);
    tmesh_transport_update_reading(t);
  }
  return tmesh_ok();
}

void tmesh_transport_rebind(struct tmesh_transport* t, const struct tmesh_transport_events* events,
                            void* ctx) {
  t->events = events;
  t->ctx = ctx;
}

void tmesh_transport_close(struct tmesh_transport* t, bool is_graceful) {
  if (t->is_handle_closed || (t->closing.is_begun && is_graceful)) return;
  if (!t->closing.is_begun) tmesh_closing_begin(&t->closing, t->loop, on_closed);
  if (!is_graceful || !t->is_ready || !tmesh_is_ok(t->failed)) {
    close_handle(t);
    return;
  }
  tmesh_alarm_set(t->loop, &t->grace, tmesh_loop_now_us(t->loop) + TMESH_TRANSPORT_GRACE_US);
  tmesh_loop_flush_request(t->loop, &t->flush);
}

void tmesh_transport_set_lowat(struct tmesh_transport* t, unsigned bytes) {
  uv_os_fd_t fd;
  if (uv_fileno((const uv_handle_t*)&t->tcp, &fd) != 0) return;
  /* Without it a link works, with more bytes between a control frame and the wire. */
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void tmesh_transport_ack_at_once(struct tmesh_transport* t) {
#ifdef TCP_QUICKACK
  const int on = 1;
  uv_os_fd_t fd;
  if (uv_fileno((const uv_handle_t*)&t->tcp, &fd) != 0) return;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on); /* only time is lost without */
#else
  (void)t;
#endif
}

bool tmesh_transport_peer(const struct tmesh_transport* t, char* out, size_t cap_bytes) {
  struct sockaddr_storage name;
  int len = sizeof name;

  if (uv_tcp_getpeername(&t->tcp, (struct sockaddr*)&name, &len) != 0) return false;
  tmesh_sockaddr_unmap(&name);
  if (name.ss_family == AF_INET) {
    return inet_ntop(AF_INET, &((const struct sockaddr_in*)&name)->sin_addr, out, (socklen_t)cap_bytes);
  }
  if (name.ss_family == AF_INET6) {
    return inet_ntop(AF_INET6, &((const struct sockaddr_in6*)&name)->sin6_addr, out, (socklen_t)cap_bytes);
  }
  return false;
}
