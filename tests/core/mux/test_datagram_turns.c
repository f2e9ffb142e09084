/* Whose turn it is when streams carry datagrams: one is an item of any size, never cut or joined. */
#include "scripted_peer.h"

#define LARGEST 65507u

static uint8_t bytes[1u << 17];

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
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_datagram_beyond_the_quantum_takes_its_rounds),
      cmocka_unit_test(empty_datagrams_are_not_free),
      cmocka_unit_test(a_large_first_datagram_holds_no_fresh_stream_up),
      cmocka_unit_test(datagrams_are_not_cut_on_a_narrow_path),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
