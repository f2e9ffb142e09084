/* A transport that records its events, for the tests of core/loop/transport. */
#ifndef TMESH_TESTS_TRANSPORT_SUPPORT_H
#define TMESH_TESTS_TRANSPORT_SUPPORT_H

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/loop/transport.h"
#include "tests/core/loop/loop_support.h"

#define WIRE_GOT_MAX (4u << 20)

struct wire {
  struct tmesh_transport t;
  unsigned ready_count, data_count, eof_count, written_count, error_count, closed_count;
  unsigned events_after_close;
  struct tmesh_status ready, error;
  uint8_t* got; /* WIRE_GOT_MAX */
  size_t got_bytes;
  bool is_inside; /* a call is running: no callback may come */
  /* what on_data does */
  bool stops_reading, rests, closes;
  struct wire* rebinds_to;
};

static inline void wire_note(struct wire* w) {
  assert_false(w->is_inside);
  if (w->t.closing.is_begun) w->events_after_close++;
}

static inline void wire_on_ready(void* ctx, struct tmesh_status st) {
  struct wire* w = ctx;
  wire_note(w);
  w->ready_count++;
  w->ready = st;
}

static const struct tmesh_transport_events wire_events;

static inline void wire_on_data(void* ctx, uint8_t* data, size_t n) {
  struct wire* w = ctx;
  wire_note(w);
  w->data_count++;
  assert_true(n > 0 && w->got_bytes + n <= WIRE_GOT_MAX);
  memcpy(w->got + w->got_bytes, data, n);
  w->got_bytes += n;
  memset(data, 0, n); /* it is ours to change */
  if (w->stops_reading) tmesh_transport_read(&w->t, false);
  if (w->rests) tmesh_transport_rest(&w->t);
  if (w->closes) tmesh_transport_close(&w->t, false);
  if (w->rebinds_to != NULL) tmesh_transport_rebind(&w->t, &wire_events, w->rebinds_to);
}

static inline void wire_on_eof(void* ctx) {
  wire_note(ctx);
  ((struct wire*)ctx)->eof_count++;
}

static inline void wire_on_written(void* ctx) {
  wire_note(ctx);
  ((struct wire*)ctx)->written_count++;
}

static inline void wire_on_error(void* ctx, struct tmesh_status st) {
  struct wire* w = ctx;
  wire_note(w);
  w->error_count++;
  w->error = st;
}

static inline void wire_on_closed(void* ctx) {
  struct wire* w = ctx;
  assert_false(w->is_inside);
  w->closed_count++;
}

static const struct tmesh_transport_events wire_events = {wire_on_ready,   wire_on_data,  wire_on_eof,
                                                          wire_on_written, wire_on_error, wire_on_closed};

static inline void wire_open(struct wire* w, int fd, struct tmesh_tls_config* config, bool is_server,
                             const char* name) {
  memset(w, 0, sizeof *w);
  w->got = malloc(WIRE_GOT_MAX);
  assert_non_null(w->got);
  w->is_inside = true;
  assert_true(
      tmesh_is_ok(tmesh_transport_open(&w->t, &test_loop, fd, config, is_server, name, &wire_events, w)));
  w->is_inside = false;
}

static inline struct tmesh_status wire_write(struct wire* w, const void* data, size_t n) {
  w->is_inside = true;
  const struct tmesh_status st = tmesh_transport_write(&w->t, data, n);
  w->is_inside = false;
  return st;
}

static inline void wire_read(struct wire* w, bool on) {
  w->is_inside = true;
  tmesh_transport_read(&w->t, on);
  w->is_inside = false;
}

static inline void wire_start_close(struct wire* w, bool is_graceful) {
  w->is_inside = true;
  tmesh_transport_close(&w->t, is_graceful);
  w->is_inside = false;
}

static inline void wire_closed(struct wire* w) {
  RUN_UNTIL(w->closed_count > 0);
  assert_int_equal(w->closed_count, 1);
  assert_int_equal(w->events_after_close, 0);
  free(w->got);
  w->got = NULL;
}

static inline void wire_close(struct wire* w, bool is_graceful) {
  wire_start_close(w, is_graceful);
  wire_closed(w);
}

#endif
