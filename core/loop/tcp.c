#include "core/loop/tcp.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/loop/memory.h"
#include "core/loop/socket.h"
#include "core/loop/tcp_internal.h"

/* Spans of one try: a write takes what the kernel has room for, about a window. */
#define TRY_SPANS_MAX 8u
/* libuv keeps this many buffers of a request without an allocation. */
#define WRITE_SPANS_MAX 4u
/* How long reading rests when the system had no memory, and how often the loop wakes up at
 * least while sockets wait for blocks. */
#define STARVED_REST_US UINT64_C(100000)

static bool is_usable(const struct tmesh_tcp* t) {
  return tmesh_is_ok(t->broken) && !t->is_handle_closed;
}

static bool is_writable(const struct tmesh_tcp* t) {
  return is_usable(t) && t->write_error == 0;
}

/* --- the end ------------------------------------------------------------------- */

static void on_closed(struct tmesh_closing* closing) {
  struct tmesh_tcp* t = TMESH_CONTAINER(closing, struct tmesh_tcp, closing);
  tmesh_chunkq_clear(&t->in);
  tmesh_chunkq_clear(&t->out);
  t->events->on_closed(t->ctx);
}

static void leave_memory(struct tmesh_tcp* t) {
  tmesh_list_remove(&t->in_starved);
  tmesh_list_remove(&t->in_writers);
}

static void close_handle(struct tmesh_tcp* t, bool is_reset) {
  if (t->is_handle_closed) return;
  t->is_handle_closed = true;
  leave_memory(t);
  tmesh_alarm_clear(&t->alarm);
  tmesh_flush_cancel(&t->flush);
  if (is_reset) tmesh_socket_reset_on_close(&t->tcp);
  tmesh_closing_handle(&t->closing, (uv_handle_t*)&t->tcp);
}

void tmesh_tcp_break(struct tmesh_tcp* t, enum tmesh_code code) {
  if (!is_usable(t)) return;
  if (t->closing.is_begun) {
    close_handle(t, true);
    return;
  }
  t->broken = tmesh_err_stream(code);
  t->owes_broken = true;
  leave_memory(t);
  (void)uv_read_stop((uv_stream_t*)&t->tcp);
  t->is_reading = false;
  tmesh_alarm_clear(&t->alarm);
  tmesh_loop_flush_request(t->loop, &t->flush);
}

/* --- reading --------------------------------------------------------------------- */

static void on_alloc(uv_handle_t* handle, size_t suggested, uv_buf_t* buf) {
  struct tmesh_tcp* t = handle->data;
  size_t room = 0;

  (void)suggested;
  if (tmesh_burst_is_over(&t->burst, t->loop)) {
    *buf = uv_buf_init(NULL, 0);
    return;
  }
  if (t->closing.is_begun) {
    *buf = uv_buf_init((char*)t->loop->read_buffer, TMESH_READ_BUFFER_BYTES);
    return;
  }
  const bool has_room = t->in.tail != NULL && t->in.tail->end_bytes < TMESH_BLOCK_BYTES;
  uint8_t* at = has_room || tmesh_memory_may_read(t->loop) ? tmesh_chunkq_reserve(&t->in, &room) : NULL;
  if (room > t->in_max_bytes - t->in.len_bytes) room = t->in_max_bytes - t->in.len_bytes;
  *buf = uv_buf_init((char*)at, (unsigned)room); /* room 0: libuv reports UV_ENOBUFS */
}

/* While closing: whatever still comes is dropped. */
static void discard(struct tmesh_tcp* t, ssize_t n) {
  if (n == UV_EOF) t->is_eof = true;
  if (n < 0) t->is_reading = false;
  if (n == UV_EOF && !t->is_finished) return;
  if (n < 0) {
    close_handle(t, n != UV_EOF);
  } else {
    tmesh_burst_add(&t->burst, t->loop, (size_t)n);
  }
}

