#include "core/loop/alarm.h"

#include "core/base/check.h"

static void on_timer(uv_timer_t* timer);
static void run_due(struct tmesh_flush* flush);

int tmesh_alarms_init(struct tmesh_loop* loop) {
  tmesh_list_init(&loop->alarms);
  tmesh_flush_init(&loop->alarms_due, run_due);
  loop->alarm_at_us = UINT64_MAX;
  loop->alarm_timer.data = loop;
  return uv_timer_init(&loop->uv, &loop->alarm_timer);
}

static void arm(struct tmesh_loop* loop, uint64_t at_us) {
  const uint64_t now_us = tmesh_loop_now_us(loop);
  const uint64_t wait_us = at_us > now_us ? at_us - now_us : 0;
  loop->alarm_at_us = at_us;
  /* Starting an active timer moves it; it fails only on a closing handle. */
  int rc = uv_timer_start(&loop->alarm_timer, on_timer, (wait_us + 999) / 1000, 0);
  TMESH_ASSERT(rc == 0);
}

/* libuv runs timers before it polls: what waits in sockets is to be seen first. */
static void on_timer(uv_timer_t* timer) {
  struct tmesh_loop* loop = timer->data;
  loop->alarm_at_us = UINT64_MAX;
  tmesh_loop_after_poll_request(loop, &loop->alarms_due);
}

static void run_due(struct tmesh_flush* flush) {
  struct tmesh_loop* loop = TMESH_CONTAINER(flush, struct tmesh_loop, alarms_due);
  const uint64_t now_us = tmesh_loop_now_us(loop);
  struct tmesh_list due;
  uint64_t next_us = UINT64_MAX;

  /* What runs may set, clear and add alarms: collect first. */
  tmesh_list_init(&due);
  for (struct tmesh_list* n = loop->alarms.next; n != &loop->alarms;) {
    struct tmesh_alarm* a = TMESH_CONTAINER(n, struct tmesh_alarm, node);
    n = n->next;
    if (a->at_us <= now_us) {
      tmesh_list_remove(&a->node);
      tmesh_list_push_back(&due, &a->node);
    } else if (a->at_us < next_us) {
      next_us = a->at_us;
    }
  }
  if (next_us < loop->alarm_at_us) arm(loop, next_us);
  while (!tmesh_list_empty(&due)) {
    struct tmesh_alarm* a = TMESH_CONTAINER(due.next, struct tmesh_alarm, node);
    tmesh_list_remove(&a->node);
    a->run(a);
  }
}

void tmesh_alarm_init(struct tmesh_alarm* a, void (*run)(struct tmesh_alarm* self)) {
  tmesh_list_init(&a->node);
  a->at_us = 0;
  a->run = run;
}

void tmesh_alarm_set(struct tmesh_loop* loop, struct tmesh_alarm* a, uint64_t at_us) {
  tmesh_list_remove(&a->node);
  a->at_us = (at_us + TMESH_ALARM_GRAIN_US - 1) / TMESH_ALARM_GRAIN_US * TMESH_ALARM_GRAIN_US;
  tmesh_list_push_back(&loop->alarms, &a->node);
  if (a->at_us < loop->alarm_at_us) arm(loop, a->at_us);
}

void tmesh_alarm_clear(struct tmesh_alarm* a) {
  /* The timer may fire once for nothing and then stops. */
  tmesh_list_remove(&a->node);
}
