/* Listening stream socket (TCP, or what the caller made) that hands out accepted descriptors.
 *
 * Accepts at most 64 per iteration. When the process has no descriptor left, one kept
 * in reserve lets the newcomer be taken and closed at once, counted, so that it learns
 * of it and the listening socket does not keep the loop busy; should even that fail,
 * accepting rests for 100 ms. Two-phase close.
 */
#ifndef TMESH_LOOP_LISTENER_H
#define TMESH_LOOP_LISTENER_H

#include "core/loop/alarm.h"
#include "core/loop/closing.h"
#include "core/loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A flood of newcomers must not stop the links. */
#define TMESH_ACCEPTS_PER_ITERATION_MAX 64u

struct tmesh_listener_events {
  /* The callee owns fd (non-blocking, close-on-exec). An IPv4 peer shows as AF_INET
   * also on a dual-stack socket. */
  void (*on_accept)(void* ctx, int fd, const struct sockaddr* peer);
  /* The listening socket broke: the entry is dead (LESSONS R22). Once; close is still to be called. */
  void (*on_broken)(void* ctx, struct tmesh_status why);
  void (*on_closed)(void* ctx); /* last: the memory may go */
};

struct tmesh_listener {
  struct tmesh_loop* loop;
  const struct tmesh_listener_events* events;
  void* ctx;
  uv_poll_t poll;
  struct tmesh_alarm rest; /* accepting goes on when it fires */
  struct tmesh_closing closing;
  int fd, reserve_fd; /* -1 = none */
  uint64_t accepted_count, refused_count;
};

/* host: IPv4 or IPv6 literal; "", "*" and "::" = all addresses of both families. port
 * 0 = any. Sets SO_REUSEADDR. Errors (stream scope: this entry only) name the cause:
 * REFUSED = address in use, POLICY = permission denied, INVALID = not an address of
 * this machine, IO otherwise. After an error the struct needs no close. Callbacks come
 * from the loop. */
TMESH_MUST_CHECK struct tmesh_status tmesh_listener_open(struct tmesh_listener* l, struct tmesh_loop* loop,
                                                         const char* host, uint16_t port,
                                                         const struct tmesh_listener_events* events,
                                                         void* ctx);
/* The same for a socket that listens already, of any family; takes fd (non-blocking) over,
 * also on failure (IO). */
TMESH_MUST_CHECK struct tmesh_status tmesh_listener_adopt(struct tmesh_listener* l, struct tmesh_loop* loop,
                                                          int fd, const struct tmesh_listener_events* events,
                                                          void* ctx);
/* 0 for a socket without ports. */
uint16_t tmesh_listener_port(const struct tmesh_listener* l);
/* No callback but on_closed afterwards. The port is free when this returns. Idempotent. */
void tmesh_listener_close(struct tmesh_listener* l);

#ifdef __cplusplus
}
#endif

#endif
