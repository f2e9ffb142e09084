#include "core/loop/loop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/loop/alarm.h"
#include "core/loop/link_internal.h"
#include "core/loop/memory.h"

/* Freed blocks kept for reuse, as a part of the budget; memory.c frees what the last
 * seconds did not need. */
#define POOL_CACHED_PART 4u
/* tmesh_loop_close() waits for graceful closes, the longest of which takes 5 s. */
#define CLOSE_WAIT_MAX_US UINT64_C(15000000)

/* --- flush --------------------------------------------------------------------- */

static void on_spin(uv_idle_t* handle) {
  (void)handle;
}

static void keep_awake(struct tmesh_loop* loop) {
  if (!uv_is_active((uv_handle_t*)&loop->spin)) (void)uv_idle_start(&loop->spin, on_spin);
}

static void take_all(struct tmesh_list* from, struct tmesh_list* to) {
  tmesh_list_init(to);
  if (tmesh_list_empty(from)) return;
  *to = *from;
  to->next->prev = to;
  to->prev->next = to;
  tmesh_list_init(from);
}

/* Runs what is linked now; what is requested meanwhile stays for later. */
static void run_round(struct tmesh_list* list) {
  struct tmesh_list round;
  take_all(list, &round);
  while (!tmesh_list_empty(&round)) {
    struct tmesh_flush* f = TMESH_CONTAINER(round.next, struct tmesh_flush, node);
    tmesh_list_remove(&f->node);
    f->run(f);
  }
}

static void flush(struct tmesh_loop* loop) {
  for (unsigned i = 0; i < TMESH_FLUSH_ROUNDS_MAX && !tmesh_list_empty(&loop->flushes); i++) {
    run_round(&loop->flushes);
  }
  if (tmesh_list_empty(&loop->flushes) && tmesh_list_empty(&loop->after_polls)) uv_idle_stop(&loop->spin);
}

static void on_prepare(uv_prepare_t* handle) {
  struct tmesh_loop* loop = handle->data;
  loop->handshake_us_left = TMESH_HANDSHAKE_BUDGET_US;
  tmesh_memory_flush(loop);
  flush(loop);
}

static void on_check(uv_check_t* handle) {
  struct tmesh_loop* loop = handle->data;
  loop->poll_count++;
  tmesh_memory_flush(loop);
  run_round(&loop->after_polls);
  flush(loop);
}

void tmesh_flush_init(struct tmesh_flush* f, void (*run)(struct tmesh_flush* self)) {
  tmesh_list_init(&f->node);
  f->run = run;
}

void tmesh_loop_flush_request(struct tmesh_loop* loop, struct tmesh_flush* f) {
  if (tmesh_list_linked(&f->node)) return;
  tmesh_list_push_back(&loop->flushes, &f->node);
  keep_awake(loop);
}

void tmesh_loop_after_poll_request(struct tmesh_loop* loop, struct tmesh_flush* f) {
  if (tmesh_list_linked(&f->node)) return;
  tmesh_list_push_back(&loop->after_polls, &f->node);
  keep_awake(loop);
}

void tmesh_flush_cancel(struct tmesh_flush* f) {
  tmesh_list_remove(&f->node);
}

/* --- time, random bytes, bursts ------------------------------------------------ */

uint64_t tmesh_loop_now_us(struct tmesh_loop* loop) {
  const uint64_t ms = uv_now(&loop->uv);
  if (ms != loop->now_for_ms) {
    loop->now_for_ms = ms;
    loop->now_us = uv_hrtime() / 1000;
  }
  return loop->now_us;
}

bool tmesh_loop_random(struct tmesh_loop* loop, void* out, size_t n) {
  TMESH_ASSERT(n <= TMESH_RANDOM_STORE_BYTES);
  if (loop->random_store == NULL) {
    loop->random_store = malloc(TMESH_RANDOM_STORE_BYTES);
    if (loop->random_store == NULL) return false;
  }
  if (loop->random_left_bytes < n) {
    if (uv_random(NULL, NULL, loop->random_store, TMESH_RANDOM_STORE_BYTES, 0, NULL) != 0) return false;
    loop->random_left_bytes = TMESH_RANDOM_STORE_BYTES;
  }
  loop->random_left_bytes -= n;
  memcpy(out, loop->random_store + loop->random_left_bytes, n);
  return true;
}

void tmesh_burst_add(struct tmesh_burst* burst, const struct tmesh_loop* loop, size_t n) {
  if (burst->poll_count != loop->poll_count) {
    burst->poll_count = loop->poll_count;
    burst->bytes = 0;
  }
  burst->bytes += n;
}

