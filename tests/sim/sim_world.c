#include "sim_world.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* snprintf in a handler: the process ends here whatever happens. NOLINTBEGIN(bugprone-signal-handler) */
static void on_abort(int signum) {
  (void)signum;
  char text[96];
  int n = snprintf(text, sizeof text, "simulation: seed %llu step %llu\n", (unsigned long long)sim_seed,
                   (unsigned long long)sim_step);
  if (write(STDERR_FILENO, text, (size_t)n) != n) _exit(3);
}
/* NOLINTEND(bugprone-signal-handler) */
void sim_report_on_abort(void) {
  signal(SIGABRT, on_abort);
}

struct sim_world_config sim_world_defaults(void) {
  return (struct sim_world_config){.is_ours = true,
                                   .client_window_bytes = TMESH_WINDOW_INITIAL_BYTES,
                                   .hub_window_bytes = TMESH_WINDOW_INITIAL_BYTES,
                                   .latency_us = 1000,
                                   .link_write_max_bytes = 65536,
                                   .target_bytes = 65536,
                                   .pool_bytes = 64u << 20,
                                   .streams_max = 4000,
                                   .check_every = 1};
}

void sim_world_init(struct sim_world* w, const struct sim_world_config* config, uint64_t seed) {
  memset(w, 0, sizeof *w);
  sim_seed = seed;
  sim_step = 0;
  w->config = *config;
  w->rng = sim_rng_init(seed);
  w->now_us = 1;
  w->streams = calloc(SIM_WORLD_STREAMS_MAX, sizeof *w->streams);
  SIM_CHECK(w->streams != NULL);
  for (int i = 0; i < SIM_HOPS; i++) tmesh_pool_init(&w->pool[i], config->pool_bytes, 1u << 20);
  struct tmesh_mux_config c = {.events_ctx = w,
                               .has_open_result = true,
                               .has_flow_control = true,
                               .resets_unknown_data = true,
                               .has_window_growth = config->window_max_bytes > 0,
                               .window_max_bytes = config->window_max_bytes,
                               .peer_is_ours = config->is_ours,
                               .initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES,
                               .window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES,
                               .inbound_max_bytes = 262144,
                               .outbound_max_bytes = 262144,
                               .streams_max = config->streams_max};
  struct tmesh_mux_config side[4] = {c, c, c, c};
  side[0].events = &sim_client_events;
  side[1].events = &sim_hub_in_events;
  side[2].events = &sim_hub_out_events;
  side[3].events = &sim_agent_events;
  side[0].is_opener = side[2].is_opener = true;
  side[0].pool = &w->pool[SIM_CLIENT];
  side[1].pool = side[2].pool = &w->pool[SIM_HUB];
  side[3].pool = &w->pool[SIM_AGENT];
  for (int i = 0; i < 2; i++) {
    side[2 * i].has_early_data = side[2 * i + 1].has_early_data = config->has_early_data[i];
    side[2 * i + 1].coalesce_us = config->coalesce_us;
    sim_link_init(&w->link[i], &side[2 * i], &side[2 * i + 1]);
    sim_world_path(w, i, config->latency_us, 0);
    w->link[i].jitter_us = config->jitter_us;
    w->link[i].write_max_bytes = config->link_write_max_bytes;
    w->link[i].target_bytes = config->target_bytes;
  }
}

void sim_world_path(struct sim_world* w, int link, uint64_t latency_us, uint64_t rate_bytes_per_s) {
  struct sim_link* l = &w->link[link];
  l->latency_us = latency_us;
  l->rate_bytes_per_s = rate_bytes_per_s;
  for (int i = 0; i < 2; i++) tmesh_mux_set_rtt(&l->side[i].mux, 2 * latency_us);
}

