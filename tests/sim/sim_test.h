/* For named scenarios: cmocka, and a world that is set up and torn down in one line. */
#ifndef TMESH_TESTS_SIM_TEST_H
#define TMESH_TESTS_SIM_TEST_H

/* cmocka.h needs these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim_world.h"

/* Everything completes, exactly, and nothing is left. */
static inline void finish_world(struct sim_world* w) {
  sim_world_run(w);
  for (unsigned i = 0; i < w->streams_count; i++) {
    if (!w->streams[i].is_disturbed) sim_stream_check_complete(&w->streams[i]);
  }
  sim_world_close(w);
}

static inline void start_world(struct sim_world* w) {
  struct sim_world_config c = sim_world_defaults();
  sim_world_init(w, &c, 1);
}

#endif