/* A read that gave 0 has met the FIN, and there is nothing more to ask. */
static void take_end(struct tmesh_tcp* t, bool was_read) {
  const int behind = was_read && t->write_error == 0 ? 0 : tmesh_tcp_look_behind(t);

  if (behind < 0) {
    tmesh_tcp_break(t, tmesh_code_from_uv(behind));
    return;
  }
  t->is_eof = behind == 0;
  tmesh_tcp_update_reading(t);
  if (!t->is_eof) return;
  t->events->on_eof(t->ctx);
  if (t->write_error != 0) tmesh_tcp_break(t, tmesh_code_from_uv(t->write_error));
}

/* Rests until the pool has room again, or for a while when it was the system that had none. */
static void starve(struct tmesh_tcp* t) {
  t->is_starved = true;
  if (!tmesh_memory_may_read(t->loop) && !tmesh_list_linked(&t->in_starved)) {
    tmesh_list_push_back(&t->loop->memory.starved, &t->in_starved);
  }
  tmesh_tcp_update_reading(t);
}

void tmesh_tcp_fed(struct tmesh_tcp* t) {
  tmesh_list_remove(&t->in_starved);
  t->is_starved = false;
  tmesh_tcp_update_reading(t);
}

static void on_read(uv_stream_t* stream, ssize_t n, const uv_buf_t* buf) {
  struct tmesh_tcp* t = stream->data;

  if (n == UV_ENOBUFS && tmesh_burst_is_over(&t->burst, t->loop)) return; /* its next turn comes */
  if (t->closing.is_begun) {
    discard(t, n);
    return;
  }
  if (buf->base != NULL) tmesh_chunkq_commit(&t->in, n > 0 ? (size_t)n : 0);
  if (n > 0) {
    tmesh_burst_add(&t->burst, t->loop, (size_t)n);
    t->events->on_readable(t->ctx);
    tmesh_tcp_update_reading(t);
  } else if (n == UV_ENOBUFS) {
    starve(t);
  } else if (n == UV_EOF) {
    t->is_reading = false; /* libuv stopped */
    take_end(t, buf->base != NULL);
  } else if (n < 0) {
    tmesh_tcp_break(t, tmesh_code_from_uv((int)n));
  }
}

static void set_reading(struct tmesh_tcp* t, bool on) {
  if (on == t->is_reading) return;
  t->is_reading = on;
  if (!on) {
    (void)uv_read_stop((uv_stream_t*)&t->tcp);
    return;
  }
  const int rc = uv_read_start((uv_stream_t*)&t->tcp, on_alloc, on_read);
  if (rc != 0) {
    t->is_reading = false;
    tmesh_tcp_break(t, tmesh_code_from_uv(rc));
  }
}

void tmesh_tcp_update_reading(struct tmesh_tcp* t) {
  if (!is_usable(t)) return;
  const bool wants = (t->wants_reading || t->closing.is_begun) && !t->is_eof;
  const bool is_full = !t->closing.is_begun && t->in.len_bytes >= t->in_max_bytes;

  set_reading(t, wants && !is_full && !t->is_starved);
  if (!is_usable(t)) return;
  if (t->closing.is_begun) return; /* the alarm is the deadline */
  if (wants && t->is_starved) {
    if (!tmesh_alarm_is_set(&t->alarm)) {
      tmesh_alarm_set(t->loop, &t->alarm, tmesh_loop_now_us(t->loop) + STARVED_REST_US);
    }
  } else if (wants && is_full) {
    if (t->paused_since_us == 0) {
      t->paused_since_us = tmesh_loop_now_us(t->loop);
      tmesh_alarm_set(t->loop, &t->alarm, t->paused_since_us + t->loop->paused_probe_us);
    }
  } else {
    t->paused_since_us = 0;
    t->half_closed_us = 0;
    if (!t->is_eof) {
      tmesh_alarm_clear(&t->alarm);
    } else if (!tmesh_alarm_is_set(&t->alarm)) {
      tmesh_alarm_set(t->loop, &t->alarm, tmesh_loop_now_us(t->loop) + t->loop->paused_probe_us);
    }
  }
}

