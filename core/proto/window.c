#include "core/proto/window.h"

#include "core/base/check.h"

static uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

void tmesh_send_window_init(struct tmesh_send_window* w, uint32_t initial_bytes, uint32_t cap_bytes) {
  w->is_limited = initial_bytes != 0;
  w->credit_bytes = initial_bytes;
  /* The peer's own announcement is honoured exactly, whatever the cap (invariant W3). */
  w->cap_bytes = cap_bytes < initial_bytes ? initial_bytes : cap_bytes;
}

void tmesh_send_window_uncap(struct tmesh_send_window* w) {
  w->cap_bytes = UINT32_MAX;
}

uint32_t tmesh_send_window_available(const struct tmesh_send_window* w, uint32_t want_bytes) {
  return w->is_limited ? min_u32(w->credit_bytes, want_bytes) : want_bytes;
}

void tmesh_send_window_take(struct tmesh_send_window* w, uint32_t n) {
  if (!w->is_limited) return;
  TMESH_ASSERT(n <= w->credit_bytes);
  w->credit_bytes -= n;
}

struct tmesh_status tmesh_send_window_grant(struct tmesh_send_window* w, uint32_t delta_bytes) {
  if (delta_bytes == 0) return tmesh_err_stream(TMESH_E_WINDOW_ZERO);
  if (!w->is_limited) return tmesh_ok();
  if (w->cap_bytes == UINT32_MAX) {
    if (delta_bytes > UINT32_MAX - w->credit_bytes) return tmesh_err_stream(TMESH_E_WINDOW_OVERFLOW);
    w->credit_bytes += delta_bytes;
    return tmesh_ok();
  }
  w->credit_bytes += min_u32(delta_bytes, w->cap_bytes - w->credit_bytes);
  return tmesh_ok();
}

static uint32_t effective_threshold(uint32_t size_bytes, uint32_t threshold_bytes) {
  uint32_t t = min_u32(threshold_bytes, size_bytes / 2);
  t = min_u32(t, size_bytes > TMESH_DATA_MAX_BYTES ? size_bytes - TMESH_DATA_MAX_BYTES : 1);
  return t == 0 ? 1 : t;
}

void tmesh_recv_window_init(struct tmesh_recv_window* w, uint32_t size_bytes, uint32_t threshold_bytes) {
  w->is_limited = size_bytes != 0;
  w->size_bytes = size_bytes;
  w->credit_bytes = size_bytes;
  w->consumed_bytes = 0;
  w->threshold_bytes = effective_threshold(size_bytes, threshold_bytes);
}

struct tmesh_status tmesh_recv_window_receive(struct tmesh_recv_window* w, uint32_t n) {
  if (!w->is_limited) return tmesh_ok();
  if (n > w->credit_bytes) return tmesh_err_stream(TMESH_E_WINDOW_EXCEEDED);
  w->credit_bytes -= n;
  return tmesh_ok();
}

uint32_t tmesh_recv_window_consume(struct tmesh_recv_window* w, uint32_t n) {
  if (!w->is_limited) return 0;
  TMESH_ASSERT(n <= w->size_bytes - w->credit_bytes - w->consumed_bytes);
  w->consumed_bytes += n;
  if (w->consumed_bytes < w->threshold_bytes && w->credit_bytes >= TMESH_DATA_MAX_BYTES) return 0;
  uint32_t delta = w->consumed_bytes;
  w->credit_bytes += delta;
  w->consumed_bytes = 0;
  return delta;
}

void tmesh_recv_window_grow(struct tmesh_recv_window* w, uint32_t size_bytes, uint32_t threshold_bytes) {
  TMESH_ASSERT(w->is_limited && size_bytes >= w->size_bytes);
  w->consumed_bytes += size_bytes - w->size_bytes;
  w->size_bytes = size_bytes;
  w->threshold_bytes = effective_threshold(size_bytes, threshold_bytes);
}

void tmesh_recv_window_shrink(struct tmesh_recv_window* w, uint32_t n, uint32_t threshold_bytes) {
  TMESH_ASSERT(w->is_limited && n <= w->size_bytes - w->credit_bytes - w->consumed_bytes);
  w->size_bytes -= n;
  TMESH_ASSERT(w->size_bytes > TMESH_DATA_MAX_BYTES);
  w->threshold_bytes = effective_threshold(w->size_bytes, threshold_bytes);
}
