#include "core/mux/growth.h"

void tmesh_growth_tick(struct tmesh_growth_clock* c, uint64_t now_us) {
  if (c->rtt_us == 0 || now_us - c->since_us < c->rtt_us) return;
  uint64_t length_us = now_us - c->since_us;
  c->length_us = length_us > UINT32_MAX ? UINT32_MAX : (uint32_t)length_us;
  c->since_us = now_us;
  c->round++;
}

uint64_t tmesh_growth_count(struct tmesh_growth* g, const struct tmesh_growth_clock* c, uint32_t n) {
  uint64_t per_rtt = 0;
  if (g->round != c->round) {
    /* Of an older round nothing is known but that it is long ago. (The RTT is at most the
     * length of a round, unless it was set anew since: 32 x 32 bits do not overflow.) */
    uint64_t rtt_us = c->rtt_us < c->length_us ? c->rtt_us : c->length_us;
    if (g->round + 1 == c->round) per_rtt = g->bytes * rtt_us / c->length_us;
    g->round = c->round;
    g->bytes = 0;
  }
  g->bytes = n > UINT32_MAX - g->bytes ? UINT32_MAX : g->bytes + n;
  return per_rtt;
}
