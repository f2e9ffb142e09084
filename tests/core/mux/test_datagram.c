/* Streams of protocol udp: datagrams stay whole, the newest is dropped, windows mean nothing. */
#include <string.h>

#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES
#define LARGEST 65507u

static uint8_t bytes[1u << 17];
static uint8_t got[1u << 17];

/* DATA in a single piece; peer_frame() gives two. */
static void data_in_one_piece(struct peer* p, uint32_t id, const void* data, size_t n) {
  struct tmesh_frame_header h = {.type = TMESH_FRAME_DATA, .stream_id = id, .length_bytes = (uint32_t)n};
  assert_true(tmesh_is_ok(tmesh_mux_frame_header(&p->mux, &h)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&p->mux, data, n)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_end(&p->mux)));
  tmesh_mux_check(&p->mux);
}

static void expect_next(struct tmesh_stream* s, size_t n) {
  size_t len;
  assert_true(tmesh_stream_peek_datagram(s, got, sizeof got, &len));
  assert_int_equal(len, n);
  assert_memory_equal(got, bytes, n);
  tmesh_stream_take_datagram(s);
}

static void expect_none(const struct tmesh_stream* s) {
  size_t len;
  assert_false(tmesh_stream_peek_datagram(s, got, sizeof got, &len));
  assert_int_equal(s->in.len_bytes, 0);
}

static const size_t sizes[] = {0, 1, 3, 0, 4, 5, 1400, 16384, 32764, 32768, 40000, LARGEST, 0, 65536};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void arrived_datagrams_are_kept_apart_and_in_order(void** state) {
  (void)state;
  for (int pieces = 1; pieces <= 2; pieces++) {
    struct peer* p = peer_new_acceptor();
    struct tmesh_stream* s = peer_opened_udp(p, 1);
    size_t queued = 0;
    for (size_t i = 0; i < SIZES; i++) {
      if (queued + sizes[i] > 200000) {
        for (size_t k = 0; k < i; k++) expect_next(s, sizes[k]);
        expect_none(s);
        for (size_t k = i; k < SIZES; k++) data_in_one_piece(p, 1, bytes, sizes[k]);
        for (size_t k = i; k < SIZES; k++) expect_next(s, sizes[k]);
        break;
      }
      queued += sizes[i];
      if (pieces == 1) {
        data_in_one_piece(p, 1, bytes, sizes[i]);
      } else {
        peer_frame(p, TMESH_FRAME_DATA, 1, bytes, sizes[i]);
      }
    }
    expect_none(s);
    peer_dispatch(p);
    assert_true((peer_user(p, 1)->events & TMESH_STREAM_EV_READABLE) != 0);
    assert_int_equal(p->mux.stats.datagrams_dropped_count, 0);
    peer_free(p);
  }
}

static void nothing_of_a_datagram_is_seen_before_all_of_it_is_there(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  struct tmesh_frame_header h = {.type = TMESH_FRAME_DATA, .stream_id = 1, .length_bytes = 3000};
  assert_true(tmesh_is_ok(tmesh_mux_frame_header(&p->mux, &h)));
  for (int i = 0; i < 3; i++) {
    expect_none(s);
    assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&p->mux, bytes + i * 1000, 1000)));
    tmesh_mux_check(&p->mux);
  }
  peer_dispatch(p);
  assert_int_equal(peer_user(p, 1)->readable_count, 0);
  assert_true(tmesh_is_ok(tmesh_mux_frame_end(&p->mux)));
  peer_dispatch(p);
  assert_int_equal(peer_user(p, 1)->readable_count, 1);
  expect_next(s, 3000);
  peer_free(p);
}

static void each_sent_datagram_is_one_frame(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  peer_forget(p);
  for (size_t i = 0; i < SIZES; i++) {
    assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, sizes[i])));
    tmesh_mux_check(&p->mux);
  }
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), SIZES);
  for (size_t i = 0; i < SIZES; i++) {
    assert_int_equal(p->frames[i].header.length_bytes, sizes[i]);
    assert_memory_equal(p->frames[i].payload, bytes, sizes[i]);
  }
  assert_true(tmesh_stream_all_written(s));
  peer_free(p);
}

static void the_newest_datagram_is_dropped_when_there_is_no_room_E2(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  const uint32_t room = p->mux.config.inbound_max_bytes;
  const size_t count = room / 1004;
  for (size_t i = 0; i < count + 5; i++) {
    memset(got, (int)i, 1000);
    peer_frame(p, TMESH_FRAME_DATA, 1, got, 1000);
  }
  assert_int_equal(p->mux.stats.datagrams_dropped_count, 5);
  assert_int_equal(p->mux.stats.legacy_backpressure_count, 0);
  assert_int_equal(s->state, TMESH_STREAM_OPEN);
  for (size_t i = 0; i < count; i++) {
    size_t len;
    assert_true(tmesh_stream_peek_datagram(s, got, sizeof got, &len));
    assert_int_equal(len, 1000);
    assert_int_equal(got[999], (uint8_t)i);
    tmesh_stream_take_datagram(s);
  }
  expect_none(s);
  peer_frame(p, TMESH_FRAME_DATA, 1, bytes, 1000);
  expect_next(s, 1000);
  peer_free(p);
}

