/* Windows that fit the path (stream_window_growth.v1). */
#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES
#define MAX (16u << 20)
#define RTT_US UINT64_C(50000)

static struct tmesh_mux_config growth_config(void) {
  struct tmesh_mux_config c = peer_config();
  c.has_window_growth = true;
  c.peer_is_ours = true;
  c.window_max_bytes = MAX;
  return c;
}

/* An acceptor with stream 1 open on a path of 50 ms. */
static struct peer* start(const struct tmesh_mux_config* config) {
  struct peer* p = peer_new(config);
  tmesh_mux_set_time(&p->mux, 1000000);
  tmesh_mux_set_rtt(&p->mux, RTT_US);
  peer_opened(p, 1);
  return p;
}

static void pass(struct peer* p, uint64_t us) {
  tmesh_mux_set_time(&p->mux, p->mux.now_us + us);
}

/* The peer sends n bytes, and the user takes them at once. */
static void transfer(struct peer* p, size_t n) {
  struct tmesh_stream* s = peer_user(p, 1)->stream;
  while (n > 0) {
    size_t part = n < TMESH_DATA_MAX_BYTES ? n : TMESH_DATA_MAX_BYTES;
    peer_data(p, 1, part);
    assert_int_equal(peer_user(p, 1)->over_count, 0);
    tmesh_chunkq_consume(&s->in, part);
    tmesh_stream_consumed(s, part);
    tmesh_mux_check(&p->mux);
    peer_flush(p);
    n -= part;
  }
}

static uint64_t announced(const struct peer* p) {
  uint64_t sum = 0;
  for (size_t i = 0; i < p->frames_count; i++) {
    if (p->frames[i].header.type == TMESH_FRAME_WINDOW_UPDATE) sum += p->frames[i].header.window_bytes;
  }
  return sum;
}

/* Rounds in each of which the peer uses all the window it has. */
static void saturate(struct peer* p, unsigned rounds) {
  for (unsigned i = 0; i < rounds; i++) {
    transfer(p, peer_user(p, 1)->stream->recv.size_bytes);
    pass(p, RTT_US);
    peer_forget(p);
  }
}

static void a_stream_that_uses_its_window_within_a_round_trip_gets_twice_of_it(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  struct peer* p = start(&c);
  struct tmesh_stream* s = peer_user(p, 1)->stream;
  pass(p, RTT_US);
  transfer(p, WINDOW);
  assert_int_equal(s->recv.size_bytes, WINDOW); /* the round is not over */
  peer_forget(p);
  pass(p, RTT_US);
  transfer(p, 1);
  assert_int_equal(s->recv.size_bytes, 2 * WINDOW);
  assert_int_equal(announced(p), WINDOW + 1); /* the difference goes out at once */
  assert_int_equal(s->recv.credit_bytes, 2 * WINDOW);
  assert_int_equal(s->recv.threshold_bytes, 131072);
  assert_int_equal(p->mux.stats.windows_grown_count, 1);
  peer_free(p);
}

static void a_window_grows_to_its_maximum_and_no_further(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  c.window_max_bytes = 3 * WINDOW;
  struct peer* p = start(&c);
  saturate(p, 8);
  assert_int_equal(peer_user(p, 1)->stream->recv.size_bytes, 3 * WINDOW);
  assert_int_equal(p->mux.stats.windows_grown_count, 2);
  peer_free(p);
}

static void half_a_window_per_round_trip_is_not_limited_by_it(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  struct peer* p = start(&c);
  for (int i = 0; i < 20; i++) {
    transfer(p, WINDOW / 2);
    pass(p, RTT_US);
  }
  assert_int_equal(peer_user(p, 1)->stream->recv.size_bytes, WINDOW);
  peer_free(p);
}

/* A loop that looks at its clock every millisecond on a path of 50 us: 200 MB/s are 10 KB in flight. */
static void a_short_path_does_not_grow_windows_however_coarse_the_clock(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  struct peer* p = start(&c);
  tmesh_mux_set_rtt(&p->mux, 50);
  for (int i = 0; i < 50; i++) {
    transfer(p, 200000);
    pass(p, 1000);
    peer_forget(p);
  }
  assert_int_equal(peer_user(p, 1)->stream->recv.size_bytes, WINDOW);
  peer_free(p);
}

static void bytes_of_an_older_round_do_not_count(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  struct peer* p = start(&c);
  for (int i = 0; i < 10; i++) {
    transfer(p, WINDOW);
    pass(p, RTT_US); /* a burst, and then nothing for the next round */
    pass(p, RTT_US);
    peer_forget(p);
  }
  assert_int_equal(peer_user(p, 1)->stream->recv.size_bytes, WINDOW);
  peer_free(p);
}

static void nothing_grows_without_the_capability_a_maximum_or_a_known_path(void** state) {
  (void)state;
  for (int what = 0; what < 3; what++) {
    struct tmesh_mux_config c = growth_config();
    if (what == 0) c.has_window_growth = false;
    if (what == 1) c.window_max_bytes = 0;
    struct peer* p = start(&c);
    if (what == 2) tmesh_mux_set_rtt(&p->mux, 0);
    for (int i = 0; i < 10; i++) {
      peer_forget(p);
      transfer(p, WINDOW);
      assert_int_equal(announced(p), WINDOW); /* credit is what was consumed, as ever */
      assert_int_equal(peer_sent(p, TMESH_FRAME_WINDOW_UPDATE, 1), 2);
      pass(p, RTT_US);
    }
    assert_int_equal(peer_user(p, 1)->stream->recv.size_bytes, WINDOW);
    peer_free(p);
  }
}

