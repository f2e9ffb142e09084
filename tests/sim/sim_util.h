/* Seeded randomness, and failures that name the seed and the step. */
#ifndef TMESH_TESTS_SIM_UTIL_H
#define TMESH_TESTS_SIM_UTIL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct sim_rng {
  uint64_t state;
};

/* xorshift64*: small, and the same on every machine. */
static inline uint64_t sim_next(struct sim_rng* r) {
  r->state ^= r->state >> 12;
  r->state ^= r->state << 25;
  r->state ^= r->state >> 27;
  return r->state * UINT64_C(2685821657736338717);
}
static inline struct sim_rng sim_rng_init(uint64_t seed) {
  struct sim_rng r = {seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
  for (int i = 0; i < 4; i++) sim_next(&r);
  return r;
}
/* Uniform in [0, n); 0 for n = 0. */
static inline uint64_t sim_below(struct sim_rng* r, uint64_t n) {
  return n == 0 ? 0 : (sim_next(r) >> 11) % n;
}
static inline uint64_t sim_range(struct sim_rng* r, uint64_t low, uint64_t high) {
  return low + sim_below(r, high - low + 1);
}
static inline bool sim_chance(struct sim_rng* r, unsigned percent) {
  return sim_below(r, 100) < percent;
}

/* Where the running simulation is; printed by sim_check and on SIGABRT. */
extern uint64_t sim_seed, sim_step;
void sim_report_on_abort(void);

#define SIM_CHECK(expr) \
  ((expr) ? (void)0     \
          : (fprintf(stderr, "%s:%d: property failed: %s\n", __FILE__, __LINE__, #expr), abort(), (void)0))

/* The byte at a position of a stream: lost, doubled or swapped bytes never match. */
static inline uint8_t sim_byte(unsigned stream, unsigned direction, uint64_t at) {
  return (uint8_t)(at * 131u ^ (at >> 8) * 29u ^ (at >> 16) * 7u ^ stream * 53u ^ direction * 101u);
}

#endif
