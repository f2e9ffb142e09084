/* OPEN_STREAM at an acceptor, and what answers it. */
#include <string.h>

#include "scripted_peer.h"
#include "tests/core/base/prng.h"

#define STRICT TMESH_FLAG_STRICT_OPEN
#define WINDOW TMESH_WINDOW_INITIAL_BYTES

static struct tmesh_open_result sent_result(const struct peer* p) {
  struct tmesh_open_result r;
  const struct sent_frame* f = peer_last(p);
  assert_int_equal(f->header.type, TMESH_FRAME_OPEN_RESULT);
  assert_true(tmesh_is_ok(tmesh_open_result_decode(&r, f->payload, f->header.length_bytes)));
  return r;
}

static void strict_open_is_answered_with_one_open_result(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_open(p, 1, STRICT, WINDOW);
  assert_string_equal(p->last_open.target_host, "example.test");
  struct tmesh_stream* s = peer_user(p, 1)->stream;
  assert_true(s->is_strict);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  struct tmesh_open_result ok = tmesh_open_accept();
  tmesh_stream_answer(s, &ok);
  assert_int_equal(s->state, TMESH_STREAM_OPEN);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_true(sent_result(p).accepted);
  peer_free(p);
}

static void open_result_goes_before_the_first_data(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_ACCEPT;
  peer_open(p, 1, STRICT, WINDOW);
  assert_int_equal(tmesh_stream_write(peer_user(p, 1)->stream, "hello", 5), 5);
  peer_flush(p);
  assert_int_equal(p->frames[0].header.type, TMESH_FRAME_OPEN_RESULT);
  assert_int_equal(p->frames[1].header.type, TMESH_FRAME_DATA);
  peer_free(p);
}

static void legacy_open_is_never_answered_with_open_result(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_ACCEPT;
  peer_open(p, 1, 0, WINDOW);
  assert_false(peer_user(p, 1)->stream->is_strict);
  p->on_open = OPEN_REFUSE;
  peer_open(p, 2, 0, WINDOW);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_OPEN_RESULT, 0), 0);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 2), 1);
  peer_free(p);
}

static void strict_flag_without_open_result_means_legacy(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.has_open_result = false;
  struct peer* p = peer_new(&c);
  p->on_open = OPEN_REFUSE;
  peer_open(p, 1, STRICT, WINDOW);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_last(p)->header.type, TMESH_FRAME_RESET);
  peer_free(p);
}

static void refused_strict_open_sends_the_result_and_no_reset_and_no_over_event(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_REFUSE;
  peer_open(p, 1, STRICT, WINDOW);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  struct tmesh_open_result r = sent_result(p);
  assert_int_equal(r.code, TMESH_OPEN_FORBIDDEN);
  assert_int_equal(r.stage, TMESH_STAGE_POLICY);
  assert_int_equal(peer_user(p, 1)->events, 0);
  assert_int_equal(p->mux.live_count, 0);
  peer_free(p);
}

static void answer_after_the_peer_reset_is_harmless(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_open(p, 1, STRICT, WINDOW);
  struct tmesh_stream* s = peer_user(p, 1)->stream;
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  struct tmesh_open_result ok = tmesh_open_accept();
  tmesh_stream_answer(s, &ok);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  assert_int_equal(peer_user(p, 1)->over_count, 1);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_RESET);
  peer_free(p);
}

static void stream_nobody_attached_is_refused_and_freed(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_IGNORE;
  peer_open(p, 1, STRICT, WINDOW);
  peer_open(p, 2, 0, WINDOW);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_OPEN_RESULT, 1), 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 2), 1);
  assert_int_equal(p->mux.streams.count, 0);
  peer_free(p);
}

static void on_open_may_reset_or_release(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_RESET;
  peer_open(p, 1, STRICT, WINDOW);
  p->on_open = OPEN_RELEASE;
  peer_open(p, 2, STRICT, WINDOW);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1), 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 2), 1);
  assert_int_equal(p->mux.live_count, 0);
  assert_int_equal(p->mux.streams.count, 1); /* stream 1 is over but still its user's */
  peer_free(p);
}

