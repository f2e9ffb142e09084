/* Bounded pool of threads for blocking work (databases, password hashes).
 *
 * libuv's own pool is shared and cannot be bounded per use, so this is separate.
 * Jobs are copies in, results out: `work` runs on a thread and touches only the
 * job; `done` runs on the loop thread. Cancelling a waiting job removes it;
 * cancelling a running one lets it finish and drops its result (the slot returns
 * when the job really ended). Every submitted job gets exactly one of done and
 * dropped. The threads take no signals. While a job is out, the loop stays alive.
 */
#ifndef TMESH_LOOP_WORKERS_H
#define TMESH_LOOP_WORKERS_H

#include "core/loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enough for a database client library and for Argon2 (whose memory is on the heap). */
#define TMESH_WORKER_STACK_BYTES (1u << 20)

struct tmesh_workers;

struct tmesh_job {
  void (*work)(struct tmesh_job* job); /* worker thread */
  void (*done)(struct tmesh_job* job); /* loop thread; the job's memory belongs to the caller again */
  /* Called instead of done when the job was cancelled; loop thread, frees the job. May
   * come from inside cancel (the job had not started) or later. */
  void (*dropped)(struct tmesh_job* job);
  /* private */
  struct tmesh_list node;
  uint8_t phase;
  bool is_cancelled;
};

/* threads: 1 to 256; pending_max: at least 1. NULL if threads cannot be made. */
struct tmesh_workers* tmesh_workers_new(struct tmesh_loop* loop, unsigned threads, size_t pending_max);
/* Threads end when no job is out, and the next one makes them anew: while a process has a single
 * thread, each system call on a descriptor costs it about a tenth less. */
void tmesh_workers_end_idle_threads(struct tmesh_workers* w);
/* LIMIT (stream scope) when pending_max jobs wait, NO_MEMORY when ended threads cannot be made
 * again; the job is then still the caller's. Jobs start in order of submission. */
TMESH_MUST_CHECK struct tmesh_status tmesh_workers_submit(struct tmesh_workers* w, struct tmesh_job* job);
/* The job must have been submitted and neither done nor dropped. */
void tmesh_workers_cancel(struct tmesh_workers* w, struct tmesh_job* job);
/* Drops waiting jobs, waits (blocking) for running ones, joins the threads, drops jobs
 * whose done had not been called, and frees itself when its handle is closed. Not from
 * inside dropped. */
void tmesh_workers_free(struct tmesh_workers* w);
/* The same without waiting, for work that nothing can end: what runs goes on by itself, and
 * the thread it runs on calls its `dropped` and is then gone. It may outlive the loop. */
void tmesh_workers_leave(struct tmesh_workers* w);

#ifdef __cplusplus
}
#endif

#endif
