/* Two-phase close of an object that owns several libuv handles.
 *
 * Phase one stops all use and closes the handles; phase two is one call when nothing
 * can touch the object's memory any more. Embedded in the object. The loop counts
 * objects in between, so that tmesh_loop_close() can wait for them.
 */
#ifndef TMESH_LOOP_CLOSING_H
#define TMESH_LOOP_CLOSING_H

#include "core/loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_closing {
  struct tmesh_loop* loop;
  unsigned handle_count; /* close callbacks to come */
  bool is_begun;
  void (*done)(struct tmesh_closing* self);
};

/* Once per object, as soon as its close is decided; a graceful end may lie between
 * this and the closing of handles. */
void tmesh_closing_begin(struct tmesh_closing* c, struct tmesh_loop* loop,
                         void (*done)(struct tmesh_closing* self));
/* Closes a handle; its data pointer is used from here on. `done` comes from the last
 * close callback and may free the object. */
void tmesh_closing_handle(struct tmesh_closing* c, uv_handle_t* handle);
/* For an object without handles of its own: calls done now. */
void tmesh_closing_end(struct tmesh_closing* c);

#ifdef __cplusplus
}
#endif

#endif