static void undecodable_open_is_refused_per_stream_Z10(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  static const char* const bad[] = {"",
                                    "{",
                                    "[]",
                                    "{\"protocol\":\"tcp\",\"target_host\":\"\",\"target_port\":1}",
                                    "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":65536}",
                                    "{\"protocol\":\"tcp\",\"target_host\":7,\"target_port\":1}"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    uint32_t id = (uint32_t)(2 * i + 1);
    struct tmesh_status st =
        peer_frame_status(p, TMESH_FRAME_OPEN_STREAM, STRICT, id, WINDOW, bad[i], strlen(bad[i]));
    assert_true(tmesh_is_ok(st));
    st = peer_frame_status(p, TMESH_FRAME_OPEN_STREAM, 0, id + 1, WINDOW, bad[i], strlen(bad[i]));
    assert_true(tmesh_is_ok(st));
    peer_flush(p);
    assert_int_equal(p->frames_count, 2);
    assert_int_equal(peer_sent(p, TMESH_FRAME_OPEN_RESULT, id), 1);
    assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, id + 1), 1);
    struct tmesh_open_result r;
    assert_true(
        tmesh_is_ok(tmesh_open_result_decode(&r, p->frames[0].payload, p->frames[0].header.length_bytes)));
    assert_int_equal(r.stage, TMESH_STAGE_PROTOCOL);
    assert_int_equal(r.code, TMESH_OPEN_INTERNAL_ERROR);
    peer_forget(p);
  }
  assert_int_equal(p->users_count, 0);
  assert_int_equal(p->mux.streams.count, 0);
  peer_free(p);
}

static void oversized_open_is_refused_per_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  static char big[TMESH_OPEN_STREAM_MAX_BYTES + 1];
  memset(big, ' ', sizeof big);
  struct tmesh_status st = peer_frame_status(p, TMESH_FRAME_OPEN_STREAM, STRICT, 1, WINDOW, big, sizeof big);
  assert_true(tmesh_is_ok(st));
  peer_flush(p);
  assert_int_equal(sent_result(p).code, TMESH_OPEN_INTERNAL_ERROR);
  assert_int_equal(p->mux.stats.stream_errors_count[TMESH_E_TOO_LARGE], 1);
  peer_free(p);
}

static void streams_max_refuses_with_queue_full_and_leaves_no_state_R21(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.streams_max = 2;
  struct peer* p = peer_new(&c);
  p->on_open = OPEN_ACCEPT;
  for (uint32_t id = 1; id <= 3; id++) peer_open(p, id, STRICT, WINDOW);
  peer_open(p, 4, 0, WINDOW);
  assert_int_equal(p->users_count, 2);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 4), 1);
  assert_int_equal(p->mux.streams.count, 2);
  assert_int_equal(p->mux.live_count, 2);
  assert_int_equal(p->mux.stats.queue_full_count, 2);
  for (size_t i = 0; i < p->frames_count; i++) {
    if (p->frames[i].header.stream_id != 3) continue;
    struct tmesh_open_result r;
    assert_true(
        tmesh_is_ok(tmesh_open_result_decode(&r, p->frames[i].payload, p->frames[i].header.length_bytes)));
    assert_int_equal(r.stage, TMESH_STAGE_QUEUE);
    assert_int_equal(r.code, TMESH_OPEN_QUEUE_FULL);
    assert_true(r.retryable);
  }
  assert_int_equal(peer_sent(p, TMESH_FRAME_OPEN_RESULT, 3), 1);
  /* The place of a stream that ended is free again. */
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  peer_open(p, 5, STRICT, WINDOW);
  assert_int_equal(p->users_count, 3);
  peer_free(p);
}

