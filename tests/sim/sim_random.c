/* Seeded runs: usage `sim_random [first [last]]`. A failure prints its seed and step;
 * the same seed repeats it. */
#include "sim_world.h"

/* What one seed is about: every value is drawn from the seed. */
struct plan {
  unsigned streams;
  unsigned disturb_percent; /* of the steps at which something is done, in 1/100 of a percent */
  unsigned cut_percent;     /* chance that a link is cut at all */
  unsigned udp_percent;
  bool allows_windowless;
};

static uint32_t pick_window(struct sim_rng* r) {
  static const uint32_t sizes[] = {262144, 262144, 524288, 131072, 40000, 1000};
  return sizes[sim_below(r, sizeof sizes / sizeof sizes[0])];
}

static struct sim_world_config pick_config(struct sim_rng* r) {
  static const uint64_t latencies[] = {0, 200, 5000, 50000};
  struct sim_world_config c = sim_world_defaults();
  c.is_ours = sim_chance(r, 50);
  for (int i = 0; i < 2; i++) c.has_early_data[i] = sim_chance(r, 50);
  c.client_window_bytes = pick_window(r);
  c.hub_window_bytes = pick_window(r);
  c.latency_us = latencies[sim_below(r, 4)];
  c.jitter_us = sim_chance(r, 50) ? c.latency_us : 0;
  c.link_write_max_bytes = sim_chance(r, 70) ? 65536 : (size_t)sim_range(r, 100, 20000);
  c.target_bytes = sim_chance(r, 70) ? 65536 : (size_t)sim_range(r, 1, 200000);
  c.open_delay_us = sim_below(r, 20000);
  c.dial_delay_us = sim_below(r, 100000);
  c.answer_delay_us = sim_chance(r, 20) ? sim_range(r, 1, 20000) : 0;
  if (sim_chance(r, 30))
    c.window_max_bytes = (uint32_t)sim_range(r, 300000, sim_chance(r, 50) ? 600000 : 4u << 20);
  if (sim_chance(r, 25)) c.pool_bytes = (size_t)sim_range(r, 4, 160) * TMESH_BLOCK_BYTES;
  if (sim_chance(r, 15)) c.coalesce_us = TMESH_COALESCE_US;
  c.streams_max = sim_chance(r, 10) ? (uint32_t)sim_range(r, 1, 4) : 4000;
  c.check_every = 3; /* co-prime with the actors, so that every one is followed by a check */
  return c;
}

static uint64_t pick_size(struct sim_world* w) {
  struct sim_rng* r = &w->rng;
  /* Long enough for a window to grow, where one may. */
  if (w->config.window_max_bytes > 0 && sim_chance(r, 10)) return sim_range(r, 1u << 20, 4u << 20);
  switch (sim_below(r, 5)) {
    case 0:
      return 0;
    case 1:
      return sim_range(r, 1, 2000);
    case 2:
      return 262144; /* exactly one window */
    case 3:
      return sim_range(r, 1, 100000);
    default:
      return sim_range(r, 100000, 500000);
  }
}

static void pick_end(struct sim_rng* r, struct sim_end* e) {
  if (sim_chance(r, 30)) e->read_gap_us = sim_below(r, 20000);
  if (sim_chance(r, 30)) e->write_gap_us = sim_below(r, 20000);
  if (sim_chance(r, 20)) e->write_max_bytes = (size_t)sim_range(r, 3000, 20000);
  if (sim_chance(r, 20)) e->out_max_bytes = (size_t)sim_range(r, 10000, 100000);
  if (sim_chance(r, 20)) e->in_max_bytes = (size_t)sim_range(r, 1000, 50000);
  if (e->total_bytes < 5000 && sim_chance(r, 50)) e->read_max_bytes = (size_t)sim_range(r, 100, 2000);
}

static void open_udp(struct sim_world* w) {
  struct sim_rng* r = &w->rng;
  struct sim_stream* s = sim_world_open_udp(w, sim_below(r, 200), sim_below(r, 200));
  struct sim_udp* ends[2] = {&s->local_udp, &s->target_udp};
  for (int i = 0; i < 2; i++) {
    if (sim_chance(r, 60)) ends[i]->send_gap_us = sim_below(r, 20000);
    if (sim_chance(r, 60)) ends[i]->take_gap_us = sim_below(r, 20000);
  }
  s->is_refused_by_agent = sim_chance(r, 8);
}