static void under_pressure_windows_stop_growing(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  struct peer* p = start(&c);
  struct tmesh_block* held[30];
  p->pool.budget_count = 40;
  for (int i = 0; i < 30; i++) held[i] = tmesh_pool_get(&p->pool);
  assert_int_equal(tmesh_pool_pressure(&p->pool), TMESH_PRESSURE_GROWTH);
  saturate(p, 8);
  assert_int_equal(peer_user(p, 1)->stream->recv.size_bytes, WINDOW);
  for (int i = 0; i < 30; i++) tmesh_pool_put(&p->pool, held[i]);
  saturate(p, 8);
  assert_true(peer_user(p, 1)->stream->recv.size_bytes > WINDOW);
  peer_free(p);
}

static void under_pressure_a_grown_window_shrinks_by_what_is_consumed_to_its_first_size(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  struct peer* p = start(&c);
  struct tmesh_stream* s = peer_user(p, 1)->stream;
  saturate(p, 13);
  assert_int_equal(s->recv.size_bytes, MAX);
  transfer(p, s->recv.credit_bytes % TMESH_DATA_MAX_BYTES);
  uint32_t credit = s->recv.credit_bytes;
  uint32_t pending = s->recv.consumed_bytes;
  struct tmesh_block* held[32];
  p->pool.budget_count = 40;
  for (int i = 0; i < 32; i++) held[i] = tmesh_pool_get(&p->pool);
  peer_forget(p);
  transfer(p, MAX - WINDOW - 1);
  /* Credit that was given is not taken back; nothing new was given. */
  assert_int_equal(announced(p), 0);
  assert_int_equal(s->recv.credit_bytes, credit - (MAX - WINDOW - 1));
  assert_int_equal(s->recv.consumed_bytes, pending);
  assert_int_equal(s->recv.size_bytes, WINDOW + 1);
  assert_int_equal(p->mux.stats.windows_shrunk_count, 0);
  transfer(p, 1);
  assert_int_equal(s->recv.size_bytes, WINDOW);
  assert_int_equal(p->mux.stats.windows_shrunk_count, 1);
  /* From here on credit flows as ever, and the window never gets smaller. */
  peer_forget(p);
  transfer(p, 10 * WINDOW);
  assert_int_equal(s->recv.size_bytes, WINDOW);
  assert_true(announced(p) >= 10 * WINDOW - 131072);
  for (int i = 0; i < 32; i++) tmesh_pool_put(&p->pool, held[i]);
  peer_free(p);
}

static void a_small_window_of_an_opener_is_not_made_larger_by_shrinking(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  c.is_opener = true;
  struct peer* p = peer_new(&c);
  tmesh_mux_set_rtt(&p->mux, RTT_US);
  struct seen* u = peer_start(p, false, 40000);
  peer_flush(p);
  p->pool.budget_count = 4;
  struct tmesh_block* held[3];
  for (int i = 0; i < 3; i++) held[i] = tmesh_pool_get(&p->pool);
  transfer(p, 100000);
  assert_int_equal(u->stream->recv.size_bytes, 40000);
  for (int i = 0; i < 3; i++) tmesh_pool_put(&p->pool, held[i]);
  peer_free(p);
}

static void credit_from_a_peer_with_growth_is_not_capped_also_of_older_streams_W3(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config(); /* before the hello: not ours, no growth */
  struct peer* p = peer_new(&c);
  struct tmesh_stream* s = peer_opened(p, 1);
  p->mux.config.has_window_growth = true;
  peer_update(p, 1, MAX);
  assert_int_equal(s->send.credit_bytes, MAX + WINDOW);
  peer_opened(p, 2);
  peer_update(p, 2, MAX);
  peer_update(p, 2, MAX);
  assert_int_equal(peer_user(p, 2)->stream->send.credit_bytes, 2 * MAX + WINDOW);
  peer_update(p, 1, UINT32_MAX - WINDOW - MAX + 1); /* an overflow is an error, not a cap */
  peer_expect_reset_of_1(p, TMESH_E_WINDOW_OVERFLOW);
}

static void after_the_peers_half_close_nothing_is_measured(void** state) {
  (void)state;
  struct tmesh_mux_config c = growth_config();
  struct peer* p = start(&c);
  struct tmesh_stream* s = peer_user(p, 1)->stream;
  for (int i = 0; i < 8; i++) peer_data(p, 1, TMESH_DATA_MAX_BYTES);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  pass(p, RTT_US);
  for (int i = 0; i < 8; i++) {
    tmesh_chunkq_consume(&s->in, TMESH_DATA_MAX_BYTES);
    tmesh_stream_consumed(s, TMESH_DATA_MAX_BYTES);
    if (i == 6) pass(p, RTT_US);
  }
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_WINDOW_UPDATE, 1), 0);
  assert_int_equal(p->mux.stats.windows_grown_count, 0);
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stream_that_uses_its_window_within_a_round_trip_gets_twice_of_it),
      cmocka_unit_test(a_window_grows_to_its_maximum_and_no_further),
      cmocka_unit_test(half_a_window_per_round_trip_is_not_limited_by_it),
      cmocka_unit_test(a_short_path_does_not_grow_windows_however_coarse_the_clock),
      cmocka_unit_test(bytes_of_an_older_round_do_not_count),
      cmocka_unit_test(nothing_grows_without_the_capability_a_maximum_or_a_known_path),
      cmocka_unit_test(under_pressure_windows_stop_growing),
      cmocka_unit_test(under_pressure_a_grown_window_shrinks_by_what_is_consumed_to_its_first_size),
      cmocka_unit_test(a_small_window_of_an_opener_is_not_made_larger_by_shrinking),
      cmocka_unit_test(credit_from_a_peer_with_growth_is_not_capped_also_of_older_streams_W3),
      cmocka_unit_test(after_the_peers_half_close_nothing_is_measured),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
