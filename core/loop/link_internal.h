/* What link.c, link_input.c and link_output.c share. Internal to core/loop. */
#ifndef TMESH_LOOP_LINK_INTERNAL_H
#define TMESH_LOOP_LINK_INTERNAL_H

#include "core/loop/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Decides the end: from here on nothing is read or pulled, the flush does the rest. The
 * first status counts. */
void tmesh_link_go_down(struct tmesh_link* l, struct tmesh_status why);

/* Reads on after a rest (memory.h). */
void tmesh_link_rested(struct tmesh_link* l);

/* For loop.c only. */
int tmesh_link_due_init(struct tmesh_loop* loop);

/* Bytes of the WebSocket; ends the link on a SESSION status. */
void tmesh_link_input(struct tmesh_link* l, uint8_t* data, size_t len_bytes);

/* NO_MEMORY when the loop's batch buffer cannot be had. */
struct tmesh_status tmesh_link_output_init(struct tmesh_link* l);
void tmesh_link_output_free(struct tmesh_link* l);
/* Pulls and writes until nothing is left, the kernel is full or the burst is over. */
void tmesh_link_output(struct tmesh_link* l);
/* One batch, if nothing is being written. */
void tmesh_link_output_once(struct tmesh_link* l);
/* The kernel took `rest`. */
void tmesh_link_output_written(struct tmesh_link* l);
/* The WebSocket close, if nothing is being written. */
void tmesh_link_output_close(struct tmesh_link* l);

#ifdef __cplusplus
}
#endif

#endif
