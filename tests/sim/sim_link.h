/* Two muxes joined by a pipe that delays, splits and may be cut, and an observer on
 * the wire that keeps its own books about every stream.
 *
 * As a link on libuv does: a mux is only looked at when it called on_dirty; one
 * batch is in flight at a time and may take many steps to be written.
 */
#ifndef TMESH_TESTS_SIM_LINK_H
#define TMESH_TESTS_SIM_LINK_H

#include "core/mux/mux.h"
#include "sim_util.h"

#define SIM_STREAMS_MAX 4096 /* ids the observer can follow */

/* What the wire saw of one stream; direction 0 = opener to acceptor. */
struct sim_seen {
  bool is_open, is_strict, has_windows, is_udp;
  bool is_result_sent, is_result_delivered;
  uint64_t data_bytes[2];
  uint64_t early_bytes;        /* DATA of the opener before OPEN_RESULT was delivered */
  uint64_t first_bytes[2];     /* window this direction began with */
  uint64_t credit_bytes[2];    /* granted to this direction: initial + delivered updates */
  uint64_t announced_bytes[2]; /* updates pulled for this direction */
  bool is_half_closed[2], is_reset[2];
  uint64_t waiting_since[2]; /* item count of that side when it became active; 0 = not active */
  uint64_t last_served[2];   /* by the ring */
  uint64_t fresh_before[2];  /* fresh bytes of that side by then */
};

struct sim_chunk {
  struct sim_chunk* next;
  uint64_t at_us;
  size_t len, used;
  uint8_t bytes[];
};

struct sim_side {
  struct sim_link* link;
  int direction; /* of what it sends */
  struct tmesh_mux mux;
  bool is_dirty;
  /* the batch being written */
  uint8_t* batch;
  size_t batch_len, batch_sent, message_at, message_len;
  /* what is on its way to the other side */
  struct sim_chunk *head, **tail;
  uint64_t last_at_us;
  uint64_t free_at_us;                /* when the wire takes the next bytes */
  struct tmesh_frame_decoder decoder; /* of what arrives here */
  bool is_in_message;
  uint64_t items_count; /* DATA pulled */
  uint64_t fresh_bytes; /* of them, first bytes of a stream */
};

struct sim_link {
  struct sim_side side[2]; /* 0 opener, 1 acceptor */
  struct sim_seen* seen;   /* by id */
  uint32_t last_open_id;
  uint64_t latency_us, jitter_us;
  uint64_t rate_bytes_per_s; /* 0 = no limit */
  size_t write_max_bytes;    /* per step */
  size_t target_bytes;       /* per pull */
  bool is_cut;
};

/* The configs' events_ctx is kept; their on_dirty must call sim_link_dirty. */
void sim_link_init(struct sim_link* l, const struct tmesh_mux_config* opener,
                   const struct tmesh_mux_config* acceptor);
void sim_link_close(struct sim_link* l);
/* Both ends notice the loss of the connection at once. */
void sim_link_cut(struct sim_link* l);

bool sim_side_can_write(const struct sim_side* s, uint64_t now_us);
bool sim_side_can_process(const struct sim_side* s, uint64_t now_us);
bool sim_side_can_deliver(const struct sim_side* s, uint64_t now_us);
void sim_side_write(struct sim_side* s, struct sim_rng* rng, uint64_t now_us);
void sim_side_process(struct sim_side* s, uint64_t now_us);
/* Hands bytes of s that are due to the other side. */
void sim_side_deliver(struct sim_side* s, struct sim_rng* rng, uint64_t now_us);

#endif
