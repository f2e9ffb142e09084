/* Windows of a mux: who may send how much, and what a violation costs. */
#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES

static void windows_are_used_exactly_when_announced(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_opened(p, 1);
  assert_true(peer_user(p, 1)->stream->recv.is_limited);
  assert_int_equal(peer_user(p, 1)->stream->recv.credit_bytes, TMESH_WINDOW_INITIAL_BYTES);
  assert_int_equal(peer_user(p, 1)->stream->send.credit_bytes, WINDOW);
  peer_open(p, 2, TMESH_FLAG_STRICT_OPEN, 0);
  assert_false(peer_user(p, 2)->stream->recv.is_limited);
  assert_false(peer_user(p, 2)->stream->send.is_limited);
  peer_free(p);
  struct tmesh_mux_config c = peer_config();
  c.has_flow_control = false;
  p = peer_new(&c);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  assert_false(peer_user(p, 1)->stream->recv.is_limited);
  peer_free(p);
}

static void acceptor_window_is_262144_whatever_is_configured(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.initial_window_bytes = 1u << 20;
  struct peer* p = peer_new(&c);
  assert_int_equal(peer_opened(p, 1)->recv.size_bytes, TMESH_WINDOW_INITIAL_BYTES);
  peer_free(p);
}

static void window_exceeded_resets_that_stream_and_is_counted(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  for (int i = 0; i < 8; i++) peer_data(p, 1, 32768);
  assert_int_equal(peer_user(p, 1)->stream->in.len_bytes, WINDOW);
  peer_data(p, 1, 1);
  assert_int_equal(p->mux.stats.window_violations_count, 1);
  assert_int_equal(p->pool.live_count, 0); /* queues are dropped at once */
  peer_expect_reset_of_1(p, TMESH_E_WINDOW_EXCEEDED);
}

static void zero_window_update_resets_that_stream(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  peer_update(p, 1, 0);
  peer_expect_reset_of_1(p, TMESH_E_WINDOW_ZERO);
}

static void overflowing_credit_from_ours_resets_that_stream(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.peer_is_ours = true;
  struct peer* p = peer_new(&c);
  peer_opened(p, 1);
  peer_opened(p, 2);
  peer_update(p, 1, UINT32_MAX - WINDOW);
  peer_update(p, 1, 1);
  peer_expect_reset_of_1(p, TMESH_E_WINDOW_OVERFLOW);
}

static void credit_from_others_saturates_at_512_KiB(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  peer_update(p, 1, UINT32_MAX);
  peer_update(p, 1, UINT32_MAX);
  assert_int_equal(peer_user(p, 1)->stream->send.credit_bytes, TMESH_WINDOW_LEGACY_CAP_BYTES);
  peer_free(p);
}

static void unwindowed_stream_beyond_its_inbound_bound_is_reset_E2(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_ACCEPT;
  peer_open(p, 1, 0, 0);
  peer_open(p, 2, 0, 0);
  for (int i = 0; i < 8; i++) peer_data(p, 1, 32768);
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->over_count, 0);
  peer_data(p, 1, 1);
  assert_int_equal(p->mux.stats.legacy_backpressure_count, 1);
  assert_int_equal(p->mux.stats.window_violations_count, 0);
  peer_expect_reset_of_1(p, TMESH_E_BACKPRESSURE);
}

static void many_window_violations_end_the_link_E5(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_status st = tmesh_ok();
  uint32_t id = 0;
  while (tmesh_is_ok(st) && id < 1000) {
    id++;
    peer_opened(p, id);
    st = peer_frame_status(p, TMESH_FRAME_WINDOW_UPDATE, 0, id, 0, NULL, 0);
  }
  assert_int_equal(id, TMESH_WINDOW_VIOLATIONS_MAX);
  assert_int_equal(st.code, TMESH_E_WINDOW_EXCEEDED);
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  peer_dispatch(p);
  assert_int_equal(peer_user(p, id)->over_count, 1);
  peer_free(p);
}

/* One violation, by a stream of its own. */
static struct tmesh_status violate(struct peer* p, uint32_t id) {
  peer_opened(p, id);
  return peer_frame_status(p, TMESH_FRAME_WINDOW_UPDATE, 0, id, 0, NULL, 0);
}

static struct peer* new_with_violations(uint32_t max, uint64_t period_us) {
  struct tmesh_mux_config c = peer_config();
  c.violations_max = max;
  c.violations_period_us = period_us;
  return peer_new(&c);
}