struct sim_stream* sim_world_open(struct sim_world* w, bool is_strict, bool has_windows, uint64_t up_bytes,
                                  uint64_t down_bytes) {
  SIM_CHECK(w->streams_count < SIM_WORLD_STREAMS_MAX);
  struct sim_stream* s = &w->streams[w->streams_count];
  s->world = w;
  s->number = w->streams_count++;
  s->is_strict = is_strict;
  s->has_windows = has_windows;
  sim_end_init(&s->local, &w->pool[SIM_CLIENT], s->number, 0);
  sim_end_init(&s->target, &w->pool[SIM_AGENT], s->number, 1);
  s->local.total_bytes = up_bytes;
  s->target.total_bytes = down_bytes;
  s->local.is_started = true;
  struct tmesh_open_stream open = {
      .protocol = TMESH_OPEN_TCP, .target_host = "target.test", .target_port = (uint16_t)(s->number + 1)};
  struct tmesh_open_params params = {&open, is_strict, has_windows ? w->config.client_window_bytes : 0};
  struct tmesh_status why;
  s->client = tmesh_mux_open(&w->link[0].side[0].mux, &params, &why);
  if (s->client == NULL) {
    s->is_disturbed = true;
    sim_end_abort(&s->local);
    return s;
  }
  tmesh_stream_attach(s->client, s, sim_client_event);
  sim_client_opened(s);
  return s;
}

struct sim_stream* sim_world_open_udp(struct sim_world* w, uint64_t up_count, uint64_t down_count) {
  SIM_CHECK(w->streams_count < SIM_WORLD_STREAMS_MAX);
  struct sim_stream* s = &w->streams[w->streams_count];
  s->world = w;
  s->number = w->streams_count++;
  s->is_udp = true;
  sim_end_init(&s->local, &w->pool[SIM_CLIENT], s->number, 0);
  sim_end_init(&s->target, &w->pool[SIM_AGENT], s->number, 1);
  sim_udp_init(&s->local_udp, s->number, 0, up_count);
  sim_udp_init(&s->target_udp, s->number, 1, down_count);
  struct tmesh_open_stream open = {
      .protocol = TMESH_OPEN_UDP, .target_host = "target.test", .target_port = (uint16_t)(s->number + 1)};
  /* Legacy, and the window is left out (LESSONS Z1). */
  struct tmesh_open_params params = {&open, false, w->config.client_window_bytes};
  struct tmesh_status why;
  s->client = tmesh_mux_open(&w->link[0].side[0].mux, &params, &why);
  if (s->client == NULL) {
    s->is_disturbed = true;
    return s;
  }
  tmesh_stream_attach(s->client, s, sim_udp_event);
  return s;
}

bool sim_stream_is_finished(const struct sim_stream* s) {
  return s->client == NULL && s->hub_in == NULL && s->hub_out == NULL && s->agent == NULL &&
         s->hub_opens_at_us == 0 && s->dials_at_us == 0;
}

static void print_side(const char* name, const struct tmesh_stream* t) {
  if (t == NULL) {
    fprintf(stderr, "  %s: released\n", name);
    return;
  }
  fprintf(stderr, "  %s: %s in %zu out %zu eof %d/%d pulled %d written %d credit %u/%u over %s\n", name,
          tmesh_stream_state_name(t->state), t->in.len_bytes, t->out.len_bytes, t->in_eof, t->out_eof,
          t->out_eof_pulled, t->out_eof_written, t->recv.credit_bytes, t->send.credit_bytes,
          tmesh_code_name(t->over.code));
}

static void print_end(const char* name, const struct sim_end* e) {
  fprintf(stderr,
          "  %s: produced %llu/%llu received %llu in %zu out %zu paused %d eof %d finish %d/%d aborted %d\n",
          name, (unsigned long long)e->produced_bytes, (unsigned long long)e->total_bytes,
          (unsigned long long)e->received_bytes, e->in.len_bytes, e->out.len_bytes, e->is_paused,
          e->is_eof_sent, e->is_finish_asked, e->is_finish_done, e->is_aborted);
}