bool tmesh_burst_is_over(const struct tmesh_burst* burst, const struct tmesh_loop* loop) {
  return burst->poll_count == loop->poll_count && burst->bytes >= TMESH_READ_BURST_BYTES;
}

/* --- life ------------------------------------------------------------------------ */

struct tmesh_status tmesh_loop_init(struct tmesh_loop* loop, size_t memory_budget_bytes) {
  *loop = (struct tmesh_loop){0};
  tmesh_list_init(&loop->flushes);
  tmesh_list_init(&loop->after_polls);
  loop->paused_probe_us = TMESH_PAUSED_PROBE_US;
  loop->stalled_close_us = TMESH_STALLED_CLOSE_US;
  loop->handshake_us_left = TMESH_HANDSHAKE_BUDGET_US;
  loop->read_buffer = malloc(TMESH_READ_BUFFER_BYTES);
  if (loop->read_buffer == NULL) return tmesh_err_session(TMESH_E_NO_MEMORY);
  if (uv_loop_init(&loop->uv) != 0) {
    free(loop->read_buffer);
    return tmesh_err_session(TMESH_E_IO);
  }
  (void)signal(SIGPIPE, SIG_IGN);
  loop->uv.data = loop;
  tmesh_pool_init(&loop->pool, memory_budget_bytes, memory_budget_bytes / POOL_CACHED_PART);
  loop->now_for_ms = uv_now(&loop->uv);
  loop->now_us = uv_hrtime() / 1000;

  /* None of these can fail on a good loop; none keeps it alive. */
  int rc = uv_prepare_init(&loop->uv, &loop->prepare);
  if (rc == 0) rc = uv_check_init(&loop->uv, &loop->check);
  if (rc == 0) rc = uv_idle_init(&loop->uv, &loop->spin);
  if (rc == 0) rc = tmesh_alarms_init(loop);
  if (rc == 0) rc = tmesh_memory_init(loop);
  if (rc == 0) rc = tmesh_link_due_init(loop);
  if (rc == 0) rc = uv_prepare_start(&loop->prepare, on_prepare);
  if (rc == 0) rc = uv_check_start(&loop->check, on_check);
  TMESH_ASSERT(rc == 0);
  loop->prepare.data = loop;
  loop->check.data = loop;
  uv_unref((uv_handle_t*)&loop->prepare);
  uv_unref((uv_handle_t*)&loop->check);
  return tmesh_ok();
}

void tmesh_loop_run(struct tmesh_loop* loop) {
  (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void tmesh_loop_stop(struct tmesh_loop* loop) {
  uv_stop(&loop->uv);
}

static bool is_own(const struct tmesh_loop* loop, const uv_handle_t* h) {
  const void* own[] = {&loop->prepare,      &loop->check,
                       &loop->spin,         &loop->alarm_timer,
                       &loop->memory.timer, &loop->memory.rest_timer,
                       &loop->due_timer,    &loop->memory.look_timer};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
    if (h == own[i]) return true;
  }
  return false;
}

static void find_closing(uv_handle_t* h, void* arg) {
  if (uv_is_closing(h)) *(bool*)arg = true;
}

static bool is_closing_something(struct tmesh_loop* loop) {
  bool found = loop->closing_count > 0;
  uv_walk(&loop->uv, find_closing, &found);
  return found;
}

static void close_own(uv_handle_t* h, void* arg) {
  if (is_own(arg, h)) uv_close(h, NULL);
}

bool tmesh_loop_close(struct tmesh_loop* loop) {
  const uint64_t give_up_us = uv_hrtime() / 1000 + CLOSE_WAIT_MAX_US;
  /* The alarms bound every graceful close, so a blocking poll ends. */
  while (is_closing_something(loop) && uv_hrtime() / 1000 < give_up_us) (void)uv_run(&loop->uv, UV_RUN_ONCE);
  bool is_clean = loop->closing_count == 0;
  uv_walk(&loop->uv, close_own, loop);
  (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
  if (uv_loop_close(&loop->uv) != 0) is_clean = false;
  if (loop->pool.live_count > 0) {
    is_clean = false;
  } else {
    tmesh_pool_close(&loop->pool);
  }
  free(loop->read_buffer);
  free(loop->plain_buffer);
  free(loop->batch_buffer);
  free(loop->spare_rest);
  free(loop->random_store);
  loop->read_buffer = loop->plain_buffer = loop->batch_buffer = loop->spare_rest = loop->random_store = NULL;
  return is_clean;
}
