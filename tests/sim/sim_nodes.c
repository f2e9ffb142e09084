/* What client, hub and agent do with the events of their streams. Kept close to what
 * the real programs do, and to nothing else. */
#include "sim_world.h"

static void on_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken);

static void release(struct tmesh_stream** stream) {
  if (*stream == NULL) return;
  struct tmesh_stream* s = *stream;
  *stream = NULL;
  tmesh_stream_release(s);
}

static void splice(struct sim_stream* s, enum sim_hop hop, struct tmesh_end a, struct tmesh_end b) {
  s->has_splice[hop] = true;
  tmesh_splice_init(&s->splice[hop], a, b, s, on_done);
}

static void on_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken) {
  struct sim_stream* s = ctx;
  enum sim_hop hop = (enum sim_hop)(sp - s->splice);
  (void)broken;
  s->done_count[hop]++;
  s->why[hop] = why;
  SIM_CHECK(s->done_count[hop] == 1 && !s->is_cancelled[hop]);
  if (hop == SIM_CLIENT) {
    s->local.splice = NULL;
    if (!tmesh_is_ok(why)) sim_end_abort(&s->local);
    release(&s->client);
  } else if (hop == SIM_HUB) {
    release(&s->hub_in);
    release(&s->hub_out);
  } else {
    s->target.splice = NULL;
    s->dials_at_us = 0;
    if (!tmesh_is_ok(why)) sim_end_abort(&s->target);
    release(&s->agent);
  }
}

/* --- client ----------------------------------------------------------------------------- */

static void client_splice(struct sim_stream* s) {
  splice(s, SIM_CLIENT, sim_end_of(&s->local), tmesh_stream_end(s->client));
  s->local.splice = &s->splice[SIM_CLIENT];
  s->local.index = 0;
  tmesh_splice_start(&s->splice[SIM_CLIENT]);
}

void sim_client_opened(struct sim_stream* s) {
  /* A legacy open is optimistic: the bytes of the local socket may go at once. */
  if (!s->is_strict) s->is_opened = true;
  if (!s->is_strict || s->world->config.has_early_data[0]) client_splice(s);
}

/* The client gives the socket up: nothing was ever answered to it. */
static void client_refused(struct sim_stream* s, bool is_told) {
  s->is_refused = is_told;
  if (s->has_splice[SIM_CLIENT]) {
    s->is_cancelled[SIM_CLIENT] = true;
    s->local.splice = NULL;
    tmesh_splice_cancel(&s->splice[SIM_CLIENT]);
  }
  sim_end_abort(&s->local);
  release(&s->client);
}

void sim_client_event(void* user, struct tmesh_stream* stream, unsigned events) {
  struct sim_stream* s = user;
  SIM_CHECK(stream == s->client);
  bool is_told = (events & TMESH_STREAM_EV_RESULT) != 0;
  if (is_told && stream->result.accepted) s->is_opened = true;
  if (!s->is_opened && (is_told || (events & TMESH_STREAM_EV_OVER) != 0)) {
    client_refused(s, is_told);
    return;
  }
  if (!s->has_splice[SIM_CLIENT]) {
    if (!s->is_opened) return;
    client_splice(s);
    if (s->client == NULL) return;
  }
  tmesh_splice_stream_event(&s->splice[SIM_CLIENT], 1, stream, events);
}

/* --- datagrams: at the client and at the agent ------------------------------------------------ */

void sim_udp_settle(struct sim_stream* s, struct tmesh_stream** stream) {
  const struct tmesh_stream* t = *stream;
  (void)s;
  if (t != NULL && tmesh_stream_is_done(t) && tmesh_stream_all_written(t) && t->in.len_bytes == 0) {
    release(stream);
  }
}

void sim_udp_event(void* user, struct tmesh_stream* stream, unsigned events) {
  struct sim_stream* s = user;
  struct tmesh_stream** mine = stream == s->client ? &s->client : &s->agent;
  SIM_CHECK(stream == *mine);
  if ((events & TMESH_STREAM_EV_OVER) != 0) {
    if (mine == &s->agent) s->dials_at_us = 0;
    release(mine);
    return;
  }
  sim_udp_settle(s, mine);
}

/* --- hub ----------------------------------------------------------------------------------- */

static struct sim_world* world_of(void* ctx) {
  return ctx;
}

static void hub_splice(struct sim_stream* s) {
  splice(s, SIM_HUB, tmesh_stream_end(s->hub_in), tmesh_stream_end(s->hub_out));
}

/* An open that came to nothing; the answer first, the splice of early data afterwards. */
static void hub_give_up(struct sim_stream* s, struct tmesh_open_result result) {
  s->hub_opens_at_us = 0;
  tmesh_stream_answer(s->hub_in, &result);
  if (s->has_splice[SIM_HUB]) {
    s->is_cancelled[SIM_HUB] = true;
    tmesh_splice_cancel(&s->splice[SIM_HUB]);
  }
  release(&s->hub_in);
  release(&s->hub_out);
}

