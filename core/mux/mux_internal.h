/* What the files of core/mux share and nobody else sees. */
#ifndef TMESH_MUX_INTERNAL_H
#define TMESH_MUX_INTERNAL_H

#include "core/mux/mux.h"

/* --- life of a stream (stream_life.c) --------------------------------------------- */

/* A mapped stream in state idle, not counted as live; NULL when memory is refused. */
struct tmesh_stream* tmesh_mux_stream_new(struct tmesh_mux* m, uint32_t id);
/* Frees s if its user let go, it is over and nothing of it waits to be pulled.
 * After any call that may do this the caller does not touch s again. */
void tmesh_mux_stream_settle(struct tmesh_stream* s);
/* The only place where a state changes, and so where the live count does (R27).
 * False, with nothing changed, when the table forbids the event. */
bool tmesh_mux_stream_step(struct tmesh_stream* s, enum tmesh_stream_event event);
/* Ends a stream that is not over: out of the scheduler, queues and marks dropped.
 * Returns whether the peer has to be told (its OPEN was pulled or came from there). */
bool tmesh_mux_stream_end(struct tmesh_stream* s, enum tmesh_stream_event event, struct tmesh_status why);
/* The one place where a STREAM status becomes a RESET of that stream. Counts it and
 * raises EV_OVER. Returns OK, or a SESSION status when the peer's violations pass
 * the limit of the link. */
struct tmesh_status tmesh_mux_stream_fail(struct tmesh_stream* s, struct tmesh_status why);
void tmesh_mux_stream_event(struct tmesh_stream* s, unsigned events);
void tmesh_mux_stream_mark(struct tmesh_stream* s, unsigned mark);
void tmesh_mux_stream_unmark_all(struct tmesh_stream* s);
void tmesh_mux_retired_free(struct tmesh_mux* m);

static inline bool tmesh_mux_stream_over(const struct tmesh_stream* s) {
  return tmesh_stream_is_over((enum tmesh_stream_state)s->state);
}

/* --- mux.c ------------------------------------------------------------------------ */

void tmesh_mux_dirty(struct tmesh_mux* m);
/* Notes that bytes of s move. */
void tmesh_mux_stream_moved(struct tmesh_stream* s);
/* Bytes, credit or the state of s changed: schedules it and wakes the link, which also has
 * to learn when bytes are held back (tmesh_mux_due_us). */
void tmesh_mux_schedule(struct tmesh_stream* s);
/* Fails the mux with a SESSION status and returns what it failed with first. */
struct tmesh_status tmesh_mux_session_error(struct tmesh_mux* m, struct tmesh_status why);
/* Whether the id was ever used on this link. */
bool tmesh_mux_id_is_seen(const struct tmesh_mux* m, uint32_t id);

/* --- mux_accept.c ------------------------------------------------------------------ */

/* A complete OPEN_STREAM; payload NULL = it was longer than we read. */
struct tmesh_status tmesh_mux_accept(struct tmesh_mux* m, const struct tmesh_frame_header* h,
                                     const uint8_t* payload, size_t len_bytes);
/* RESET for an id without a stream, once per id while it is remembered. */
void tmesh_mux_reset_unknown(struct tmesh_mux* m, uint32_t id);

#endif