static void violations_within_the_configured_period_end_the_link(void** state) {
  (void)state;
  struct peer* p = new_with_violations(3, 1000);
  tmesh_mux_set_time(&p->mux, 5000000);
  assert_true(tmesh_is_ok(violate(p, 1)));
  tmesh_mux_set_time(&p->mux, 5000500);
  assert_true(tmesh_is_ok(violate(p, 2)));
  tmesh_mux_set_time(&p->mux, 5001000); /* the last moment of the period */
  struct tmesh_status st = violate(p, 3);
  assert_int_equal(st.code, TMESH_E_WINDOW_EXCEEDED); /* how the owner knows what it was */
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  assert_int_equal(p->mux.failed.code, TMESH_E_WINDOW_EXCEEDED);
  peer_free(p);
}

static void violations_spread_over_more_than_the_period_do_not(void** state) {
  (void)state;
  struct peer* p = new_with_violations(3, 1000);
  uint64_t now_us = 0;
  for (uint32_t id = 1; id <= 300; id++) {
    assert_true(tmesh_is_ok(violate(p, id)));
    now_us += 501; /* two in every period, and a third just after it */
    tmesh_mux_set_time(&p->mux, now_us);
  }
  assert_int_equal(p->mux.stats.window_violations_count, 300);
  peer_free(p);
}

static struct tmesh_status init_status(uint32_t outbound_max, uint32_t initial, uint32_t threshold) {
  struct tmesh_pool pool;
  tmesh_pool_init(&pool, 1u << 20, 0);
  struct tmesh_mux_config c = peer_config();
  c.pool = &pool;
  c.outbound_max_bytes = outbound_max;
  c.initial_window_bytes = initial;
  c.window_threshold_bytes = threshold;
  struct tmesh_mux m;
  struct tmesh_status st = tmesh_mux_init(&m, &c);
  if (tmesh_is_ok(st)) tmesh_mux_close(&m);
  return st;
}

static void an_outbound_queue_below_the_window_a_peer_grants_is_refused_W1(void** state) {
  (void)state;
  assert_true(tmesh_is_ok(init_status(WINDOW, WINDOW, 131072)));
  struct tmesh_status st = init_status(WINDOW - 1, WINDOW, 131072);
  assert_int_equal(st.code, TMESH_E_INVALID);
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
}

static void a_threshold_that_leaves_less_than_one_frame_is_refused_W2(void** state) {
  (void)state;
  assert_true(tmesh_is_ok(init_status(524288, WINDOW, WINDOW - TMESH_DATA_MAX_BYTES)));
  assert_int_equal(init_status(524288, WINDOW, WINDOW - TMESH_DATA_MAX_BYTES + 1).code, TMESH_E_INVALID);
  assert_true(tmesh_is_ok(init_status(524288, 2 * WINDOW, WINDOW)));
  assert_int_equal(init_status(524288, WINDOW, UINT32_MAX).code, TMESH_E_INVALID);
}

static void the_window_a_peer_announced_is_credit_to_the_byte_W3(void** state) {
  (void)state;
  static const uint32_t windows[] = {1, 1000, 163839, 524289, 16777216, UINT32_MAX};
  struct peer* p = peer_new_acceptor(); /* not ours: only what it grants later is capped */
  p->on_open = OPEN_ACCEPT;
  for (uint32_t i = 0; i < 6; i++) {
    peer_open(p, i + 1, 0, windows[i]);
    assert_int_equal(peer_stream(p, i + 1)->send.credit_bytes, windows[i]);
  }
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(window_exceeded_resets_that_stream_and_is_counted),
      cmocka_unit_test(zero_window_update_resets_that_stream),
      cmocka_unit_test(overflowing_credit_from_ours_resets_that_stream),
      cmocka_unit_test(credit_from_others_saturates_at_512_KiB),
      cmocka_unit_test(unwindowed_stream_beyond_its_inbound_bound_is_reset_E2),
      cmocka_unit_test(many_window_violations_end_the_link_E5),
      cmocka_unit_test(violations_within_the_configured_period_end_the_link),
      cmocka_unit_test(violations_spread_over_more_than_the_period_do_not),
      cmocka_unit_test(an_outbound_queue_below_the_window_a_peer_grants_is_refused_W1),
      cmocka_unit_test(a_threshold_that_leaves_less_than_one_frame_is_refused_W2),
      cmocka_unit_test(the_window_a_peer_announced_is_credit_to_the_byte_W3),
      cmocka_unit_test(windows_are_used_exactly_when_announced),
      cmocka_unit_test(acceptor_window_is_262144_whatever_is_configured),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
