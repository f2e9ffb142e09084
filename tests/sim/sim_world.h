/* Client, hub and agent, as the three programs put the core together, with sockets of
 * the simulation at both ends and a clock that jumps to the next event.
 *
 *   local end =splice= client mux ==link 0== hub mux =splice= hub mux ==link 1== agent mux =splice= target
 * end
 */
#ifndef TMESH_TESTS_SIM_WORLD_H
#define TMESH_TESTS_SIM_WORLD_H

#include "sim_end.h"
#include "sim_link.h"
#include "sim_udp.h"

#define SIM_WORLD_STREAMS_MAX 2100

enum sim_hop { SIM_CLIENT, SIM_HUB, SIM_AGENT, SIM_HOPS };

struct sim_stream {
  struct sim_world* world;
  unsigned number;
  struct sim_end local, target;
  bool is_udp; /* then these two instead */
  struct sim_udp local_udp, target_udp;
  struct tmesh_stream *client, *hub_in, *hub_out, *agent; /* NULL when released */
  struct tmesh_splice splice[SIM_HOPS];
  bool has_splice[SIM_HOPS];
  unsigned done_count[SIM_HOPS];
  bool is_cancelled[SIM_HOPS]; /* ended by us: no on_done follows */
  struct tmesh_status why[SIM_HOPS];

  bool is_strict, has_windows;
  bool is_refused_by_agent;              /* plan: the dial fails */
  uint64_t hub_opens_at_us, dials_at_us; /* 0 = not waiting */
  bool is_opened;                        /* the client side was accepted (or optimistic) */
  bool is_refused;                       /* the client saw a refusal */
  bool is_disturbed;                     /* something was done to it: it need not complete */
};

struct sim_world_config {
  bool is_ours;
  uint32_t client_window_bytes, hub_window_bytes;
  uint64_t latency_us, jitter_us;
  size_t link_write_max_bytes, target_bytes;
  uint64_t open_delay_us, dial_delay_us;
  uint64_t answer_delay_us;  /* between the agent's splice and its answer */
  bool has_early_data[2];    /* by link: both its ends named it */
  uint32_t window_max_bytes; /* > 0: both ends of every link named window growth */
  uint32_t coalesce_us;      /* of the acceptors */
  size_t pool_bytes;
  uint32_t streams_max;
  unsigned check_every; /* steps between full checks of all objects */
};
struct sim_world_config sim_world_defaults(void);

struct sim_world {
  struct sim_world_config config;
  struct sim_rng rng;
  uint64_t now_us;
  struct tmesh_pool pool[SIM_HOPS];
  struct sim_link link[2];
  struct sim_stream* streams; /* SIM_WORLD_STREAMS_MAX */
  unsigned streams_count;
  unsigned first_unfinished; /* streams before it need no more steps */
};

void sim_world_init(struct sim_world* w, const struct sim_world_config* config, uint64_t seed);
/* A new connection at the client. Both ends exist; set them up before the next step. */
struct sim_stream* sim_world_open(struct sim_world* w, bool is_strict, bool has_windows, uint64_t up_bytes,
                                  uint64_t down_bytes);
/* A new association at the client, of so many datagrams each way. */
struct sim_stream* sim_world_open_udp(struct sim_world* w, uint64_t up_count, uint64_t down_count);
/* One step: one actor that can act, chosen at random, or the clock jumps. False: nothing is left to happen.
 */
bool sim_world_step(struct sim_world* w);
/* A link's path: one-way delay, and what both its ends believe to be their round-trip time. */
void sim_world_path(struct sim_world* w, int link, uint64_t latency_us, uint64_t rate_bytes_per_s);
/* Steps until nothing is left to happen. */
void sim_world_run(struct sim_world* w);
void sim_world_check(struct sim_world* w);
/* What must hold for a stream nobody disturbed, once nothing is left to happen. */
void sim_stream_check_complete(const struct sim_stream* s);
bool sim_stream_is_finished(const struct sim_stream* s);
/* For the report of a failure. */
void sim_stream_print(const struct sim_stream* s);

/* Disturbances: the user of that hop gives up; one end of a hop breaks. */
void sim_stream_give_up(struct sim_stream* s, enum sim_hop hop);
void sim_stream_break_end(struct sim_stream* s, bool is_target);

/* Checks that nothing is left, and frees everything. */
void sim_world_close(struct sim_world* w);

/* on_event of each program; sim_nodes.c. */
extern const struct tmesh_mux_events sim_client_events, sim_hub_in_events, sim_hub_out_events,
    sim_agent_events;
void sim_client_opened(struct sim_stream* s);
void sim_client_event(void* user, struct tmesh_stream* stream, unsigned events);
/* An end of a udp stream at the client and at the agent. */
void sim_udp_event(void* user, struct tmesh_stream* stream, unsigned events);
/* Its stream goes when both directions ended and everything was taken. */
void sim_udp_settle(struct sim_stream* s, struct tmesh_stream** stream);
void sim_hub_open_now(struct sim_stream* s);
void sim_agent_dial_now(struct sim_stream* s);

#endif
