#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/stream_state.h"
#include "tests/core/base/prng.h"

#define NO "illegal"

struct row {
  enum tmesh_stream_state from;
  const char* to[TMESH_EV_COUNT];
};

/* Written out from requirement B8, by name, apart from the code's own table. */
static const struct row rows[] = {
    /* OPEN, ACCEPTED, REFUSED, DATA_IN, DATA_OUT, HALF_CLOSE_IN, HALF_CLOSE_OUT, RESET */
    {TMESH_STREAM_IDLE, {"opening", NO, NO, NO, NO, NO, NO, NO}},
    {TMESH_STREAM_OPENING, {NO, "open", "reset", NO, NO, NO, NO, "reset"}},
    {TMESH_STREAM_OPEN, {NO, NO, NO, "open", "open", "half_closed_remote", "half_closed_local", "reset"}},
    {TMESH_STREAM_HALF_CLOSED_LOCAL, {NO, NO, NO, "half_closed_local", NO, "closed", NO, "reset"}},
    {TMESH_STREAM_HALF_CLOSED_REMOTE, {NO, NO, NO, NO, "half_closed_remote", NO, "closed", "reset"}},
    {TMESH_STREAM_CLOSED, {NO, NO, NO, NO, NO, NO, NO, "closed"}},
    {TMESH_STREAM_RESET, {NO, NO, NO, NO, NO, NO, NO, "reset"}},
};

static void every_cell_of_the_table(void** state) {
  (void)state;
  assert_int_equal(sizeof rows / sizeof rows[0], TMESH_STREAM_STATE_COUNT);
  for (unsigned s = 0; s < TMESH_STREAM_STATE_COUNT; s++) {
    assert_int_equal(rows[s].from, s);
    for (unsigned e = 0; e < TMESH_EV_COUNT; e++) {
      enum tmesh_stream_state next = tmesh_stream_next(rows[s].from, (enum tmesh_stream_event)e);
      const char* name = next == TMESH_STREAM_STATE_COUNT ? NO : tmesh_stream_state_name(next);
      assert_string_equal(name, rows[s].to[e]);
    }
  }
}

static void values_outside_the_enums_are_illegal(void** state) {
  (void)state;
  assert_int_equal(tmesh_stream_next(TMESH_STREAM_STATE_COUNT, TMESH_EV_RESET), TMESH_STREAM_STATE_COUNT);
  assert_int_equal(tmesh_stream_next(TMESH_STREAM_OPEN, TMESH_EV_COUNT), TMESH_STREAM_STATE_COUNT);
}

static void a_stream_is_over_exactly_when_closed_or_reset(void** state) {
  (void)state;
  for (unsigned s = 0; s < TMESH_STREAM_STATE_COUNT; s++) {
    int over = s == TMESH_STREAM_CLOSED || s == TMESH_STREAM_RESET;
    assert_int_equal(tmesh_stream_is_over((enum tmesh_stream_state)s), over);
  }
}

static void names_outside_the_enum_are_unknown(void** state) {
  (void)state;
  assert_string_equal(tmesh_stream_state_name(TMESH_STREAM_IDLE), "idle");
  assert_string_equal(tmesh_stream_state_name(TMESH_STREAM_STATE_COUNT), "unknown");
}

/* Another way to say the same: what each side has done so far. */
struct model {
  int is_opened, is_answered, is_refused, is_reset, local_ended, remote_ended;
};

static int model_is_over(const struct model* m) {
  return m->is_refused || m->is_reset || (m->local_ended && m->remote_ended);
}

static int model_take(struct model* m, enum tmesh_stream_event event) {
  if (!m->is_opened) return event == TMESH_EV_OPEN ? (m->is_opened = 1) : 0;
  if (event == TMESH_EV_RESET) {
    if (!model_is_over(m)) m->is_reset = 1;
    return 1;
  }
  if (model_is_over(m) || event == TMESH_EV_OPEN) return 0;
  if (!m->is_answered) {
    if (event == TMESH_EV_ACCEPTED) return m->is_answered = 1;
    if (event == TMESH_EV_REFUSED) return m->is_refused = 1;
    return 0;
  }
  switch (event) {
    case TMESH_EV_DATA_IN:
      return !m->remote_ended;
    case TMESH_EV_DATA_OUT:
      return !m->local_ended;
    case TMESH_EV_HALF_CLOSE_IN:
      return m->remote_ended ? 0 : (m->remote_ended = 1);
    case TMESH_EV_HALF_CLOSE_OUT:
      return m->local_ended ? 0 : (m->local_ended = 1);
    default:
      return 0;
  }
}

static void any_sequence_of_events_agrees_with_the_model(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 2000; seed++) {
    struct prng p = prng_init(seed);
    struct model m = {0};
    enum tmesh_stream_state at = TMESH_STREAM_IDLE;
    for (p.step = 0; p.step < 40; p.step++) {
      enum tmesh_stream_event event = (enum tmesh_stream_event)prng_below(&p, TMESH_EV_COUNT);
      if (event == TMESH_EV_RESET && prng_below(&p, 4) != 0) continue; /* or it is all that happens */
      enum tmesh_stream_state next = tmesh_stream_next(at, event);
      PROPERTY(&p, model_take(&m, event) == (next != TMESH_STREAM_STATE_COUNT));
      if (next != TMESH_STREAM_STATE_COUNT) at = next;
      PROPERTY(&p, tmesh_stream_is_over(at) == model_is_over(&m));
      PROPERTY(&p, (at == TMESH_STREAM_HALF_CLOSED_LOCAL) ==
                       (!model_is_over(&m) && m.local_ended && !m.remote_ended));
      PROPERTY(&p, (at == TMESH_STREAM_HALF_CLOSED_REMOTE) ==
                       (!model_is_over(&m) && m.remote_ended && !m.local_ended));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_cell_of_the_table),
      cmocka_unit_test(any_sequence_of_events_agrees_with_the_model),
      cmocka_unit_test(values_outside_the_enums_are_illegal),
      cmocka_unit_test(a_stream_is_over_exactly_when_closed_or_reset),
      cmocka_unit_test(names_outside_the_enum_are_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
