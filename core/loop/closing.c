#include "core/loop/closing.h"

#include "core/base/check.h"
#include "core/loop/memory.h"

#define FREED_BYTES 1024u

void tmesh_closing_begin(struct tmesh_closing* c, struct tmesh_loop* loop,
                         void (*done)(struct tmesh_closing* self)) {
  TMESH_ASSERT(!c->is_begun);
  c->is_begun = true;
  c->loop = loop;
  c->done = done;
  c->handle_count = 0;
  loop->closing_count++;
}

void tmesh_closing_end(struct tmesh_closing* c) {
  TMESH_ASSERT(c->is_begun && c->handle_count == 0 && c->loop->closing_count > 0);
  c->loop->closing_count--;
  /* Which heap objects it owned is not known here; it is about this much. */
  tmesh_memory_freed(c->loop, FREED_BYTES);
  c->done(c);
}

static void on_handle_closed(uv_handle_t* handle) {
  struct tmesh_closing* c = handle->data;
  TMESH_ASSERT(c->handle_count > 0);
  if (--c->handle_count == 0) tmesh_closing_end(c);
}

void tmesh_closing_handle(struct tmesh_closing* c, uv_handle_t* handle) {
  TMESH_ASSERT(c->is_begun);
  c->handle_count++;
  handle->data = c;
  uv_close(handle, on_handle_closed);
}
