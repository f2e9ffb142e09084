/* The world of the mux target: two connected muxes, their users, the wire between them
 * and the pool they share. Made and checked in mux_world.c, driven by fuzz_mux.c. */
#ifndef TMESH_FUZZ_MUX_WORLD_H
#define TMESH_FUZZ_MUX_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/check.h"
#include "core/mux/mux.h"
#include "core/mux/splice.h"

#define USERS_MAX 12u
#define SPLICES_MAX (USERS_MAX / 2)
#define PIPE_MAX_BYTES (1u << 20)
#define PULL_MAX_BYTES 65536u
#define HELD_MAX_COUNT 64u

struct input {
  const uint8_t* at;
  size_t left;
};

struct user {
  struct side* side;
  struct tmesh_stream* stream; /* NULL = free place */
  int splice;                  /* index into side->splices, or -1 */
};

struct side {
  struct world* world;
  struct side* other;
  struct tmesh_mux mux;
  struct user users[USERS_MAX];
  struct tmesh_splice splices[SPLICES_MAX];
  struct user* ends[SPLICES_MAX][2]; /* NULL = no splice here */
  /* bytes on their way to the other side */
  uint8_t* pipe;
  size_t pipe_len, pipe_at;
  struct tmesh_frame_decoder decoder; /* of what arrives here */
  bool is_in_message;
};

struct world {
  struct tmesh_pool pool;
  struct side sides[2];                     /* 0 opens */
  struct tmesh_block* held[HELD_MAX_COUNT]; /* by other users of the pool */
  unsigned held_count;
  uint64_t now_us;
  bool is_hostile;
  bool releases_in_callback, answers_at_once, ignores_opens;
};
/* What is missing at the end reads as 0. */
static inline uint8_t take(struct input* in) {
  if (in->left == 0) return 0;
  in->left--;
  return *in->at++;
}
static inline uint32_t take32(struct input* in) {
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) v = v << 8 | take(in);
  return v;
}

/* how and limits are the first two bytes of an input: what was negotiated, and how little
 * there is of everything. */
void world_start(struct world* w, uint8_t how, uint8_t limits);
/* All invariants, and that neither side saw the other break the protocol. */
void world_check(const struct world* w);
/* Releases everything; every block must be back in the pool. */
void world_stop(struct world* w);

/* A place for a stream, or its end. */
void user_adopt(struct side* s, struct tmesh_stream* stream);
void user_release(struct user* u);
/* Told by a splice that both its streams are done. */
void user_on_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken);

/* What `from` wants to send into its pipe; from there to the other side. */
void wire_pull(struct side* from, size_t target_bytes);
void wire_deliver(struct side* from, size_t n);
/* A frame that the other side's mux did not make. */
void wire_inject(struct side* to, struct input* in);

#endif
