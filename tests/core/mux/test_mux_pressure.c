/* What a mux does when the pool is nearly or quite empty. */
#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES

/* Blocks of the pool that somebody else holds. */
struct held {
  struct tmesh_block* blocks[64];
  size_t count;
};

static void hold(struct peer* p, struct held* h, size_t count) {
  for (h->count = 0; h->count < count; h->count++) {
    h->blocks[h->count] = tmesh_pool_get(&p->pool);
    assert_non_null(h->blocks[h->count]);
  }
}

static void let_go(struct peer* p, struct held* h) {
  while (h->count > 0) tmesh_pool_put(&p->pool, h->blocks[--h->count]);
}

/* --- input the pool has no block for ------------------------------------------------- */

static void evict_stream_2(struct peer* p, const struct tmesh_stream* keep) {
  assert_int_equal(keep->id, 1);
  tmesh_mux_evict(peer_user(p, 2)->stream);
}

static void memory_is_asked_for_once_and_the_bytes_are_kept(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  p->pool.budget_count = 2;
  p->on_memory_full = evict_stream_2;
  peer_data(p, 2, TMESH_BLOCK_BYTES);
  peer_data(p, 2, TMESH_BLOCK_BYTES);
  peer_data(p, 1, 100);
  assert_int_equal(p->memory_full_count, 1);
  assert_int_equal(peer_user(p, 1)->stream->in.len_bytes, 100);
  peer_flush(p);
  assert_int_equal(peer_user(p, 2)->over_count, 1);
  assert_int_equal(peer_user(p, 2)->over.code, TMESH_E_NO_MEMORY);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 2), 1);
  assert_int_equal(p->mux.stats.memory_resets_count, 1);
  assert_int_equal(p->mux.stats.protocol_resets_count, 0);
  assert_int_equal(peer_user(p, 1)->over_count, 0);
  peer_free(p);
}

static void when_nothing_came_free_the_stream_itself_is_reset(void** state) {
  (void)state;
  for (int has_callback = 0; has_callback < 2; has_callback++) {
    struct tmesh_mux_config c = peer_config();
    struct tmesh_mux_events events = *c.events;
    if (has_callback == 0) events.on_memory_full = NULL;
    c.events = &events;
    struct peer* p = peer_new(&c);
    peer_opened(p, 1);
    peer_opened(p, 2);
    p->pool.budget_count = 1;
    peer_data(p, 2, 100);
    peer_data(p, 1, 100);
    assert_int_equal(p->memory_full_count, has_callback);
    assert_int_equal(peer_user(p, 2)->stream->in.len_bytes, 100);
    peer_expect_reset_of_1(p, TMESH_E_NO_MEMORY);
  }
}

static void fail_the_link(struct peer* p, const struct tmesh_stream* keep) {
  (void)keep;
  tmesh_mux_fail(&p->mux, tmesh_err_session(TMESH_E_NO_MEMORY));
}

static void a_link_that_ends_meanwhile_takes_no_more_bytes(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  p->pool.budget_count = 1;
  peer_data(p, 2, 100);
  p->on_memory_full = fail_the_link;
  struct tmesh_status st = peer_frame_status(p, TMESH_FRAME_DATA, 0, 1, 0, "x", 1);
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  peer_dispatch(p);
  assert_int_equal(peer_user(p, 1)->over_count, 1);
  peer_free(p);
}

/* --- when bytes last moved: what memory is taken back by ------------------------------ */

static void set_time(struct peer* p, uint64_t us) {
  tmesh_mux_set_time(&p->mux, us);
}

static void bytes_move_when_they_come_into_an_empty_queue_or_leave_one(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  set_time(p, 10);
  peer_data(p, 1, 100);
  assert_int_equal(s->moved_us, 10);
  set_time(p, 20);
  peer_data(p, 1, 100); /* behind bytes that nobody takes */
  assert_int_equal(s->moved_us, 10);
  set_time(p, 30);
  tmesh_chunkq_consume(&s->in, 1);
  tmesh_stream_consumed(s, 1);
  assert_int_equal(s->moved_us, 30);
  set_time(p, 40);
  assert_int_equal(tmesh_stream_write(s, "x", 1), 1);
  assert_int_equal(s->moved_us, 40);
  set_time(p, 50);
  peer_flush(p);
  assert_int_equal(s->moved_us, 50);
  peer_free(p);
}