void sim_stream_print(const struct sim_stream* s) {
  fprintf(stderr, "stream %u strict %d windows %d disturbed %d refused %d\n", s->number, s->is_strict,
          s->has_windows, s->is_disturbed, s->is_refused);
  print_end("local", &s->local);
  print_side("client", s->client);
  print_side("hub in", s->hub_in);
  print_side("hub out", s->hub_out);
  fprintf(stderr, "  udp %d: tried %llu/%llu and %llu/%llu\n", s->is_udp,
          (unsigned long long)s->local_udp.tried_count, (unsigned long long)s->local_udp.total_count,
          (unsigned long long)s->target_udp.tried_count, (unsigned long long)s->target_udp.total_count);
  print_side("agent", s->agent);
  print_end("target", &s->target);
}

/* --- stepping ------------------------------------------------------------------------------ */

#define SIDE_ACTORS 12u /* 4 mux sides x (process, write, deliver) */
#define STREAM_ACTORS 6u

static struct sim_side* side_at(struct sim_world* w, unsigned i) {
  return &w->link[i / 2].side[i % 2];
}

static bool due(uint64_t at_us, uint64_t now_us) {
  return at_us <= now_us;
}

/* Runs one actor if it can act. */
static bool act_side(struct sim_world* w, unsigned actor) {
  struct sim_side* s = side_at(w, actor / 3);
  switch (actor % 3) {
    case 0:
      if (!sim_side_can_process(s, w->now_us)) return false;
      sim_side_process(s, w->now_us);
      return true;
    case 1:
      if (!sim_side_can_write(s, w->now_us)) return false;
      sim_side_write(s, &w->rng, w->now_us);
      return true;
    default:
      if (!sim_side_can_deliver(s, w->now_us)) return false;
      sim_side_deliver(s, &w->rng, w->now_us);
      return true;
  }
}

/* Actors 0 to 3 of a udp stream, as those of the others. */
static bool act_udp(struct sim_world* w, struct sim_stream* s, unsigned actor) {
  struct sim_udp* u = actor < 2 ? &s->local_udp : &s->target_udp;
  struct tmesh_stream** stream = actor < 2 ? &s->client : &s->agent;
  if (actor % 2 == 0) {
    if (!sim_udp_wants_send(u, *stream) || !due(u->next_send_us, w->now_us)) return false;
    sim_udp_send(u, *stream, &w->rng, w->now_us);
  } else {
    if (!sim_udp_wants_take(u, *stream) || !due(u->next_take_us, w->now_us)) return false;
    sim_udp_take(u, *stream, actor < 2 ? &s->target_udp : &s->local_udp, &w->rng, w->now_us);
  }
  sim_udp_settle(s, stream);
  return true;
}

static bool act_stream(struct sim_world* w, struct sim_stream* s, unsigned actor) {
  if (s->is_udp && actor < 4) return act_udp(w, s, actor);
  struct sim_end* e = actor < 2 ? &s->local : &s->target;
  switch (actor) {
    case 0:
    case 2:
      if (!sim_end_wants_read(e) || !due(e->next_read_us, w->now_us)) return false;
      sim_end_read(e, &w->rng, w->now_us);
      return true;
    case 1:
    case 3:
      if (!sim_end_wants_write(e) || !due(e->next_write_us, w->now_us)) return false;
      sim_end_write(e, &w->rng, w->now_us);
      return true;
    case 4:
      if (s->hub_opens_at_us == 0 || !due(s->hub_opens_at_us, w->now_us)) return false;
      sim_hub_open_now(s);
      return true;
    default:
      if (s->dials_at_us == 0 || !due(s->dials_at_us, w->now_us)) return false;
      sim_agent_dial_now(s);
      return true;
  }
}

static void earliest(uint64_t* best, uint64_t at_us) {
  if (at_us < *best) *best = at_us;
}

