/* What tcp.c and tcp_probe.c share. Internal to core/loop. */
#ifndef TMESH_LOOP_TCP_INTERNAL_H
#define TMESH_LOOP_TCP_INTERNAL_H

#include "core/loop/tcp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The socket is of no use any more: on_broken follows in the next flush, or the end of a close. */
void tmesh_tcp_break(struct tmesh_tcp* t, enum tmesh_code code);
/* Starts or stops reading as the state wants it, and the alarm with it. */
void tmesh_tcp_update_reading(struct tmesh_tcp* t);
/* Looks at a paused socket: ends it when the peer is gone, else sets the next look. */
void tmesh_tcp_probe(struct tmesh_tcp* t);

#ifdef __cplusplus
}
#endif

#endif