static void duplicate_id_of_a_live_stream_ends_it(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_opened(p, 1);
  peer_opened(p, 2);
  peer_open(p, 1, STRICT, WINDOW);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1), 1);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_DUPLICATE_STREAM);
  assert_int_equal(peer_user(p, 2)->over_count, 0);
  peer_free(p);
}

static void duplicate_id_of_a_retired_stream_gets_reset(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_opened(p, 1);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  peer_flush(p);
  assert_int_equal(p->mux.streams.count, 0);
  peer_open(p, 1, STRICT, WINDOW);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1), 1);
  assert_int_equal(p->users_count, 1);
  peer_free(p);
}

static void duplicate_is_recognised_even_when_the_table_was_full(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.streams_max = 1;
  struct peer* p = peer_new(&c);
  p->on_open = OPEN_ACCEPT;
  peer_open(p, 1, STRICT, WINDOW);
  peer_open(p, 2, STRICT, WINDOW);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  peer_flush(p);
  peer_forget(p);
  peer_open(p, 2, STRICT, WINDOW); /* there is room now, but 2 was used */
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 2), 1);
  peer_free(p);
}

static void ids_slightly_out_of_order_are_accepted_from_others(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  static const uint32_t order[] = {2, 1, 5, 4, 3, 4200, 105};
  for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) peer_opened(p, order[i]);
  assert_int_equal(p->mux.live_count, 7);
  peer_free(p);
}

static void ids_below_the_window_count_as_seen(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_opened(p, 5000);
  peer_opened(p, 5000 - TMESH_SEEN_WINDOW_IDS + 1);
  peer_open(p, 5000 - TMESH_SEEN_WINDOW_IDS, STRICT, WINDOW);
  peer_flush(p);
  assert_int_equal(p->mux.live_count, 2);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 5000 - TMESH_SEEN_WINDOW_IDS), 1);
  peer_free(p);
}

static void what_a_jump_uncovers_was_not_seen(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  for (uint32_t id = 1; id <= 200; id++) peer_opened(p, id);
  peer_opened(p, 4200);
  /* These share their bits with 1..200. */
  for (uint32_t id = 4097; id < 4200; id++) peer_opened(p, id);
  peer_opened(p, 20000);
  for (uint32_t id = 19990; id < 20000; id++) peer_opened(p, id);
  assert_int_equal(p->mux.stats.protocol_resets_count, 0);
  peer_free(p);
}

static void seen_window_slides_over_any_jump(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  static const uint32_t ids[] = {1, 64, 65, 4096, 4097, 8193, 100000, UINT32_MAX - 1, UINT32_MAX};
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
    peer_opened(p, ids[i]);
    peer_open(p, ids[i], STRICT, WINDOW);
    peer_flush(p);
    assert_int_equal(peer_user(p, ids[i])->over.code, TMESH_E_DUPLICATE_STREAM);
    peer_forget(p);
  }
  peer_free(p);
}

static void the_seen_window_matches_a_model(void** state) {
  (void)state;
  static const uint32_t jumps[] = {1, 1, 2, 3, 63, 64, 65, 128, 200, 4031, 4095, 4096, 4097, 9000};
  static bool is_used[1000 * 9001];
  struct prng r = prng_init(1);
  struct peer* p = peer_new_acceptor();
  uint32_t recent[32] = {1};
  uint32_t highest = 0, before = 0;
  uint64_t duplicates = 0;
  for (r.step = 0; r.step < 1000; r.step++) {
    uint32_t id = highest + jumps[prng_below(&r, sizeof jumps / sizeof jumps[0])];
    unsigned choice = prng_below(&r, 5);
    if (choice == 0 && highest > 5000) id = highest - prng_below(&r, 4200);
    if (choice == 1) id = recent[prng_below(&r, 32)] + 4096 * prng_below(&r, 2); /* or who shares its bit */
    if (choice == 2) id = before; /* what was the highest before this one */
    if (id == 0 || id > highest + 9000) id = highest + 1;
    recent[r.step % 32] = id;
    bool is_seen = id <= highest && (highest - id >= TMESH_SEEN_WINDOW_IDS || is_used[id]);
    duplicates += is_seen ? 1 : 0;
    is_used[id] = true;
    if (id > highest) before = highest;
    if (id > highest) highest = id;
    (void)!tmesh_is_ok(peer_frame_status(p, TMESH_FRAME_OPEN_STREAM, STRICT, id, 0, "{", 1));
    PROPERTY(&r, p->mux.stats.stream_errors_count[TMESH_E_DUPLICATE_STREAM] == duplicates);
    if (r.step % 4 == 0) peer_flush(p);
    peer_forget(p);
  }
  PROPERTY(&r, duplicates > 50 && duplicates < 900);
  peer_free(p);
}