/* The time of the next thing that will happen by itself; UINT64_MAX if nothing will. */
static uint64_t next_event_us(struct sim_world* w) {
  uint64_t best = UINT64_MAX;
  for (unsigned i = 0; i < 4; i++) {
    struct sim_side* s = side_at(w, i);
    earliest(&best, tmesh_mux_due_us(&s->mux));
    if (!s->link->is_cut && s->head != NULL) earliest(&best, s->head->at_us);
    if (!s->link->is_cut && s->batch_sent < s->batch_len) earliest(&best, s->free_at_us);
  }
  for (unsigned i = w->first_unfinished; i < w->streams_count; i++) {
    struct sim_stream* s = &w->streams[i];
    if (s->hub_opens_at_us != 0) earliest(&best, s->hub_opens_at_us);
    if (s->dials_at_us != 0) earliest(&best, s->dials_at_us);
    const struct sim_udp* udp[2] = {&s->local_udp, &s->target_udp};
    const struct tmesh_stream* streams[2] = {s->client, s->agent};
    for (int k = 0; k < 2 && s->is_udp; k++) {
      if (sim_udp_wants_send(udp[k], streams[k])) earliest(&best, udp[k]->next_send_us);
      if (sim_udp_wants_take(udp[k], streams[k])) earliest(&best, udp[k]->next_take_us);
    }
    struct sim_end* ends[2] = {&s->local, &s->target};
    for (int k = 0; k < 2 && !s->is_udp; k++) {
      if (sim_end_wants_read(ends[k])) earliest(&best, ends[k]->next_read_us);
      if (sim_end_wants_write(ends[k])) earliest(&best, ends[k]->next_write_us);
    }
  }
  return best;
}

static bool act(struct sim_world* w) {
  unsigned streams = w->streams_count - w->first_unfinished;
  unsigned actors = SIDE_ACTORS + streams * STREAM_ACTORS;
  /* The muxes get half of all turns, so that many sockets do not slow time down to nothing. */
  unsigned start = sim_chance(&w->rng, 50) ? (unsigned)sim_below(&w->rng, SIDE_ACTORS)
                                           : (unsigned)sim_below(&w->rng, actors);
  for (unsigned i = 0; i < actors; i++) {
    unsigned actor = (start + i) % actors;
    if (actor < SIDE_ACTORS) {
      if (act_side(w, actor)) return true;
    } else {
      actor -= SIDE_ACTORS;
      struct sim_stream* s = &w->streams[w->first_unfinished + actor / STREAM_ACTORS];
      if (act_stream(w, s, actor % STREAM_ACTORS)) return true;
    }
  }
  return false;
}

bool sim_world_step(struct sim_world* w) {
  sim_step++;
  SIM_CHECK(sim_step < 5000000); /* nothing here takes that long: it turns in circles */
  while (w->first_unfinished < w->streams_count && sim_stream_is_finished(&w->streams[w->first_unfinished])) {
    w->first_unfinished++;
  }
  bool has_acted = act(w);
  if (!has_acted) {
    uint64_t next_us = next_event_us(w);
    if (next_us == UINT64_MAX) return false;
    SIM_CHECK(next_us > w->now_us);
    w->now_us = next_us;
  }
  if (has_acted && w->config.check_every != 0 && sim_step % w->config.check_every == 0) sim_world_check(w);
  return true;
}

void sim_world_run(struct sim_world* w) {
  while (sim_world_step(w)) {
  }
  sim_world_check(w);
}

/* --- properties ------------------------------------------------------------------------------ */

/* Credit per hop (LESSONS R1): a hop never announces more than was written behind it. */
static void check_credit(const struct sim_stream* s, enum sim_hop hop, int end, const struct sim_link* l,
                         const struct tmesh_stream* stream, int direction) {
  if (stream == NULL || !s->has_splice[hop] || s->splice[hop].is_done) return;
  const struct sim_seen* seen = &l->seen[stream->id];
  SIM_CHECK(seen->announced_bytes[direction] + stream->update_bytes + seen->first_bytes[direction] <=
            s->splice[hop].consumed_bytes[end] + stream->recv.size_bytes);
}