static void hub_event(void* user, struct tmesh_stream* stream, unsigned events) {
  struct sim_stream* s = user;
  bool is_in = stream == s->hub_in;
  SIM_CHECK(is_in || stream == s->hub_out);
  bool is_told = !is_in && (events & TMESH_STREAM_EV_RESULT) != 0;
  bool is_over = (events & TMESH_STREAM_EV_OVER) != 0;
  if (s->hub_in->state == TMESH_STREAM_OPENING || !s->has_splice[SIM_HUB]) {
    if (is_over) {
      hub_give_up(s, tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_AGENT_OFFLINE, true));
      return;
    }
    if (is_told && !stream->result.accepted) {
      hub_give_up(s, stream->result);
      return;
    }
    /* Installed first, answered then (requirement C7). */
    if (is_told) {
      if (!s->has_splice[SIM_HUB]) hub_splice(s);
      tmesh_stream_answer(s->hub_in, &stream->result);
    }
    if (!s->has_splice[SIM_HUB]) return;
  }
  tmesh_splice_stream_event(&s->splice[SIM_HUB], is_in ? 0 : 1, stream, events);
}

static struct sim_stream* stream_of(struct sim_world* w, const struct tmesh_open_stream* open) {
  SIM_CHECK(open->target_port >= 1 && open->target_port <= w->streams_count);
  return &w->streams[open->target_port - 1];
}

static void hub_on_open(void* ctx, struct tmesh_stream* stream, const struct tmesh_open_stream* open) {
  struct sim_world* w = world_of(ctx);
  struct sim_stream* s = stream_of(w, open);
  SIM_CHECK(s->hub_in == NULL);
  s->hub_in = stream;
  tmesh_stream_attach(stream, s, hub_event);
  s->hub_opens_at_us = w->now_us + 1 + sim_below(&w->rng, w->config.open_delay_us + 1);
}

void sim_hub_open_now(struct sim_stream* s) {
  struct sim_world* w = s->world;
  s->hub_opens_at_us = 0;
  struct tmesh_open_stream open = {.protocol = s->is_udp ? TMESH_OPEN_UDP : TMESH_OPEN_TCP,
                                   .target_host = "target.test",
                                   .target_port = (uint16_t)(s->number + 1)};
  struct tmesh_open_params params = {&open, s->is_strict, s->has_windows ? w->config.hub_window_bytes : 0};
  struct tmesh_status why;
  s->hub_out = tmesh_mux_open(&w->link[1].side[0].mux, &params, &why);
  if (s->hub_out == NULL) {
    struct tmesh_open_result full = tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
    s->is_disturbed = true;
    tmesh_stream_answer(s->hub_in, &full);
    release(&s->hub_in);
    return;
  }
  tmesh_stream_attach(s->hub_out, s, hub_event);
  /* With early data the bytes go on before anybody answered; where the agent does not know it
   * they wait (WIRE E). */
  if (s->is_strict && !w->config.has_early_data[0]) return;
  hub_splice(s);
  struct tmesh_open_result ok = tmesh_open_accept();
  if (!s->is_strict) tmesh_stream_answer(s->hub_in, &ok);
  tmesh_splice_start(&s->splice[SIM_HUB]);
}

/* --- agent ---------------------------------------------------------------------------------- */

static void agent_event(void* user, struct tmesh_stream* stream, unsigned events) {
  struct sim_stream* s = user;
  SIM_CHECK(stream == s->agent);
  if (s->has_splice[SIM_AGENT]) {
    tmesh_splice_stream_event(&s->splice[SIM_AGENT], 0, stream, events);
  } else if ((events & TMESH_STREAM_EV_OVER) != 0) {
    s->dials_at_us = 0;
    release(&s->agent);
  }
}

static void agent_on_open(void* ctx, struct tmesh_stream* stream, const struct tmesh_open_stream* open) {
  struct sim_world* w = world_of(ctx);
  struct sim_stream* s = stream_of(w, open);
  SIM_CHECK(s->agent == NULL);
  s->agent = stream;
  tmesh_stream_attach(stream, s, s->is_udp ? sim_udp_event : agent_event);
  s->dials_at_us = w->now_us + 1 + sim_below(&w->rng, w->config.dial_delay_us + 1);
}

void sim_agent_dial_now(struct sim_stream* s) {
  struct tmesh_open_result ok = tmesh_open_accept();
  s->dials_at_us = 0;
  if (s->has_splice[SIM_AGENT]) {
    tmesh_stream_answer(s->agent, &ok); /* and nobody runs the splice: the answer has to */
    return;
  }
  if (s->is_refused_by_agent) {
    struct tmesh_open_result no =
        tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false);
    tmesh_stream_answer(s->agent, &no);
    release(&s->agent);
    return;
  }
  if (s->is_udp) {
    tmesh_stream_answer(s->agent, &ok);
    return;
  }
  s->target.is_started = true;
  splice(s, SIM_AGENT, tmesh_stream_end(s->agent), sim_end_of(&s->target));
  s->target.splice = &s->splice[SIM_AGENT];
  s->target.index = 1;
  if (s->world->config.answer_delay_us > 0) {
    s->dials_at_us = s->world->now_us + s->world->config.answer_delay_us;
  } else {
    tmesh_stream_answer(s->agent, &ok);
  }
  tmesh_splice_start(&s->splice[SIM_AGENT]);
}