static void our_own_peers_must_use_strictly_increasing_ids(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.peer_is_ours = true;
  struct peer* p = peer_new(&c);
  peer_opened(p, 1);
  peer_opened(p, 3); /* a gap is an open that was cancelled before it left */
  peer_open(p, 2, STRICT, WINDOW);
  peer_flush(p);
  assert_int_equal(p->mux.live_count, 2);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 2), 1);
  peer_free(p);
}

static void a_peer_that_opens_and_never_reads_its_answers_ends_the_link(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.streams_max = 8;
  struct peer* p = peer_new(&c);
  const char* bad = "{";
  struct tmesh_status st = tmesh_ok();
  uint32_t id = 1;
  for (; id < 20000 && tmesh_is_ok(st); id++) {
    struct tmesh_frame_header h = {TMESH_FRAME_OPEN_STREAM, STRICT, id, 1, WINDOW};
    st = tmesh_mux_frame_header(&p->mux, &h);
    if (tmesh_is_ok(st)) st = tmesh_mux_frame_payload(&p->mux, (const uint8_t*)bad, 1);
    if (tmesh_is_ok(st)) st = tmesh_mux_frame_end(&p->mux);
  }
  assert_int_equal(st.code, TMESH_E_CONTROL_EXHAUSTED);
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  assert_in_range(id, TMESH_UNPULLED_MAX_STREAMS, TMESH_UNPULLED_MAX_STREAMS + 16);
  assert_int_equal(p->mux.streams.count, 0);
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strict_open_is_answered_with_one_open_result),
      cmocka_unit_test(open_result_goes_before_the_first_data),
      cmocka_unit_test(legacy_open_is_never_answered_with_open_result),
      cmocka_unit_test(strict_flag_without_open_result_means_legacy),
      cmocka_unit_test(refused_strict_open_sends_the_result_and_no_reset_and_no_over_event),
      cmocka_unit_test(answer_after_the_peer_reset_is_harmless),
      cmocka_unit_test(stream_nobody_attached_is_refused_and_freed),
      cmocka_unit_test(on_open_may_reset_or_release),
      cmocka_unit_test(undecodable_open_is_refused_per_stream_Z10),
      cmocka_unit_test(oversized_open_is_refused_per_stream),
      cmocka_unit_test(streams_max_refuses_with_queue_full_and_leaves_no_state_R21),
      cmocka_unit_test(duplicate_id_of_a_live_stream_ends_it),
      cmocka_unit_test(duplicate_id_of_a_retired_stream_gets_reset),
      cmocka_unit_test(duplicate_is_recognised_even_when_the_table_was_full),
      cmocka_unit_test(ids_slightly_out_of_order_are_accepted_from_others),
      cmocka_unit_test(ids_below_the_window_count_as_seen),
      cmocka_unit_test(what_a_jump_uncovers_was_not_seen),
      cmocka_unit_test(seen_window_slides_over_any_jump),
      cmocka_unit_test(the_seen_window_matches_a_model),
      cmocka_unit_test(our_own_peers_must_use_strictly_increasing_ids),
      cmocka_unit_test(a_peer_that_opens_and_never_reads_its_answers_ends_the_link),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