static uint64_t now_60(void* ctx) {
  (void)ctx;
  return 60;
}

static void what_the_user_moves_is_noted_with_the_users_time(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  struct tmesh_mux_events events = *c.events;
  events.now_us = now_60;
  c.events = &events;
  struct peer* p = peer_new(&c);
  struct tmesh_stream* s = peer_opened(p, 1);
  set_time(p, 10);
  peer_data(p, 1, 100);
  tmesh_chunkq_consume(&s->in, 1);
  tmesh_stream_consumed(s, 1);
  assert_int_equal(s->moved_us, 60);
  s->moved_us = 0;
  assert_int_equal(tmesh_stream_write(s, "x", 1), 1);
  assert_int_equal(s->moved_us, 60);
  peer_free(p);
}

/* --- eviction --------------------------------------------------------------------------- */

static void an_evicted_stream_gives_its_blocks_back_at_once(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  peer_data(p, 1, 100);
  tmesh_stream_write(peer_user(p, 1)->stream, "x", 1);
  tmesh_mux_evict(peer_user(p, 1)->stream);
  assert_int_equal(p->pool.live_count, 0);
  peer_expect_reset_of_1(p, TMESH_E_NO_MEMORY);
}

/* --- opens --------------------------------------------------------------------------------- */

static void from_90_percent_on_an_acceptor_answers_queue_full_without_a_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct held h;
  p->pool.budget_count = 10;
  hold(p, &h, 9);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_open(p, 2, 0, WINDOW);
  assert_int_equal(p->users_count, 0); /* nobody was asked */
  assert_int_equal(p->mux.live_count, 0);
  assert_int_equal(p->mux.stats.queue_full_count, 2);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_OPEN_RESULT, 1), 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 2), 1);
  struct tmesh_open_result r;
  assert_true(
      tmesh_is_ok(tmesh_open_result_decode(&r, p->frames[0].payload, p->frames[0].header.length_bytes)));
  assert_int_equal(r.code, TMESH_OPEN_QUEUE_FULL);
  assert_true(r.retryable);
  assert_int_equal(p->mux.streams.count, 0);
  tmesh_pool_put(&p->pool, h.blocks[--h.count]);
  peer_opened(p, 3);
  let_go(p, &h);
  peer_free(p);
}

static void from_90_percent_on_an_opener_does_not_open(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct held h;
  struct tmesh_open_stream o = sample_open();
  struct tmesh_open_params params = {&o, true, WINDOW};
  struct tmesh_status why;
  p->pool.budget_count = 10;
  hold(p, &h, 9);
  assert_null(tmesh_mux_open(&p->mux, &params, &why));
  assert_int_equal(why.code, TMESH_E_LIMIT);
  assert_int_equal(why.scope, TMESH_SCOPE_STREAM);
  assert_int_equal(p->mux.stats.queue_full_count, 1);
  assert_false(tmesh_mux_has_output(&p->mux));
  tmesh_pool_put(&p->pool, h.blocks[--h.count]);
  assert_non_null(peer_start(p, true, WINDOW)->stream);
  let_go(p, &h);
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_asked_for_once_and_the_bytes_are_kept),
      cmocka_unit_test(when_nothing_came_free_the_stream_itself_is_reset),
      cmocka_unit_test(a_link_that_ends_meanwhile_takes_no_more_bytes),
      cmocka_unit_test(bytes_move_when_they_come_into_an_empty_queue_or_leave_one),
      cmocka_unit_test(what_the_user_moves_is_noted_with_the_users_time),
      cmocka_unit_test(an_evicted_stream_gives_its_blocks_back_at_once),
      cmocka_unit_test(from_90_percent_on_an_acceptor_answers_queue_full_without_a_stream),
      cmocka_unit_test(from_90_percent_on_an_opener_does_not_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
