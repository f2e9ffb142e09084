/* How much a stream takes per round-trip time: what window growth is decided on.
 *
 * A link has one clock that counts rounds of at least one RTT; a stream counts the bytes
 * its consumer took in the present round. When a round is over the count is scaled to one
 * RTT, so that a loop which looks at its clock seldom does not see bursts where there are
 * none. Arithmetic only; 8 bytes per stream, nothing to do for an idle one.
 */
#ifndef TMESH_MUX_GROWTH_H
#define TMESH_MUX_GROWTH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of a link. Zero is a clock that does not run. */
struct tmesh_growth_clock {
  uint64_t rtt_us;    /* 0 = not known: no rounds */
  uint64_t since_us;  /* when the present round began */
  uint32_t length_us; /* of the round before; at least one RTT */
  uint32_t round;     /* its number is round - 1 */
};

/* Of a stream. Zero is the beginning. */
struct tmesh_growth {
  uint32_t round; /* in which `bytes` were taken */
  uint32_t bytes; /* saturates */
};

/* Time has come to now_us: ends the round if it lasted one RTT. */
void tmesh_growth_tick(struct tmesh_growth_clock* c, uint64_t now_us);
/* Counts n bytes taken now. The first call of a round returns what the stream took in the
 * round before, in bytes per RTT; all others return 0. */
uint64_t tmesh_growth_count(struct tmesh_growth* g, const struct tmesh_growth_clock* c, uint32_t n);

#ifdef __cplusplus
}
#endif

#endif
