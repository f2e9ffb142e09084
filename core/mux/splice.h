/* The byte mover between two ends, which says when bytes are consumed.
 *
 * An end is a stream of a mux or a socket (core/loop/tcp). Bytes that arrived at
 * one end move by pointer into the other end's outbound queue as far as that has
 * room; what did not fit stays where it is, uncredited. When the other end reports
 * bytes written, the first end is told they are consumed and returns credit to its
 * peer (credit per hop, LESSONS R1, R2). Half-close passes through in data order and
 * waits without a timeout for the other direction (R6). An end that breaks aborts the
 * other at once, so that a cancel unblocks whoever is stuck (R8), with one exception:
 * what the answering side sent before it was RESET is written first (P-B8: a server
 * that answers early and does not read the rest of the request). Sans-I/O: the
 * simulation runs it with ends of its own.
 *
 * Memory: embedded in its owner; allocates nothing. The owner gets exactly one
 * on_done, after which the splice touches neither end.
 */
#ifndef TMESH_MUX_SPLICE_H
#define TMESH_MUX_SPLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/chunkq.h"
#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_splice;
struct tmesh_stream;

struct tmesh_end_ops {
  /* Bytes the sink takes now; 0 when closed for writing. */
  size_t (*room)(void* impl);
  /* Bytes were appended to `out`. */
  void (*added)(void* impl);
  /* No byte follows what is in `out`. */
  void (*finish)(void* impl);
  /* n bytes that came from `in` were written by the other end; `in` may have room again. */
  void (*consumed)(void* impl, size_t n);
  /* Ends it abruptly (RESET, RST). No event follows. */
  void (*abort)(void* impl);
};

/* Which way an open went through the end. One of the two ends has to know. */
enum tmesh_end_side {
  TMESH_END_UNKNOWN = 0,
  TMESH_END_ASKS,    /* what opened is behind it */
  TMESH_END_ANSWERS, /* what was opened is behind it: the target's bytes come from here */
};

struct tmesh_end {
  const struct tmesh_end_ops* ops;
  void* impl;
  struct tmesh_chunkq* in;
  struct tmesh_chunkq* out;
  size_t foreign_bytes; /* on their way out of this end before the splice existed (a proxy's reply):
                           never reported as consumed. At least out->len_bytes is assumed */
  enum tmesh_end_side side;
  bool in_eof;      /* set through tmesh_splice_eof */
  bool is_finished; /* finish() was called on this end */
  bool is_drained;  /* reported: everything incl. the end was written */
};

struct tmesh_splice {
  struct tmesh_end ends[2];
  void* ctx;
  /* status OK: both directions ended regularly, `broken` is -1. Otherwise why, and
   * `broken` = the end (0 or 1) that broke; the other one was aborted. NO_MEMORY: the
   * pool refused a block for what end `broken` had sent; that end still lives. Only ends
   * that never take a whole block can come to that: whole blocks move by pointer, and for
   * a part of one the splice waits for what is under way to the other end. */
  void (*on_done)(void* ctx, struct tmesh_splice* splice, struct tmesh_status why, int broken);
  uint64_t moved_bytes[2];    /* from end i to the other */
  uint64_t consumed_bytes[2]; /* of those, reported to end i as consumed; <= moved */
  bool is_done;
  bool is_running; /* a call below is on the stack: nested events only leave notes */
  bool is_ending;  /* `why` and `broken` are set, on_done is due */
  bool is_leaving; /* the same two are set, but end `broken` has last bytes for the other one */
  int broken;
  struct tmesh_status why;
};

void tmesh_splice_init(struct tmesh_splice* sp, struct tmesh_end a, struct tmesh_end b, void* ctx,
                       void (*on_done)(void* ctx, struct tmesh_splice* splice, struct tmesh_status why,
                                       int broken));
/* First pump, for bytes that waited before the splice existed. May call on_done. */
void tmesh_splice_start(struct tmesh_splice* sp);
/* Events of end i (0 or 1). Each may call on_done as the last thing it does; the
 * owner may free the splice there. All are ignored once done. An event that an end
 * op raises while the splice runs is taken up by the run that is on the stack. */
void tmesh_splice_readable(struct tmesh_splice* sp, int i);
void tmesh_splice_eof(struct tmesh_splice* sp, int i);
/* n bytes of the out queue were written; all_written = out is empty and, if finish was called, so is the
 * half-close. */
void tmesh_splice_written(struct tmesh_splice* sp, int i, size_t n, bool all_written);
/* End i broke: the other one is aborted; when it was RESET and answers, as soon as what
 * waits in its `in` was written, which can take as long as the other end likes (a broken
 * end has nothing to lose by it, and the other one can still go). Ignored when end i had
 * ended regularly in both directions: what it sent is still delivered. */
void tmesh_splice_broken(struct tmesh_splice* sp, int i, struct tmesh_status why);
/* Aborts both ends without on_done. */
void tmesh_splice_cancel(struct tmesh_splice* sp);

/* The end of a stream; the stream's events must be routed to tmesh_splice_stream_event. It may
 * still be opening: an opener takes what early data allows, an acceptor nothing, and both what
 * waits as soon as the answer comes. A refusal that comes here breaks the end, and the
 * other one gets a RESET: who wants to pass the OPEN_RESULT on answers that stream first,
 * then cancels the splice. */
struct tmesh_end tmesh_stream_end(struct tmesh_stream* s);
/* Translates TMESH_STREAM_EV_* of the stream at end i into the calls above. */
void tmesh_splice_stream_event(struct tmesh_splice* sp, int i, struct tmesh_stream* s, unsigned events);

void tmesh_splice_check(const struct tmesh_splice* sp);

#ifdef __cplusplus
}
#endif

#endif
