/* Coarse one-shot alarms: "this took too long".
 *
 * One timer serves all alarms of a loop, so a socket costs no timer of its own.
 * Times are rounded up to 100 ms, and setting one is O(1); each firing looks at every
 * alarm, which is a walk of some thousand nodes ten times per second at most. What is due
 * runs after one whole poll: bytes and ends that wait in sockets come first, also when the
 * clock jumped because the process was stopped.
 * Embedded in the owner; allocates nothing. While an alarm is set the loop stays alive.
 */
#ifndef TMESH_LOOP_ALARM_H
#define TMESH_LOOP_ALARM_H

#include "core/loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TMESH_ALARM_GRAIN_US UINT64_C(100000)

struct tmesh_alarm {
  struct tmesh_list node;
  uint64_t at_us;
  void (*run)(struct tmesh_alarm* self);
};

void tmesh_alarm_init(struct tmesh_alarm* a, void (*run)(struct tmesh_alarm* self));
/* Runs a->run from the loop, at_us or up to 100 ms later; replaces an earlier setting. */
void tmesh_alarm_set(struct tmesh_loop* loop, struct tmesh_alarm* a, uint64_t at_us);
/* Idempotent. */
void tmesh_alarm_clear(struct tmesh_alarm* a);
static inline bool tmesh_alarm_is_set(const struct tmesh_alarm* a) {
  return tmesh_list_linked(&a->node);
}

/* For loop.c only. */
int tmesh_alarms_init(struct tmesh_loop* loop);

#ifdef __cplusplus
}
#endif

#endif