/* --- disturbances ----------------------------------------------------------------------------- */

static void cancel(struct sim_stream* s, enum sim_hop hop) {
  if (!s->has_splice[hop] || s->done_count[hop] > 0 || s->is_cancelled[hop]) return;
  s->is_cancelled[hop] = true;
  tmesh_splice_cancel(&s->splice[hop]);
}

void sim_stream_give_up(struct sim_stream* s, enum sim_hop hop) {
  const struct tmesh_stream* mine[SIM_HOPS] = {s->client, s->hub_in, s->agent};
  if (mine[hop] == NULL) return; /* not there yet, or not any more */
  s->is_disturbed = true;
  cancel(s, hop);
  if (hop == SIM_CLIENT) {
    sim_end_abort(&s->local);
    release(&s->client);
  } else if (hop == SIM_HUB) {
    s->hub_opens_at_us = 0;
    release(&s->hub_in);
    release(&s->hub_out);
  } else {
    s->dials_at_us = 0;
    sim_end_abort(&s->target);
    release(&s->agent);
  }
}

void sim_stream_break_end(struct sim_stream* s, bool is_target) {
  struct sim_end* e = is_target ? &s->target : &s->local;
  if (e->splice == NULL) return;
  s->is_disturbed = true;
  struct tmesh_splice* sp = e->splice;
  sim_end_abort(e);
  tmesh_splice_broken(sp, e->index, tmesh_err_stream(TMESH_E_IO));
}

/* --- event tables -------------------------------------------------------------------------------- */

static struct tmesh_status on_control(void* ctx, const struct tmesh_frame_header* h, const uint8_t* payload,
                                      size_t len_bytes) {
  (void)ctx, (void)h, (void)payload, (void)len_bytes;
  return tmesh_ok();
}
/* As the loop does when nothing is stalled: the largest stream of the process gives its memory back. */
static void evict(struct tmesh_mux* const muxes[2], const struct tmesh_stream* keep) {
  struct tmesh_stream* best = NULL;
  size_t best_count = 0;
  for (int i = 0; i < 2 && muxes[i] != NULL; i++) {
    for (struct tmesh_list* n = muxes[i]->all.next; n != &muxes[i]->all; n = n->next) {
      struct tmesh_stream* s = TMESH_CONTAINER(n, struct tmesh_stream, in_all);
      const size_t count = s->in.block_count + s->out.block_count;
      if (s == keep || tmesh_stream_is_over((enum tmesh_stream_state)s->state) || count <= best_count)
        continue;
      best = s;
      best_count = count;
    }
  }
  if (best != NULL) tmesh_mux_evict(best);
}

static void client_memory_full(void* ctx, const struct tmesh_stream* keep) {
  struct tmesh_mux* muxes[2] = {&world_of(ctx)->link[0].side[0].mux, NULL};
  evict(muxes, keep);
}
static void hub_memory_full(void* ctx, const struct tmesh_stream* keep) {
  struct tmesh_mux* muxes[2] = {&world_of(ctx)->link[0].side[1].mux, &world_of(ctx)->link[1].side[0].mux};
  evict(muxes, keep);
}
static void agent_memory_full(void* ctx, const struct tmesh_stream* keep) {
  struct tmesh_mux* muxes[2] = {&world_of(ctx)->link[1].side[1].mux, NULL};
  evict(muxes, keep);
}

static void mark(void* ctx, int link, int side) {
  world_of(ctx)->link[link].side[side].is_dirty = true;
}
static void client_dirty(void* ctx) {
  mark(ctx, 0, 0);
}
static void hub_in_dirty(void* ctx) {
  mark(ctx, 0, 1);
}
static void hub_out_dirty(void* ctx) {
  mark(ctx, 1, 0);
}
static void agent_dirty(void* ctx) {
  mark(ctx, 1, 1);
}

const struct tmesh_mux_events sim_client_events = {
    .on_control = on_control, .on_dirty = client_dirty, .on_memory_full = client_memory_full};
const struct tmesh_mux_events sim_hub_in_events = {.on_open = hub_on_open,
                                                   .on_control = on_control,
                                                   .on_dirty = hub_in_dirty,
                                                   .on_memory_full = hub_memory_full};
const struct tmesh_mux_events sim_hub_out_events = {
    .on_control = on_control, .on_dirty = hub_out_dirty, .on_memory_full = hub_memory_full};
const struct tmesh_mux_events sim_agent_events = {.on_open = agent_on_open,
                                                  .on_control = on_control,
                                                  .on_dirty = agent_dirty,
                                                  .on_memory_full = agent_memory_full};