static void on_alarm(struct tmesh_alarm* alarm) {
  struct tmesh_tcp* t = TMESH_CONTAINER(alarm, struct tmesh_tcp, alarm);
  if (t->closing.is_begun) {
    /* The peer did not take the rest, or did not end: the first must show. */
    close_handle(t, !t->is_finished);
  } else if (t->is_starved && tmesh_list_linked(&t->in_starved)) {
    /* Its turn comes from memory.c, which looks around when the loop wakes up. */
    tmesh_alarm_set(t->loop, &t->alarm, tmesh_loop_now_us(t->loop) + STARVED_REST_US);
  } else if (t->is_starved) {
    tmesh_tcp_fed(t);
  } else {
    tmesh_tcp_probe(t);
  }
}

/* --- writing --------------------------------------------------------------------- */

static void report_written(struct tmesh_tcp* t, size_t n) {
  if (t->closing.is_begun) return;
  t->events->on_written(t->ctx, n, t->out.len_bytes == 0 && (!t->is_finishing || t->is_finished));
}

/* A connection that the peer reset takes no byte, but the bytes that came before the
 * RST wait in the kernel: their end breaks the socket. */
static void write_failed(struct tmesh_tcp* t, int uv_error) {
  const enum tmesh_code code = tmesh_code_from_uv(uv_error);
  if (code != TMESH_E_RESET || t->closing.is_begun || !t->wants_reading || t->is_eof) {
    tmesh_tcp_break(t, code);
    return;
  }
  t->write_error = uv_error;
  tmesh_chunkq_clear(&t->out);
}

/* Nothing waits to be written, so the FIN needs no turn of libuv's queue. */
static void shut_down(struct tmesh_tcp* t) {
  uv_os_fd_t fd;
  int rc = uv_fileno((const uv_handle_t*)&t->tcp, &fd);

  t->is_shutting_down = true;
  if (rc == 0 && shutdown(fd, SHUT_WR) != 0) rc = uv_translate_sys_error(errno);
  if (rc != 0) {
    write_failed(t, rc);
    return;
  }
  t->is_finished = true;
  if (t->closing.is_begun && t->is_eof) {
    close_handle(t, false);
  } else {
    report_written(t, 0);
  }
}

static unsigned fill(const struct tmesh_chunkq* q, uv_buf_t* bufs, unsigned max, size_t max_bytes,
                     size_t* total_bytes) {
  struct tmesh_span spans[TRY_SPANS_MAX];
  const size_t count = tmesh_chunkq_peek(q, spans, max);
  unsigned used = 0;

  *total_bytes = 0;
  for (; used < count && *total_bytes < max_bytes; used++) {
    size_t len = spans[used].len_bytes;
    if (len > max_bytes - *total_bytes) len = max_bytes - *total_bytes;
    bufs[used] = uv_buf_init((char*)spans[used].data, (unsigned)len);
    *total_bytes += len;
  }
  return used;
}

static void write_out(struct tmesh_tcp* t);

static void on_uv_written(uv_write_t* req, int status) {
  struct tmesh_tcp* t = req->data;
  const size_t n = t->writing_bytes;

  t->is_writing = false;
  t->writing_bytes = 0;
  tmesh_list_remove(&t->in_writers);
  if (!is_usable(t)) return;
  if (status != 0) {
    write_failed(t, status);
    return;
  }
  tmesh_chunkq_consume(&t->out, n);
  report_written(t, n);
  write_out(t);
}

/* The kernel is full: one write waits for it. The blocks stay where they are, since
 * only the callback consumes; appending goes behind them. */
