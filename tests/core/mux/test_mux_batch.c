/* Batches: what a pull takes, whose turn it is, and what is reported back. */
#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES

static uint8_t bulk[1u << 20];

static void written_is_reported_per_batch_and_not_before(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  struct seen* u = peer_user(p, 1);
  tmesh_stream_write(s, bulk, 1000);
  struct tmesh_sink sink = peer_sink(p);
  assert_int_equal(tmesh_mux_pull(&p->mux, &sink, 65536), 1016);
  peer_dispatch(p);
  assert_int_equal(u->written_count, 0);
  assert_int_equal(s->batched_bytes, 1000);
  assert_false(tmesh_stream_all_written(s));
  tmesh_mux_written(&p->mux);
  peer_dispatch(p);
  assert_int_equal(u->written_bytes, 1000);
  assert_int_equal(s->written_bytes, 0);
  assert_true(tmesh_stream_all_written(s));
  tmesh_stream_finish(s);
  assert_false(tmesh_stream_all_written(s));
  peer_flush(p);
  assert_int_equal(u->written_count, 2); /* once more, with no bytes, for the HALF_CLOSE */
  assert_int_equal(u->written_bytes, 1000);
  peer_free(p);
}

static void a_stream_released_while_its_bytes_are_in_the_batch_is_skipped(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  struct tmesh_stream* other = peer_opened(p, 2);
  tmesh_stream_write(s, bulk, 1000);
  tmesh_stream_write(other, bulk, 500);
  struct tmesh_sink sink = peer_sink(p);
  tmesh_mux_pull(&p->mux, &sink, 65536);
  tmesh_stream_release(s);
  peer_user(p, 1)->stream = NULL;
  tmesh_mux_check(&p->mux);
  tmesh_mux_written(&p->mux);
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->written_count, 0);
  assert_int_equal(peer_user(p, 2)->written_bytes, 500);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1), 1); /* a started batch is finished, then RESET */
  assert_int_equal(p->mux.streams.count, 1);
  peer_free(p);
}

static void closed_stream_still_gets_its_last_written_or_over(void** state) {
  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    struct peer* p = peer_new_acceptor();
    struct tmesh_stream* s = peer_opened(p, 1);
    peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
    tmesh_stream_write(s, bulk, 10);
    tmesh_stream_finish(s);
    struct tmesh_sink sink = peer_sink(p);
    tmesh_mux_pull(&p->mux, &sink, 65536);
    assert_true(tmesh_stream_is_done(s));
    if (cut == 1) {
      tmesh_mux_fail(&p->mux, tmesh_err_session(TMESH_E_IO));
      tmesh_mux_written(&p->mux);
    } else {
      tmesh_mux_written(&p->mux);
      tmesh_mux_check(&p->mux);
      tmesh_mux_fail(&p->mux, tmesh_err_session(TMESH_E_IO));
    }
    peer_dispatch(p);
    assert_int_equal(peer_user(p, 1)->written_bytes, cut == 1 ? 0 : 10);
    assert_int_equal(peer_user(p, 1)->over_count, cut == 1 ? 1 : 0);
    peer_free(p);
  }
}

static void pull_stops_near_its_target_and_finishes_messages(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_ACCEPT;
  for (uint32_t id = 1; id <= 4; id++) peer_bulk(p, id);
  for (uint32_t id = 1; id <= 4; id++) tmesh_stream_write(peer_user(p, id)->stream, bulk, 262144);
  struct tmesh_sink sink = peer_sink(p);
  size_t n = tmesh_mux_pull(&p->mux, &sink, 40000);
  assert_int_equal(n, 2 * (32768 + 16));
  assert_true(tmesh_mux_has_output(&p->mux));
  unsigned before = p->dirty_count;
  tmesh_mux_written(&p->mux);
  assert_true(p->dirty_count > before); /* more waits */
  peer_flush(p);
  assert_int_equal(p->mux.stats.data_bytes_out, 4 * 262144);
  peer_free(p);
}

static void a_batch_of_more_items_than_fit_ends_early_and_goes_on(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_ACCEPT;
  for (uint32_t id = 1; id <= TMESH_BATCH_MAX_ITEMS + 100; id++) {
    peer_open(p, id, 0, WINDOW);
    tmesh_stream_write(peer_user(p, id)->stream, bulk, 1);
  }
  struct tmesh_sink sink = peer_sink(p);
  assert_int_equal(tmesh_mux_pull(&p->mux, &sink, 1 << 20), TMESH_BATCH_MAX_ITEMS * 17);
  tmesh_mux_check(&p->mux);
  tmesh_mux_written(&p->mux);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 0), TMESH_BATCH_MAX_ITEMS + 100);
  peer_free(p);
}

