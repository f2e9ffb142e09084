/* Credit windows of one stream in one direction (requirement E3). Arithmetic only. */
#ifndef TMESH_PROTO_WINDOW_H
#define TMESH_PROTO_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/proto/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What we may still send. Not enforced when is_limited is false (legacy, UDP). */
struct tmesh_send_window {
  bool is_limited;
  uint32_t credit_bytes;
  uint32_t cap_bytes; /* credit saturates here; UINT32_MAX = overflow is an error instead */
};

/* What the peer may still send, and when to give credit back. While limited,
 * size = credit + consumed + bytes received but not consumed yet. */
struct tmesh_recv_window {
  bool is_limited;
  uint32_t size_bytes;      /* the announced window */
  uint32_t credit_bytes;    /* what the peer may still send */
  uint32_t consumed_bytes;  /* taken by the consumer, not yet credited back */
  uint32_t threshold_bytes; /* credit is returned in steps of at least this */
};

/* initial = 0 means "no window": unlimited. */
void tmesh_send_window_init(struct tmesh_send_window* w, uint32_t initial_bytes, uint32_t cap_bytes);
/* From now on overflow is an error instead (stream_window_growth.v1). */
void tmesh_send_window_uncap(struct tmesh_send_window* w);
/* How many bytes may be sent now, at most want. */
uint32_t tmesh_send_window_available(const struct tmesh_send_window* w, uint32_t want_bytes);
/* n <= available. */
void tmesh_send_window_take(struct tmesh_send_window* w, uint32_t n);
/* WINDOW_ZERO, WINDOW_OVERFLOW (stream scope); saturates at cap instead of overflowing when cap < UINT32_MAX.
 */
TMESH_MUST_CHECK struct tmesh_status tmesh_send_window_grant(struct tmesh_send_window* w,
                                                             uint32_t delta_bytes);

/* The threshold used is min(threshold, size/2), and never so large that less than
 * one DATA frame of window would be left before credit flows (invariant W2). */
void tmesh_recv_window_init(struct tmesh_recv_window* w, uint32_t size_bytes, uint32_t threshold_bytes);
/* A DATA frame of n bytes arrived. WINDOW_EXCEEDED (stream scope). */
TMESH_MUST_CHECK struct tmesh_status tmesh_recv_window_receive(struct tmesh_recv_window* w, uint32_t n);
/* n bytes left for the next hop or the socket. Returns the increment to announce
 * now (also early, when the peer has less than one frame of credit left), or 0. */
uint32_t tmesh_recv_window_consume(struct tmesh_recv_window* w, uint32_t n);
/* Makes the window larger (stream_window_growth.v1 only; size >= the present one,
 * and the window is limited). The difference joins the next announced increment. */
void tmesh_recv_window_grow(struct tmesh_recv_window* w, uint32_t size_bytes, uint32_t threshold_bytes);
/* Makes the window smaller by n bytes that left for the next hop and are not credited, instead of
 * tmesh_recv_window_consume() for them. Credit once given stays with the peer, and one DATA
 * frame and more is left of the window (the caller's floor is above that). */
void tmesh_recv_window_shrink(struct tmesh_recv_window* w, uint32_t n, uint32_t threshold_bytes);

#ifdef __cplusplus
}
#endif

#endif