static void a_frame_beyond_the_largest_datagram_is_dropped(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  peer_frame(p, TMESH_FRAME_DATA, 1, bytes, TMESH_DATAGRAM_MAX_BYTES + 1);
  assert_int_equal(p->mux.stats.datagrams_dropped_count, 1);
  expect_none(s);
  assert_int_equal(s->state, TMESH_STREAM_OPEN);
  peer_free(p);
}

static void a_datagram_without_memory_is_dropped_whole(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  const size_t budget = p->pool.budget_count;
  /* The first piece finds a block, a later one does not. */
  p->pool.budget_count = p->pool.live_count + 1;
  peer_frame(p, TMESH_FRAME_DATA, 1, bytes, LARGEST);
  assert_int_equal(p->mux.stats.datagrams_dropped_count, 1);
  p->pool.budget_count = p->pool.live_count;
  data_in_one_piece(p, 1, bytes, 0);
  data_in_one_piece(p, 1, bytes, 10);
  assert_int_equal(p->mux.stats.datagrams_dropped_count, 3);
  assert_int_equal(p->memory_full_count, 0); /* no stream is reset for a datagram */
  expect_none(s);
  p->pool.budget_count = budget;
  peer_frame(p, TMESH_FRAME_DATA, 1, bytes, LARGEST);
  expect_next(s, LARGEST);
  assert_int_equal(s->state, TMESH_STREAM_OPEN);
  peer_free(p);
}

/* Sockets rest for lack of memory; what never rests must not be what takes it (R13). */
static void while_memory_is_short_a_queue_holds_one_datagram_or_a_block(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  struct tmesh_block* held[100];
  const size_t budget = p->pool.budget_count;
  for (size_t i = 0; i < 75; i++) held[i] = tmesh_pool_get(&p->pool);
  p->pool.budget_count = p->pool.live_count * 4 / 3;
  size_t sent = 0;
  for (int i = 0; i < 500; i++) {
    if (tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, 1000))) sent++;
    data_in_one_piece(p, 1, bytes, 1000);
  }
  assert_int_equal(sent, TMESH_BLOCK_BYTES / 1004);
  assert_in_range(s->in.len_bytes, 1, TMESH_BLOCK_BYTES);
  assert_int_equal(p->mux.stats.datagrams_dropped_count, 2 * (500 - sent));
  /* A large one needs an empty queue, and finds it once the other ones left. */
  assert_false(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, LARGEST)));
  peer_flush(p);
  assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, LARGEST)));
  while (s->in.len_bytes > 0) tmesh_stream_take_datagram(s);
  peer_frame(p, TMESH_FRAME_DATA, 1, bytes, LARGEST);
  expect_next(s, LARGEST);
  p->pool.budget_count = budget;
  for (size_t i = 0; i < 75; i++) tmesh_pool_put(&p->pool, held[i]);
  assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, LARGEST)));
  peer_free(p);
}

/* Or what a splice moved of it would wait for ever: nothing else leaves before it. */
static void the_rest_of_a_datagram_has_room_however_short_memory_is(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  uint8_t prefix[TMESH_DATAGRAM_PREFIX_BYTES];
  tmesh_datagram_prefix(prefix, LARGEST);
  assert_true(tmesh_is_ok(tmesh_chunkq_append_two(&s->out, prefix, sizeof prefix, bytes, 40000)));
  tmesh_stream_out_added(s);
  const size_t budget = p->pool.budget_count;
  p->pool.budget_count = p->pool.live_count;
  assert_true(tmesh_stream_out_room(s) >= LARGEST - 40000);
  p->pool.budget_count = budget;
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&s->out, bytes + 40000, LARGEST - 40000)));
  tmesh_stream_out_added(s);
  peer_flush(p);
  assert_true(tmesh_stream_all_written(s));
  peer_free(p);
}

static void an_arrived_datagram_needs_no_memory_to_be_queued(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  data_in_one_piece(p, 1, bytes, 100);
  struct tmesh_frame_header h = {.type = TMESH_FRAME_DATA, .stream_id = 1, .length_bytes = LARGEST};
  assert_true(tmesh_is_ok(tmesh_mux_frame_header(&p->mux, &h)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&p->mux, bytes, 100)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&p->mux, bytes + 100, LARGEST - 100)));
  p->pool.budget_count = p->pool.live_count;
  assert_true(tmesh_is_ok(tmesh_mux_frame_end(&p->mux)));
  tmesh_mux_check(&p->mux);
  expect_next(s, 100);
  expect_next(s, LARGEST);
  peer_free(p);
}