static void open_one(struct sim_world* w, const struct plan* plan) {
  struct sim_rng* r = &w->rng;
  if (sim_below(r, 100) < plan->udp_percent) {
    open_udp(w);
    return;
  }
  bool has_windows = !plan->allows_windowless || sim_chance(r, 70);
  struct sim_stream* s = sim_world_open(w, sim_chance(r, 70), has_windows, pick_size(w), pick_size(w));
  pick_end(r, &s->local);
  pick_end(r, &s->target);
  s->is_refused_by_agent = sim_chance(r, 8);
}

static void disturb(struct sim_world* w) {
  struct sim_rng* r = &w->rng;
  struct sim_stream* s = &w->streams[sim_below(r, w->streams_count)];
  switch (sim_below(r, 6)) {
    case 0:
      sim_stream_give_up(s, SIM_CLIENT);
      break;
    case 1:
      sim_stream_give_up(s, SIM_HUB);
      break;
    case 2:
      sim_stream_give_up(s, SIM_AGENT);
      break;
    case 3:
      sim_stream_break_end(s, false);
      break;
    case 4:
      sim_stream_break_end(s, true);
      break;
    default: {
      struct sim_side* side = &w->link[sim_below(r, 2)].side[sim_below(r, 2)];
      if (!side->link->is_cut && side->mux.control_count < 32) {
        SIM_CHECK(tmesh_is_ok(tmesh_mux_control(&side->mux, TMESH_FRAME_PING, "12345678", 8)));
      }
    }
  }
}

/* What all seeds together have gone through: a run that never does is not worth its time. */
static struct {
  uint64_t grown, shrunk, early_bytes, refused_opens, memory_resets, cuts, complete;
  uint64_t datagrams, datagrams_lost;
} seen;

static void add_stats(const struct sim_world* w) {
  for (int i = 0; i < 4; i++) {
    const struct tmesh_mux_stats* s = &w->link[i / 2].side[i % 2].mux.stats;
    seen.grown += s->windows_grown_count;
    seen.shrunk += s->windows_shrunk_count;
    seen.refused_opens += s->queue_full_count;
    seen.memory_resets += s->memory_resets_count;
  }
  for (int i = 0; i < 2; i++) {
    for (unsigned id = 1; id < SIM_STREAMS_MAX; id++) seen.early_bytes += w->link[i].seen[id].early_bytes;
    if (w->link[i].is_cut) seen.cuts++;
  }
}

/* Datagrams are lost where the muxes say so and nowhere else. */
static void check_losses(const struct sim_world* w, bool is_undisturbed) {
  uint64_t tried = 0, received = 0, dropped = 0;
  for (unsigned i = 0; i < w->streams_count; i++) {
    const struct sim_stream* s = &w->streams[i];
    tried += s->local_udp.tried_count + s->target_udp.tried_count;
    received += s->local_udp.received_count + s->target_udp.received_count;
  }
  for (int i = 0; i < 4; i++) dropped += w->link[i / 2].side[i % 2].mux.stats.datagrams_dropped_count;
  if (is_undisturbed) SIM_CHECK(tried - received == dropped);
  seen.datagrams += received;
  seen.datagrams_lost += dropped;
}

/* Streams without windows may be reset for backpressure, any when the pool is empty; nothing else
 * may end by itself. */
static void check_outcome(struct sim_world* w, bool was_cut) {
  uint64_t backpressure = 0;
  bool is_short = false;
  for (int i = 0; i < 4; i++) {
    const struct tmesh_mux* m = &w->link[i / 2].side[i % 2].mux;
    backpressure += m->stats.legacy_backpressure_count;
    if (m->stats.queue_full_count > 0) is_short = true;
  }
  for (int i = 0; i < SIM_HOPS; i++) {
    if (w->pool[i].refused_count > 0) is_short = true;
  }
  add_stats(w);
  bool is_undisturbed = !was_cut && !is_short;
  for (unsigned i = 0; i < w->streams_count; i++) {
    if (w->streams[i].is_disturbed || w->streams[i].is_refused_by_agent) is_undisturbed = false;
  }
  check_losses(w, is_undisturbed);
  for (unsigned i = 0; i < w->streams_count; i++) {
    struct sim_stream* s = &w->streams[i];
    bool may_fail =
        s->is_disturbed || was_cut || (!s->has_windows && !s->is_udp && backpressure > 0) || is_short;
    if (!may_fail) sim_stream_check_complete(s);
    if (!may_fail && !s->is_refused_by_agent) seen.complete++;
  }
}

