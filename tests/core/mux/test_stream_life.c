/* Events, callbacks and the end of a stream. */
#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES

static uint8_t bulk[1u << 20];

/* Releases every stream of the peer from inside the first event. */
static void release_all(void* user, struct tmesh_stream* s, unsigned events) {
  struct peer* p = user;
  (void)s;
  (void)events;
  for (size_t i = 0; i < p->users_count; i++) {
    if (p->users[i].stream != NULL) tmesh_stream_release(p->users[i].stream);
    p->users[i].stream = NULL;
  }
  p->goaway_count++;
}

static void a_callback_may_release_any_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  for (uint32_t id = 1; id <= 3; id++) peer_opened(p, id);
  for (uint32_t id = 1; id <= 3; id++) {
    tmesh_stream_attach(peer_user(p, id)->stream, p, release_all);
    peer_data(p, id, 10);
  }
  peer_flush(p); /* the event */
  peer_flush(p); /* the RESETs it caused */
  assert_int_equal(p->goaway_count, 1);
  assert_int_equal(p->mux.streams.count, 0);
  peer_free(p);
}

static void write_again(void* user, struct tmesh_stream* s, unsigned events) {
  (void)events;
  struct peer* p = user;
  p->goaway_count++;
  tmesh_stream_attach(s, p, write_again);
  peer_data(p, s->id, 1); /* a new event for the same stream while it is dispatched */
}

/* Releases its stream and opens another, which takes over the same memory. */
static void replace_stream(void* user, struct tmesh_stream* s, unsigned events) {
  struct peer* p = user;
  if ((events & TMESH_STREAM_EV_WRITTEN) == 0) return;
  tmesh_stream_release(s);
  struct seen* u = peer_start(p, false, WINDOW);
  assert_int_equal(tmesh_stream_write(u->stream, bulk, 7), 7);
}

static void a_callback_may_replace_its_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, false, WINDOW);
  tmesh_stream_attach(u->stream, p, replace_stream);
  u->stream = NULL;
  tmesh_stream_write(peer_stream(p, 1), bulk, 1000);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  tmesh_stream_finish(peer_stream(p, 1));
  peer_flush(p);
  peer_flush(p);
  assert_int_equal(peer_user(p, 2)->written_bytes, 7);
  assert_int_equal(peer_user(p, 2)->stream->written_bytes, 0);
  assert_int_equal(p->mux.streams.count, 1);
  peer_free(p);
}

static void events_before_attach_are_kept(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct tmesh_open_stream o = sample_open();
  struct tmesh_open_params params = {&o, true, WINDOW};
  struct tmesh_status why;
  struct tmesh_stream* s = tmesh_mux_open(&p->mux, &params, &why);
  assert_non_null(s);
  peer_flush(p);
  peer_result(p, 1, tmesh_open_accept());
  peer_data(p, 1, 10);
  peer_dispatch(p);
  struct seen* u = &p->users[p->users_count++];
  u->stream = s;
  u->id = 1;
  peer_forget(p);
  peer_attach(u);
  assert_int_equal(u->events, 0); /* not inside the call */
  assert_true(p->dirty_count > 0);
  peer_dispatch(p);
  assert_int_equal(u->events, TMESH_STREAM_EV_RESULT | TMESH_STREAM_EV_READABLE);
  peer_free(p);
}

static void events_while_detached_wait_for_the_next_owner(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct tmesh_open_stream o = sample_open();
  struct tmesh_open_params params = {&o, true, WINDOW};
  struct tmesh_status why;
  struct tmesh_stream* s = tmesh_mux_open(&p->mux, &params, &why);
  assert_non_null(s);
  struct seen* u = &p->users[p->users_count++];
  u->stream = s;
  u->id = 1;
  peer_attach(u);
  peer_flush(p);
  peer_result(p, 1, tmesh_open_accept());
  peer_dispatch(p);
  assert_int_equal(u->events, TMESH_STREAM_EV_RESULT);
  u->events = 0;
  peer_data(p, 1, 10);
  tmesh_stream_detach(s); /* one waits already */
  tmesh_mux_check(&p->mux);
  peer_dispatch(p);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  peer_dispatch(p);
  assert_int_equal(u->events, 0);
  peer_attach(u);
  peer_dispatch(p);
  assert_int_equal(u->events, TMESH_STREAM_EV_OVER);
  peer_free(p);
}

