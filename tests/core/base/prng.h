/* Seeded random numbers for property tests (xorshift64*), and a check that names the
 * seed and step of a failure, so that it can be run again. */
#ifndef TMESH_TEST_PRNG_H
#define TMESH_TEST_PRNG_H

#include <stdint.h>
#include <stdio.h>

struct prng {
  uint64_t seed;
  uint64_t state;
  unsigned step; /* counted by the test */
};

static inline struct prng prng_init(uint64_t seed) {
  struct prng p = {seed, seed * UINT64_C(0x9E3779B97F4A7C15) + 1, 0};
  return p;
}
static inline uint64_t prng_next(struct prng* p) {
  p->state ^= p->state >> 12;
  p->state ^= p->state << 25;
  p->state ^= p->state >> 27;
  return p->state * UINT64_C(0x2545F4914F6CDD1D);
}
/* 0 <= result < n; n > 0. */
static inline uint32_t prng_below(struct prng* p, uint32_t n) {
  return (uint32_t)((prng_next(p) >> 33) % n);
}

#define PROPERTY(p, expr)                                                                 \
  do {                                                                                    \
    if (!(expr)) {                                                                        \
      printf("seed %llu step %u: %s\n", (unsigned long long)(p)->seed, (p)->step, #expr); \
      fail();                                                                             \
    }                                                                                     \
  } while (0)

#endif