/* For some time others hold 4/5 of the memory: grown windows shrink. */
static void squeeze(struct sim_world* w, size_t held_count[SIM_HOPS], bool on) {
  for (int i = 0; i < SIM_HOPS; i++) {
    size_t want_count = w->pool[i].budget_count * 4 / 5;
    bool has_room = w->pool[i].live_count + want_count <= w->pool[i].budget_count;
    if (on && has_room) held_count[i] = want_count;
    if (on) w->pool[i].live_count += held_count[i];
    if (on) continue;
    w->pool[i].live_count -= held_count[i];
    held_count[i] = 0;
  }
}

static void run_seed(uint64_t seed) {
  struct sim_rng r = sim_rng_init(seed ^ UINT64_C(0x5eed));
  struct sim_world_config config = pick_config(&r);
  struct plan plan = {.streams = (unsigned)sim_range(&r, 1, 10),
                      .disturb_percent = sim_chance(&r, 50) ? 0 : (unsigned)sim_range(&r, 10, 200),
                      .cut_percent = 15,
                      .udp_percent = sim_chance(&r, 40) ? (unsigned)sim_range(&r, 10, 100) : 0,
                      .allows_windowless = sim_chance(&r, 40)};
  uint64_t cut_at_step = sim_chance(&r, plan.cut_percent) ? sim_range(&r, 1, 2000) : 0;
  uint64_t squeeze_at_step =
      config.window_max_bytes > 0 && sim_chance(&r, 60) ? sim_range(&r, 1000, 5000) : UINT64_MAX;
  size_t squeezed_count[SIM_HOPS] = {0};
  struct sim_world w;
  sim_world_init(&w, &config, seed);
  bool is_alive = true;
  while (is_alive || w.streams_count < plan.streams) {
    if (w.streams_count < plan.streams && (!is_alive || sim_chance(&w.rng, 5))) open_one(&w, &plan);
    if (w.streams_count > 0 && sim_below(&w.rng, 10000) < plan.disturb_percent) disturb(&w);
    if (sim_step + 1 == cut_at_step) sim_link_cut(&w.link[sim_below(&w.rng, 2)]);
    if (sim_step == squeeze_at_step) squeeze(&w, squeezed_count, true);
    if (sim_step > 4000 && sim_step - 4000 == squeeze_at_step) squeeze(&w, squeezed_count, false);
    is_alive = sim_world_step(&w);
  }
  squeeze(&w, squeezed_count, false);
  sim_world_check(&w);
  bool was_cut = w.link[0].is_cut || w.link[1].is_cut;
  /* A disturbed stream may wait for somebody who is gone only if nobody was told; everybody is. */
  check_outcome(&w, was_cut);
  sim_world_close(&w);
}

int main(int argc, char** argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t last = argc > 2 ? strtoull(argv[2], NULL, 10) : (argc > 1 ? first : 400);
  sim_report_on_abort();
  uint64_t steps = 0;
  for (uint64_t seed = first; seed <= last; seed++) {
    run_seed(seed);
    steps += sim_step;
  }
  printf(
      "%llu seeds, %llu steps: %llu streams complete, %llu windows grown, %llu shrunk, %llu early bytes, "
      "%llu opens refused, %llu streams reset for memory, %llu cuts, %llu datagrams and %llu lost\n",
      (unsigned long long)last + 1 - first, (unsigned long long)steps, (unsigned long long)seen.complete,
      (unsigned long long)seen.grown, (unsigned long long)seen.shrunk, (unsigned long long)seen.early_bytes,
      (unsigned long long)seen.refused_opens, (unsigned long long)seen.memory_resets,
      (unsigned long long)seen.cuts, (unsigned long long)seen.datagrams,
      (unsigned long long)seen.datagrams_lost);
  fflush(stdout);
  if (last - first >= 199) {
    SIM_CHECK(seen.complete > 0 && seen.grown > 0 && seen.shrunk > 0 && seen.early_bytes > 0);
    SIM_CHECK(seen.refused_opens > 0 && seen.memory_resets > 0 && seen.cuts > 0);
    SIM_CHECK(seen.datagrams > 0 && seen.datagrams_lost > 0);
  }
  return 0;
}