static void write_later(struct tmesh_tcp* t) {
  uv_buf_t bufs[WRITE_SPANS_MAX];
  const unsigned count = fill(&t->out, bufs, WRITE_SPANS_MAX, TMESH_TCP_WRITE_MAX_BYTES, &t->writing_bytes);

  t->write_req.data = t;
  t->is_writing = true;
  t->waiting_since_us = tmesh_loop_now_us(t->loop);
  tmesh_list_push_back(&t->loop->memory.writers, &t->in_writers);
  const int rc = uv_write(&t->write_req, (uv_stream_t*)&t->tcp, bufs, count, on_uv_written);
  if (rc != 0) {
    t->is_writing = false;
    t->writing_bytes = 0;
    tmesh_list_remove(&t->in_writers);
    write_failed(t, rc);
  }
}

/* Callbacks may change everything: each step looks at the state anew. */
static void write_out(struct tmesh_tcp* t) {
  size_t burst_bytes = 0;

  while (is_writable(t) && !t->is_writing && t->out.len_bytes > 0) {
    uv_buf_t bufs[TRY_SPANS_MAX];
    size_t offered;
    const unsigned count = fill(&t->out, bufs, TRY_SPANS_MAX, SIZE_MAX, &offered);
    if (burst_bytes >= TMESH_WRITE_BURST_BYTES) {
      tmesh_loop_flush_request(t->loop, &t->flush);
      return;
    }
    int n = uv_try_write((uv_stream_t*)&t->tcp, bufs, count);
    if (n == UV_EAGAIN) n = 0;
    if (n < 0) {
      write_failed(t, n);
      return;
    }
    burst_bytes += (size_t)n;
    tmesh_chunkq_consume(&t->out, (size_t)n);
    if ((size_t)n < offered) write_later(t);
    if (n > 0) report_written(t, (size_t)n);
  }
  if (is_writable(t) && t->is_finishing && !t->is_shutting_down && !t->is_writing && t->out.len_bytes == 0) {
    shut_down(t);
  }
}

static void on_flush(struct tmesh_flush* flush) {
  struct tmesh_tcp* t = TMESH_CONTAINER(flush, struct tmesh_tcp, flush);
  if (t->owes_broken) {
    t->owes_broken = false;
    if (!t->closing.is_begun) t->events->on_broken(t->ctx, t->broken);
    return;
  }
  write_out(t);
  tmesh_tcp_update_reading(t);
}

/* --- life -------------------------------------------------------------------------- */

bool tmesh_tcp_prepare(int fd) {
  if (!tmesh_socket_prepare(fd)) return false;
  tmesh_socket_keep_alive(fd, TMESH_TCP_KEEPALIVE_S);
  return true;
}

struct tmesh_status tmesh_tcp_open(struct tmesh_tcp* t, struct tmesh_loop* loop, int fd,
                                   const struct tmesh_tcp_events* events, void* ctx) {
  if (!tmesh_tcp_prepare(fd)) return tmesh_err_stream(TMESH_E_IO);
  tmesh_tcp_open_prepared(t, loop, fd, events, ctx);
  return tmesh_ok();
}

void tmesh_tcp_open_prepared(struct tmesh_tcp* t, struct tmesh_loop* loop, int fd,
                             const struct tmesh_tcp_events* events, void* ctx) {
  *t = (struct tmesh_tcp){.loop = loop, .events = events, .ctx = ctx};
  tmesh_chunkq_init(&t->in, &loop->pool);
  tmesh_chunkq_init(&t->out, &loop->pool);
  tmesh_flush_init(&t->flush, on_flush);
  tmesh_alarm_init(&t->alarm, on_alarm);
  tmesh_list_init(&t->in_starved);
  tmesh_list_init(&t->in_writers);
  const int rc = tmesh_socket_adopt(loop, &t->tcp, fd);
  t->tcp.data = t;
  if (rc != 0) tmesh_tcp_break(t, tmesh_code_from_uv(rc));
}

void tmesh_tcp_rebind(struct tmesh_tcp* t, const struct tmesh_tcp_events* events, void* ctx) {
  t->events = events;
  t->ctx = ctx;
}

