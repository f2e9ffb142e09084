/* Bulk bytes from one plain socket to another through whatever lies between, checked
 * byte by byte. */
#ifndef TMESH_TESTS_FLOW_SUPPORT_H
#define TMESH_TESTS_FLOW_SUPPORT_H

#include <sys/socket.h>

#include "tests/core/loop/loop_support.h"

/* One direction of a bulk transfer: what to send into one peer and find at the other. */
struct flow {
  int from, to;
  uint32_t seed;
  uint64_t total, sent, got;
  bool is_shut, is_eof;
};

static inline void flow_step(struct flow* f) {
  static uint8_t buf[65536];
  if (f->sent < f->total) {
    size_t n = f->total - f->sent < sizeof buf ? (size_t)(f->total - f->sent) : sizeof buf;
    test_fill(f->seed, f->sent, buf, n);
    f->sent += test_send(f->from, buf, n);
  } else if (!f->is_shut) {
    f->is_shut = true;
    shutdown(f->from, SHUT_WR);
  }
  size_t len = 0;
  int rc = test_recv(f->to, buf, sizeof buf, &len);
  assert_true(rc >= 0);
  test_match(f->seed, f->got, buf, len);
  f->got += len;
  if (rc == 0) f->is_eof = true;
}

static inline bool flow_done(struct flow* f) {
  if (!f->is_eof) flow_step(f);
  return f->is_eof;
}

#endif
