/* An end of a udp stream: sends numbered datagrams and checks the ones it gets.
 *
 * What may be lost is a datagram as a whole. So what arrives must be, in this order, some of
 * what the other end's mux took: same lengths, same bytes. A length and its bytes follow from
 * the number of the datagram, and most datagrams are too short to carry it.
 */
#ifndef TMESH_TESTS_SIM_UDP_H
#define TMESH_TESTS_SIM_UDP_H

#include "core/mux/mux.h"
#include "sim_util.h"

struct sim_udp {
  unsigned stream, direction; /* of what it sends */
  uint64_t total_count, tried_count;
  uint64_t sent_count;     /* of those, taken by its mux */
  uint64_t received_count; /* of the other end's */
  uint64_t next_number;    /* none of the other end's before it can come any more */
  uint64_t send_gap_us, next_send_us;
  uint64_t take_gap_us, next_take_us;
  bool is_end_sent;
};

void sim_udp_init(struct sim_udp* u, unsigned stream, unsigned direction, uint64_t count);
/* s: its stream, NULL when there is none. */
bool sim_udp_wants_send(const struct sim_udp* u, const struct tmesh_stream* s);
bool sim_udp_wants_take(const struct sim_udp* u, const struct tmesh_stream* s);
void sim_udp_send(struct sim_udp* u, struct tmesh_stream* s, struct sim_rng* rng, uint64_t now_us);
/* from: the end it comes from. */
void sim_udp_take(struct sim_udp* u, struct tmesh_stream* s, const struct sim_udp* from, struct sim_rng* rng,
                  uint64_t now_us);

#endif