static void taking_and_sending_count_as_movement(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  tmesh_mux_set_time(&p->mux, 1000);
  data_in_one_piece(p, 1, bytes, 10);
  data_in_one_piece(p, 1, bytes, 10);
  assert_int_equal(s->moved_us, 1000);
  tmesh_mux_set_time(&p->mux, 2000);
  tmesh_stream_take_datagram(s);
  assert_int_equal(s->moved_us, 2000); /* or memory would be taken from it for being stalled */
  tmesh_mux_set_time(&p->mux, 3000);
  assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, 10)));
  assert_int_equal(s->moved_us, 3000);
  peer_free(p);
}

static void windows_mean_nothing_in_either_direction_Z1(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor(); /* windows are negotiated, and the open announced one */
  struct tmesh_stream* s = peer_opened_udp(p, 1);
  peer_forget(p);
  size_t sent = 0;
  for (int i = 0; i < 40; i++) {
    assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, 32768)));
    peer_flush(p);
    sent += 32768;
  }
  assert_true(sent > 4 * WINDOW); /* not one byte was credited */
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), 40);
  for (int i = 0; i < 40; i++) {
    data_in_one_piece(p, 1, bytes, 32768);
    expect_next(s, 32768);
  }
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_WINDOW_UPDATE, 0), 0);
  peer_update(p, 1, UINT32_MAX);
  peer_update(p, 1, UINT32_MAX);
  assert_int_equal(s->state, TMESH_STREAM_OPEN);
  assert_int_equal(p->mux.stats.window_violations_count, 0);
  peer_free(p);
}

static void a_strict_open_is_answered_and_takes_no_early_data(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.has_early_data = true;
  struct peer* p = peer_new(&c);
  p->on_open = OPEN_LATER;
  peer_open_udp(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_frame(p, TMESH_FRAME_DATA, 1, bytes, 10);
  peer_dispatch(p);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_STATE);
  p->on_open = OPEN_ACCEPT;
  peer_open_udp(p, 2, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_OPEN_RESULT, 2), 1);
  peer_free(p);
}

static void datagrams_of_a_legacy_open_wait_for_the_answer(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_LATER;
  peer_open_udp(p, 1, 0, 0);
  struct tmesh_stream* s = peer_stream(p, 1);
  peer_frame(p, TMESH_FRAME_DATA, 1, bytes, 10);
  peer_frame(p, TMESH_FRAME_DATA, 1, bytes, 0);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  struct tmesh_open_result ok = tmesh_open_accept();
  tmesh_stream_answer(s, &ok);
  expect_next(s, 10);
  expect_next(s, 0);
  assert_true(s->in_eof);
  peer_free(p);
}

static void a_stream_that_ends_within_a_frame_leaves_nothing(void** state) {
  (void)state;
  for (int how = 0; how < 3; how++) {
    struct peer* p = peer_new_acceptor();
    struct tmesh_stream* s = peer_opened_udp(p, 1);
    const size_t before = p->pool.live_count;
    struct tmesh_frame_header h = {.type = TMESH_FRAME_DATA, .stream_id = 1, .length_bytes = 3000};
    assert_true(tmesh_is_ok(tmesh_mux_frame_header(&p->mux, &h)));
    assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&p->mux, bytes, 1000)));
    assert_int_equal(p->pool.live_count, before + 1);
    if (how == 0) tmesh_stream_reset(s);
    if (how == 1) tmesh_mux_evict(s);
    if (how == 2) tmesh_mux_fail(&p->mux, tmesh_err_session(TMESH_E_IO));
    assert_int_equal(p->pool.live_count, before);
    tmesh_mux_check(&p->mux);
    if (how < 2) {
      assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&p->mux, bytes, 2000)));
      assert_true(tmesh_is_ok(tmesh_mux_frame_end(&p->mux)));
    }
    assert_int_equal(p->mux.stats.datagrams_dropped_count, 0);
    peer_free(p);
  }
}

int main(void) {
  peer_pattern(bytes, sizeof bytes);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arrived_datagrams_are_kept_apart_and_in_order),
      cmocka_unit_test(nothing_of_a_datagram_is_seen_before_all_of_it_is_there),
      cmocka_unit_test(each_sent_datagram_is_one_frame),
      cmocka_unit_test(the_newest_datagram_is_dropped_when_there_is_no_room_E2),
      cmocka_unit_test(a_frame_beyond_the_largest_datagram_is_dropped),
      cmocka_unit_test(a_datagram_without_memory_is_dropped_whole),
      cmocka_unit_test(while_memory_is_short_a_queue_holds_one_datagram_or_a_block),
      cmocka_unit_test(the_rest_of_a_datagram_has_room_however_short_memory_is),
      cmocka_unit_test(an_arrived_datagram_needs_no_memory_to_be_queued),
      cmocka_unit_test(taking_and_sending_count_as_movement),
      cmocka_unit_test(windows_mean_nothing_in_either_direction_Z1),
      cmocka_unit_test(a_strict_open_is_answered_and_takes_no_early_data),
      cmocka_unit_test(datagrams_of_a_legacy_open_wait_for_the_answer),
      cmocka_unit_test(a_stream_that_ends_within_a_frame_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