void tmesh_tcp_read(struct tmesh_tcp* t, size_t in_max_bytes) {
  TMESH_ASSERT(in_max_bytes > 0);
  if (t->closing.is_begun) return;
  t->in_max_bytes = in_max_bytes;
  t->wants_reading = true;
  tmesh_tcp_update_reading(t);
}

struct tmesh_status tmesh_tcp_send(struct tmesh_tcp* t, const void* data, size_t n) {
  if (t->is_finishing || t->closing.is_begun || !is_writable(t)) return tmesh_err_stream(TMESH_E_STATE);
  const struct tmesh_status st = tmesh_chunkq_append(&t->out, data, n);
  if (tmesh_is_ok(st)) tmesh_loop_flush_request(t->loop, &t->flush);
  return st;
}

void tmesh_tcp_finish(struct tmesh_tcp* t) {
  if (t->is_finishing || !is_writable(t)) return;
  t->is_finishing = true;
  tmesh_loop_flush_request(t->loop, &t->flush);
}

void tmesh_tcp_close(struct tmesh_tcp* t, bool is_graceful) {
  if (t->is_handle_closed || (t->closing.is_begun && is_graceful)) return;
  if (!t->closing.is_begun) {
    tmesh_closing_begin(&t->closing, t->loop, on_closed);
    tmesh_chunkq_clear(&t->in);
  }
  if (!is_graceful || !is_writable(t)) {
    close_handle(t, true);
  } else if (t->is_finished && t->is_eof) {
    close_handle(t, false);
  } else {
    t->is_finishing = true;
    t->is_starved = false;
    tmesh_list_remove(&t->in_starved);
    tmesh_alarm_set(t->loop, &t->alarm, tmesh_loop_now_us(t->loop) + TMESH_TCP_GRACE_US);
    tmesh_loop_flush_request(t->loop, &t->flush);
  }
}

/* --- a socket as an end --------------------------------------------------------------- */

static size_t end_room(void* impl) {
  const struct tmesh_tcp* t = impl;
  if (t->is_finishing || t->closing.is_begun || !is_writable(t)) return 0;
  return t->out.len_bytes >= TMESH_TCP_OUT_MAX_BYTES ? 0 : TMESH_TCP_OUT_MAX_BYTES - t->out.len_bytes;
}

static void end_added(void* impl) {
  struct tmesh_tcp* t = impl;
  tmesh_loop_flush_request(t->loop, &t->flush);
}

static void end_finish(void* impl) {
  tmesh_tcp_finish(impl);
}

/* Bytes left `in`, or will when the splice goes on: the flush looks whether to read again. */
static void end_consumed(void* impl, size_t n) {
  struct tmesh_tcp* t = impl;
  (void)n;
  if (!t->is_handle_closed) tmesh_loop_flush_request(t->loop, &t->flush);
}

static void end_abort(void* impl) {
  tmesh_tcp_close(impl, false);
}

static const struct tmesh_end_ops end_ops = {end_room, end_added, end_finish, end_consumed, end_abort};

struct tmesh_end tmesh_tcp_end(struct tmesh_tcp* t) {
  return (struct tmesh_end){.ops = &end_ops,
                            .impl = t,
                            .in = &t->in,
                            .out = &t->out,
                            .foreign_bytes = t->out.len_bytes,
                            .in_eof = t->is_eof};
}

void tmesh_tcp_check(const struct tmesh_tcp* t) {
  tmesh_chunkq_check(&t->in);
  tmesh_chunkq_check(&t->out);
  TMESH_ASSERT(t->writing_bytes <= t->out.len_bytes);
  TMESH_ASSERT(t->is_writing == (t->writing_bytes > 0));
  TMESH_ASSERT(!t->is_finished || (t->is_shutting_down && t->out.len_bytes == 0));
  TMESH_ASSERT(!t->wants_reading || t->closing.is_begun || t->in.len_bytes <= t->in_max_bytes);
  TMESH_ASSERT(!t->is_reading || !t->is_eof);
}