void sim_world_check(struct sim_world* w) {
  for (unsigned i = 0; i < 4; i++) {
    const struct sim_side* side = side_at(w, i);
    tmesh_mux_check(&side->mux);
    SIM_CHECK(side->mux.stats.window_violations_count == 0);
    SIM_CHECK(side->mux.stats.protocol_resets_count == 0);
    /* Whatever can be sent or dispatched, the link knows: no lost wake-up. */
    if (tmesh_mux_has_output(&side->mux) && !side->mux.is_batch_open) SIM_CHECK(side->is_dirty);
    if (!tmesh_list_empty((struct tmesh_list*)&side->mux.events)) SIM_CHECK(side->is_dirty);
  }
  for (unsigned i = w->first_unfinished; i < w->streams_count; i++) {
    const struct sim_stream* s = &w->streams[i];
    sim_end_check(&s->local);
    sim_end_check(&s->target);
    for (int k = 0; k < SIM_HOPS; k++) {
      if (s->has_splice[k]) tmesh_splice_check(&s->splice[k]);
    }
    SIM_CHECK(s->target.received_bytes <= s->local.produced_bytes);
    SIM_CHECK(s->local.received_bytes <= s->target.produced_bytes);
    check_credit(s, SIM_CLIENT, 1, &w->link[0], s->client, 1);
    check_credit(s, SIM_HUB, 0, &w->link[0], s->hub_in, 0);
    check_credit(s, SIM_HUB, 1, &w->link[1], s->hub_out, 1);
    check_credit(s, SIM_AGENT, 0, &w->link[1], s->agent, 0);
  }
}

/* All was tried, and both directions ended regularly; what is lost is for the mux to count. */
static void check_udp_complete(const struct sim_stream* s) {
  SIM_CHECK(s->local_udp.tried_count == s->local_udp.total_count && s->local_udp.is_end_sent);
  SIM_CHECK(s->target_udp.tried_count == s->target_udp.total_count && s->target_udp.is_end_sent);
  SIM_CHECK(s->done_count[SIM_HUB] == 1 && tmesh_is_ok(s->why[SIM_HUB]));
}

void sim_stream_check_complete(const struct sim_stream* s) {
  if (s->is_refused_by_agent) {
    SIM_CHECK(s->is_refused || !s->is_strict);
    return;
  }
  if (s->is_udp) {
    check_udp_complete(s);
    return;
  }
  SIM_CHECK(s->local.produced_bytes == s->local.total_bytes &&
            s->target.produced_bytes == s->target.total_bytes);
  SIM_CHECK(s->target.received_bytes == s->local.total_bytes);
  SIM_CHECK(s->local.received_bytes == s->target.total_bytes);
  /* Sent = consumed after the drain. */
  SIM_CHECK(s->local.consumed_bytes == s->local.total_bytes);
  SIM_CHECK(s->target.consumed_bytes == s->target.total_bytes);
  SIM_CHECK(s->local.is_finish_done && s->target.is_finish_done);
  for (int k = 0; k < SIM_HOPS; k++) {
    SIM_CHECK(s->done_count[k] == 1 && tmesh_is_ok(s->why[k]));
    SIM_CHECK(s->splice[k].moved_bytes[0] == s->local.total_bytes);
    SIM_CHECK(s->splice[k].moved_bytes[1] == s->target.total_bytes);
    SIM_CHECK(s->splice[k].consumed_bytes[0] == s->local.total_bytes);
    SIM_CHECK(s->splice[k].consumed_bytes[1] == s->target.total_bytes);
  }
}

void sim_world_close(struct sim_world* w) {
  for (unsigned i = 0; i < w->streams_count; i++) {
    struct sim_stream* s = &w->streams[i];
    if (!sim_stream_is_finished(s)) sim_stream_print(s);
    SIM_CHECK(sim_stream_is_finished(s));
    for (int k = 0; k < SIM_HOPS; k++) {
      if (s->has_splice[k]) SIM_CHECK(s->done_count[k] + (s->is_cancelled[k] ? 1 : 0) == 1);
    }
    sim_end_abort(&s->local);
    sim_end_abort(&s->target);
  }
  for (unsigned i = 0; i < 4; i++) {
    SIM_CHECK(side_at(w, i)->mux.live_count == 0);
    SIM_CHECK(side_at(w, i)->mux.streams.count == 0);
  }
  for (int i = 0; i < 2; i++) sim_link_close(&w->link[i]);
  for (int i = 0; i < SIM_HOPS; i++) {
    SIM_CHECK(w->pool[i].live_count == 0);
    tmesh_pool_close(&w->pool[i]);
  }
  free(w->streams);
}
