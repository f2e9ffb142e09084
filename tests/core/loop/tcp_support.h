/* A tmesh_tcp that records its events, for the tests of core/loop/tcp. */
#ifndef TMESH_TESTS_TCP_SUPPORT_H
#define TMESH_TESTS_TCP_SUPPORT_H

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/loop/tcp.h"
#include "tests/core/loop/loop_support.h"

struct sock {
  struct tmesh_tcp tcp;
  unsigned readable_count, eof_count, written_count, broken_count, closed_count;
  uint64_t read_bytes, written_bytes;
  bool all_written, takes, closes_in_readable;
  struct tmesh_status why;
  unsigned events_after_close;
};

static inline void sock_note(struct sock* s) {
  if (s->tcp.closing.is_begun) s->events_after_close++;
  tmesh_tcp_check(&s->tcp);
}

static inline void sock_on_readable(void* ctx) {
  struct sock* s = ctx;
  sock_note(s);
  s->readable_count++;
  if (s->takes) {
    s->read_bytes += s->tcp.in.len_bytes;
    tmesh_chunkq_consume(&s->tcp.in, s->tcp.in.len_bytes);
  }
  if (s->closes_in_readable) tmesh_tcp_close(&s->tcp, false);
}

static inline void sock_on_eof(void* ctx) {
  sock_note(ctx);
  ((struct sock*)ctx)->eof_count++;
}

static inline void sock_on_written(void* ctx, size_t n, bool all_written) {
  struct sock* s = ctx;
  sock_note(s);
  /* "All" includes the FIN. */
  assert_true(!all_written || (s->tcp.out.len_bytes == 0 && s->tcp.is_finishing == s->tcp.is_finished));
  s->written_count++;
  s->written_bytes += n;
  s->all_written = all_written;
}

static inline void sock_on_broken(void* ctx, struct tmesh_status why) {
  struct sock* s = ctx;
  sock_note(s);
  s->broken_count++;
  s->why = why;
}

static inline void sock_on_closed(void* ctx) {
  ((struct sock*)ctx)->closed_count++;
}

static const struct tmesh_tcp_events sock_events = {sock_on_readable, sock_on_eof, sock_on_written,
                                                    sock_on_broken, sock_on_closed};

static inline void sock_open(struct sock* s, int fd) {
  memset(s, 0, sizeof *s);
  assert_true(tmesh_is_ok(tmesh_tcp_open(&s->tcp, &test_loop, fd, &sock_events, s)));
}

static inline void sock_close(struct sock* s, bool is_graceful) {
  tmesh_tcp_close(&s->tcp, is_graceful);
  RUN_UNTIL(s->closed_count > 0);
  assert_int_equal(s->closed_count, 1);
  assert_int_equal(s->events_after_close, 0);
}

#endif
