/* Streams of protocol udp, what they send: why not, when, and whose turn it is. One datagram is an item of
 * any size, never cut or joined. */
#include <string.h>

#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES
#define LARGEST 65507u

static uint8_t bytes[1u << 17];

static void sending_says_why_not_and_counts_what_is_dropped(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_LATER;
  peer_open_udp(p, 1, 0, 0);
  struct tmesh_stream* s = peer_stream(p, 1);
  assert_int_equal(tmesh_stream_send_datagram(s, bytes, 1).code, TMESH_E_STATE);
  struct tmesh_open_result ok = tmesh_open_accept();
  tmesh_stream_answer(s, &ok);
  assert_int_equal(tmesh_stream_send_datagram(s, bytes, TMESH_DATAGRAM_MAX_BYTES + 1).code,
                   TMESH_E_TOO_LARGE);
  size_t sent = 0;
  struct tmesh_status st;
  while (tmesh_is_ok(st = tmesh_stream_send_datagram(s, bytes, LARGEST))) sent++;
  assert_int_equal(st.code, TMESH_E_LIMIT);
  const size_t room = tmesh_stream_out_room(s);
  assert_int_equal(tmesh_stream_send_datagram(s, bytes, room - TMESH_DATAGRAM_PREFIX_BYTES + 1).code,
                   TMESH_E_LIMIT);
  assert_int_equal(sent, s->out_max_bytes / (LARGEST + 4));
  assert_int_equal(p->mux.stats.datagrams_dropped_count, 3);
  peer_flush(p);
  p->pool.budget_count = p->pool.live_count;
  assert_int_equal(tmesh_stream_send_datagram(s, bytes, 1).code, TMESH_E_NO_MEMORY);
  assert_int_equal(p->mux.stats.datagrams_dropped_count, 4);
  tmesh_mux_check(&p->mux);
  tmesh_stream_finish(s);
  assert_int_equal(tmesh_stream_send_datagram(s, bytes, 1).code, TMESH_E_STATE);
  assert_int_equal(p->mux.stats.datagrams_dropped_count, 4);
  peer_free(p);
}

static void an_opener_announces_no_window_Z1(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct tmesh_open_stream o = sample_open();
  o.protocol = TMESH_OPEN_UDP;
  struct tmesh_open_params params = {&o, false, WINDOW};
  struct tmesh_status why;
  struct tmesh_stream* s = tmesh_mux_open(&p->mux, &params, &why);
  assert_non_null(s);
  assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, 0)));
  peer_flush(p);
  assert_int_equal(p->frames[0].header.type, TMESH_FRAME_OPEN_STREAM);
  assert_int_equal(p->frames[0].header.window_bytes, 0);
  assert_int_equal(p->frames[1].header.type, TMESH_FRAME_DATA);
  assert_int_equal(p->frames[1].header.length_bytes, 0);
  tmesh_stream_release(s);
  peer_free(p);
}

static void a_datagram_is_sent_when_its_last_byte_is_there(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  peer_forget(p);
  uint8_t framed[4 + 5000];
  tmesh_datagram_prefix(framed, 5000);
  memcpy(framed + 4, bytes, 5000);
  /* As a splice hands it on: cut anywhere, also inside the prefix. */
  static const size_t cuts[] = {1, 3, 4, 2000, 5003};
  size_t at = 0;
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    assert_true(tmesh_is_ok(tmesh_chunkq_append(&s->out, framed + at, cuts[i] - at)));
    at = cuts[i];
    tmesh_stream_out_added(s);
    tmesh_mux_check(&p->mux);
    assert_false(tmesh_mux_has_output(&p->mux));
  }
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&s->out, framed + at, sizeof framed - at)));
  tmesh_stream_out_added(s);
  assert_true(tmesh_mux_has_output(&p->mux));
  tmesh_stream_finish(s);
  peer_flush(p);
  assert_int_equal(p->frames_count, 2);
  assert_int_equal(p->frames[0].header.length_bytes, 5000);
  assert_memory_equal(p->frames[0].payload, bytes, 5000);
  assert_int_equal(p->frames[1].header.type, TMESH_FRAME_HALF_CLOSE);
  assert_int_equal(peer_user(p, 1)->written_bytes, sizeof framed); /* with the prefix: as it was moved */
  peer_free(p);
}