static void data_is_shared_one_quantum_per_stream_per_round_E4(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  for (uint32_t id = 1; id <= 3; id++) peer_bulk(p, id);
  for (uint32_t id = 1; id <= 3; id++) tmesh_stream_write(peer_user(p, id)->stream, bulk, 98304);
  peer_flush(p);
  assert_int_equal(p->frames_count, 9);
  for (uint32_t i = 0; i < 9; i++) {
    assert_int_equal(p->frames[i].header.stream_id, i % 3 + 1);
    assert_int_equal(p->frames[i].header.length_bytes, TMESH_QUANTUM_BYTES);
  }
  peer_free(p);
}

static void a_small_stream_waits_for_at_most_one_quantum_of_each_bulk_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  for (uint32_t id = 1; id <= 3; id++) peer_bulk(p, id);
  tmesh_stream_write(peer_user(p, 1)->stream, bulk, 262144);
  tmesh_stream_write(peer_user(p, 2)->stream, bulk, 262144);
  struct tmesh_sink sink = peer_sink(p);
  tmesh_mux_pull(&p->mux, &sink, 1);
  tmesh_mux_written(&p->mux);
  tmesh_stream_write(peer_user(p, 3)->stream, "x", 1);
  peer_flush(p);
  static const uint32_t want[] = {1, 2, 3, 1, 2};
  for (size_t i = 0; i < 5; i++) assert_int_equal(p->frames[i].header.stream_id, want[i]);
  peer_free(p);
}

static void an_idle_stream_leaves_the_ring_and_loses_its_deficit(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_bulk(p, 1);
  for (int i = 0; i < 10; i++) {
    tmesh_stream_write(s, "x", 1);
    assert_int_equal(s->deficit_bytes, TMESH_QUANTUM_BYTES); /* one quantum, however often it comes back */
    peer_flush(p);
    assert_int_equal(s->deficit_bytes, 0);
    assert_true(tmesh_fair_writer_is_idle(&p->mux.writer));
  }
  peer_free(p);
}

static void the_first_16_KiB_of_a_stream_go_ahead_of_bulk(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_bulk(p, 1);
  peer_bulk(p, 2);
  peer_opened(p, 3);
  tmesh_stream_write(peer_user(p, 1)->stream, bulk, 262144);
  tmesh_stream_write(peer_user(p, 2)->stream, bulk, 262144);
  struct tmesh_sink sink = peer_sink(p);
  tmesh_mux_pull(&p->mux, &sink, 1);
  tmesh_mux_written(&p->mux);
  tmesh_stream_write(peer_user(p, 3)->stream, bulk, 60000);
  tmesh_stream_finish(peer_user(p, 3)->stream);
  peer_flush(p);
  /* Then it is one of them. */
  static const uint32_t want[][2] = {{1, 32768}, {3, 16384}, {2, 32768}, {3, 32768}, {1, 32768}, {2, 32768}};
  for (size_t i = 0; i < 6; i++) {
    assert_int_equal(p->frames[i].header.stream_id, want[i][0]);
    assert_int_equal(p->frames[i].header.length_bytes, want[i][1]);
  }
  assert_int_equal(peer_sent(p, TMESH_FRAME_HALF_CLOSE, 3), 1);
  peer_free(p);
}

static void an_early_half_close_stays_behind_its_bytes(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_bulk(p, 1);
  peer_opened(p, 2);
  tmesh_stream_write(peer_user(p, 1)->stream, bulk, 100000);
  tmesh_stream_write(peer_user(p, 2)->stream, bulk, 100);
  tmesh_stream_finish(peer_user(p, 2)->stream);
  peer_flush(p);
  assert_int_equal(p->frames[0].header.stream_id, 2);
  assert_int_equal(p->frames[0].header.type, TMESH_FRAME_DATA);
  assert_int_equal(p->frames[1].header.stream_id, 2);
  assert_int_equal(p->frames[1].header.type, TMESH_FRAME_HALF_CLOSE);
  peer_free(p);
}

int main(void) {
  peer_pattern(bulk, sizeof bulk);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(written_is_reported_per_batch_and_not_before),
      cmocka_unit_test(a_stream_released_while_its_bytes_are_in_the_batch_is_skipped),
      cmocka_unit_test(closed_stream_still_gets_its_last_written_or_over),
      cmocka_unit_test(pull_stops_near_its_target_and_finishes_messages),
      cmocka_unit_test(a_batch_of_more_items_than_fit_ends_early_and_goes_on),
      cmocka_unit_test(data_is_shared_one_quantum_per_stream_per_round_E4),
      cmocka_unit_test(a_small_stream_waits_for_at_most_one_quantum_of_each_bulk_stream),
      cmocka_unit_test(the_first_16_KiB_of_a_stream_go_ahead_of_bulk),
      cmocka_unit_test(an_early_half_close_stays_behind_its_bytes),
      cmocka_unit_test(an_idle_stream_leaves_the_ring_and_loses_its_deficit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
