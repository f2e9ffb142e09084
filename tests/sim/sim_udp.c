#include "sim_udp.h"

#include <string.h>

#include "core/mux/datagram.h"

void sim_udp_init(struct sim_udp* u, unsigned stream, unsigned direction, uint64_t count) {
  *u = (struct sim_udp){.stream = stream, .direction = direction, .total_count = count};
}

static size_t length_of(const struct sim_udp* u, uint64_t number) {
  struct sim_rng r = sim_rng_init(number * 1000003u + u->stream * 101u + u->direction);
  switch (sim_below(&r, 8)) {
    case 0:
      return 0;
    case 1:
      return (size_t)sim_range(&r, 1, 8);
    case 2:
      return (size_t)sim_range(&r, 20000, 65507);
    case 3:
      return 65536; /* the largest that fits a frame */
    default:
      return (size_t)sim_range(&r, 1, 1500);
  }
}

static uint8_t byte_of(const struct sim_udp* u, uint64_t number, size_t at) {
  return sim_byte(u->stream, u->direction, number * 70001u + at);
}

static bool is_number(const struct sim_udp* u, uint64_t number, const uint8_t* data, size_t len) {
  if (length_of(u, number) != len) return false;
  for (size_t i = 0; i < len; i++) {
    if (data[i] != byte_of(u, number, i)) return false;
  }
  return true;
}

static bool may_send(const struct tmesh_stream* s) {
  return s != NULL && (s->state == TMESH_STREAM_OPEN || s->state == TMESH_STREAM_HALF_CLOSED_REMOTE);
}

bool sim_udp_wants_send(const struct sim_udp* u, const struct tmesh_stream* s) {
  return may_send(s) && !u->is_end_sent;
}

bool sim_udp_wants_take(const struct sim_udp* u, const struct tmesh_stream* s) {
  uint32_t len;
  (void)u;
  return s != NULL && s->state != TMESH_STREAM_OPENING && tmesh_datagram_is_ready(&s->in, &len);
}

void sim_udp_send(struct sim_udp* u, struct tmesh_stream* s, struct sim_rng* rng, uint64_t now_us) {
  static uint8_t data[TMESH_DATAGRAM_MAX_BYTES];
  u->next_send_us = now_us + sim_below(rng, u->send_gap_us + 1);
  if (u->tried_count == u->total_count) {
    u->is_end_sent = true;
    tmesh_stream_finish(s);
    return;
  }
  const size_t len = length_of(u, u->tried_count);
  for (size_t i = 0; i < len; i++) data[i] = byte_of(u, u->tried_count, i);
  u->tried_count++;
  if (tmesh_is_ok(tmesh_stream_send_datagram(s, data, len))) u->sent_count++;
}

void sim_udp_take(struct sim_udp* u, struct tmesh_stream* s, const struct sim_udp* from, struct sim_rng* rng,
                  uint64_t now_us) {
  static uint8_t data[TMESH_DATAGRAM_MAX_BYTES];
  size_t len;
  u->next_take_us = now_us + sim_below(rng, u->take_gap_us + 1);
  SIM_CHECK(tmesh_stream_peek_datagram(s, data, sizeof data, &len));
  while (u->next_number < from->tried_count && !is_number(from, u->next_number, data, len)) u->next_number++;
  SIM_CHECK(u->next_number < from->tried_count);
  u->next_number++;
  u->received_count++;
  SIM_CHECK(u->received_count <= from->sent_count);
  tmesh_stream_take_datagram(s);
}