static void dispatch_is_bounded_each_waiting_stream_once(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  for (uint32_t id = 1; id <= 3; id++) peer_opened(p, id);
  for (uint32_t id = 1; id <= 3; id++) {
    tmesh_stream_attach(peer_user(p, id)->stream, p, write_again);
    peer_data(p, id, 1);
  }
  assert_true(tmesh_mux_dispatch(&p->mux));
  assert_int_equal(p->goaway_count, 3);
  peer_free(p);
}

static void a_stalled_half_closed_stream_is_reset_after_the_limit(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  const uint64_t second = 1000000, limit = TMESH_STALLED_LIMIT_US;
  for (uint32_t id = 1; id <= 3; id++) {
    struct tmesh_stream* s = peer_opened(p, id);
    assert_int_equal(tmesh_stream_write(s, bulk, WINDOW + 1000), WINDOW + 1000);
    if (id != 3) peer_frame(p, TMESH_FRAME_HALF_CLOSE, id, NULL, 0); /* 3 may still send: no limit */
  }
  peer_flush(p);
  peer_forget(p);
  assert_int_equal(tmesh_mux_reset_stalled(&p->mux, 10 * second, limit), 0);
  assert_int_equal(tmesh_mux_reset_stalled(&p->mux, 10 * second + limit - 1, limit), 0);
  peer_update(p, 2, 1); /* it moves, however slowly */
  peer_flush(p);
  assert_int_equal(tmesh_mux_reset_stalled(&p->mux, 10 * second + limit, limit), 1);
  assert_int_equal(tmesh_mux_reset_stalled(&p->mux, 10 * second + 2 * limit - 1, limit), 0);
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_TIMEOUT);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 0), 1);
  assert_int_equal(p->mux.stats.stalled_resets_count, 1);
  assert_int_equal(tmesh_mux_reset_stalled(&p->mux, 10 * second + 2 * limit, limit), 1);
  peer_flush(p);
  assert_int_equal(peer_user(p, 2)->over_count, 1);
  assert_int_equal(peer_user(p, 3)->over_count, 0);
  peer_free(p);
}

static void freed_streams_are_reused_and_the_cache_is_bounded(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  for (uint32_t id = 1; id <= 600; id++) peer_opened(p, id);
  for (size_t i = 0; i < 600; i++) {
    tmesh_stream_release(p->users[i].stream);
    p->users[i].stream = NULL;
  }
  peer_flush(p);
  assert_int_equal(p->mux.streams.count, 0);
  assert_int_equal(p->mux.retired_count, TMESH_RETIRED_MAX_STREAMS);
  peer_free(p);
}

static void an_idle_stream_is_small(void** state) {
  (void)state;
  /* Two processes hold one stream each way and the hub two: 2 KiB per process is the goal. */
  assert_true(sizeof(struct tmesh_stream) <= 304);
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  assert_int_equal(tmesh_chunkq_held_bytes(&s->in) + tmesh_chunkq_held_bytes(&s->out), 0);
  peer_free(p);
}

int main(void) {
  peer_pattern(bulk, sizeof bulk);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_callback_may_release_any_stream),
      cmocka_unit_test(a_callback_may_replace_its_stream),
      cmocka_unit_test(events_before_attach_are_kept),
      cmocka_unit_test(events_while_detached_wait_for_the_next_owner),
      cmocka_unit_test(dispatch_is_bounded_each_waiting_stream_once),
      cmocka_unit_test(a_stalled_half_closed_stream_is_reset_after_the_limit),
      cmocka_unit_test(freed_streams_are_reused_and_the_cache_is_bounded),
      cmocka_unit_test(an_idle_stream_is_small),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