/* Its first 16 KiB are gone. */
static struct tmesh_stream* opened_bulk(struct peer* p, uint32_t id) {
  struct tmesh_stream* s = peer_opened_udp(p, id);
  s->first_bytes = TMESH_FRESH_MAX_BYTES;
  return s;
}

static void a_datagram_beyond_the_quantum_takes_its_rounds(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* udp = opened_bulk(p, 1);
  struct tmesh_stream* tcp = peer_bulk(p, 2);
  peer_forget(p);
  for (int i = 0; i < 4; i++) assert_true(tmesh_is_ok(tmesh_stream_send_datagram(udp, bytes, LARGEST)));
  for (int i = 0; i < 8; i++) tmesh_stream_write(tcp, bytes, 32768);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), 4);
  /* In any prefix of what left, neither is ahead of the other by more than one largest item and a quantum. */
  int64_t ahead = 0;
  for (size_t i = 0; i < p->frames_count && ahead > -200000; i++) {
    int64_t n = p->frames[i].header.length_bytes;
    ahead += p->frames[i].header.stream_id == 1 ? n : -n;
    if (i + 3 < p->frames_count) assert_true(ahead < 100000 && ahead > -100000);
  }
  peer_free(p);
}

static void empty_datagrams_are_not_free(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* udp = opened_bulk(p, 1);
  struct tmesh_stream* tcp = peer_bulk(p, 2);
  peer_forget(p);
  for (int i = 0; i < 10000; i++) assert_true(tmesh_is_ok(tmesh_stream_send_datagram(udp, NULL, 0)));
  tmesh_stream_write(tcp, bytes, 1000);
  peer_flush(p);
  size_t at = 0;
  while (p->frames[at].header.stream_id == 1) at++;
  assert_in_range(at, 1, TMESH_QUANTUM_BYTES / TMESH_FRAME_HEADER_BYTES);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), 10000);
  peer_free(p);
}

static void a_large_first_datagram_holds_no_fresh_stream_up(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* udp = peer_opened_udp(p, 1);
  struct tmesh_stream* tcp = peer_opened(p, 2);
  peer_forget(p);
  assert_true(tmesh_is_ok(tmesh_stream_send_datagram(udp, bytes, 100)));
  assert_true(tmesh_is_ok(tmesh_stream_send_datagram(udp, bytes, LARGEST)));
  tmesh_stream_write(tcp, bytes, 100);
  peer_flush(p);
  assert_int_equal(p->frames_count, 3);
  assert_int_equal(p->frames[0].header.stream_id, 1); /* the small one is fresh */
  assert_int_equal(p->frames[1].header.stream_id, 2);
  assert_int_equal(p->frames[2].header.length_bytes, LARGEST);
  peer_free(p);
}

static void datagrams_are_not_cut_on_a_narrow_path(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = opened_bulk(p, 1);
  peer_forget(p);
  tmesh_mux_set_item_max(&p->mux, 4096);
  assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, LARGEST)));
  peer_flush(p);
  assert_int_equal(peer_last(p)->header.length_bytes, LARGEST);
  peer_free(p);
}

int main(void) {
  peer_pattern(bytes, sizeof bytes);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_datagram_beyond_the_quantum_takes_its_rounds),
      cmocka_unit_test(empty_datagrams_are_not_free),
      cmocka_unit_test(a_large_first_datagram_holds_no_fresh_stream_up),
      cmocka_unit_test(datagrams_are_not_cut_on_a_narrow_path),
      cmocka_unit_test(sending_says_why_not_and_counts_what_is_dropped),
      cmocka_unit_test(an_opener_announces_no_window_Z1),
      cmocka_unit_test(a_datagram_is_sent_when_its_last_byte_is_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
