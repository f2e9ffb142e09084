/* What tcp.c and tcp_probe.c share. Internal to core/loop. */
#ifndef TMESH_LOOP_TCP_INTERNAL_H
#define TMESH_LOOP_TCP_INTERNAL_H

#include "core/loop/tcp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The socket is of no use any more: on_broken follows in the next flush, or the end of a close. */
void tmesh_tcp_break(struct tmesh_tcp* t, enum tmesh_code code);
/* The pool has room again: a socket that rests goes on. */
void tmesh_tcp_fed(struct tmesh_tcp* t);
/* Starts or stops reading as the state wants it, and the alarm with it. */
void tmesh_tcp_update_reading(struct tmesh_tcp* t);
/* Looks at a deaf socket: ends it when the peer is gone, else sets the next look. */
void tmesh_tcp_probe(struct tmesh_tcp* t);
/* What stands behind the bytes read so far: 0 the peer's FIN, > 0 more bytes, < 0 the
 * error (libuv's) that cut the stream. */
int tmesh_tcp_look_behind(const struct tmesh_tcp* t);

#ifdef __cplusplus
}
#endif

#endif
