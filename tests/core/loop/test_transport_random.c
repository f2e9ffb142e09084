/* core/loop/transport, plain and with TLS, under random reading, writing and closing:
 * every byte arrives in order, and behind a graceful close comes a regular end. */
#include "tests/core/base/prng.h"
#include "tests/core/loop/transport_support.h"
#include "tests/core/wire/tls_fixture.h"

#define TOTAL_MAX_BYTES 600000u

struct talker {
  struct wire w;
  uint32_t seed;
  size_t total, sent;
  unsigned reported; /* writes that were, or need not be, reported */
  bool is_pending, closes_first;
};

static uint8_t data[2][TOTAL_MAX_BYTES];

static bool has_written(const struct talker* t) {
  return !t->is_pending || t->w.written_count > t->reported;
}

static void write_some(struct prng* r, struct talker* t) {
  const size_t max = 1 + prng_below(r, prng_below(r, 2) ? 200000 : 200);
  const size_t left = t->total - t->sent;
  size_t n = left < max ? left : max, taken = 0;
  const uint8_t* from = data[t->seed] + t->sent;
  bool is_all = false;

  if (t->is_pending) {
    if (t->w.written_count == t->reported) return;
    t->is_pending = false;
    t->reported = t->w.written_count;
  }
  if (n == 0 || !t->w.t.is_ready) return;
  t->sent += n;
  switch (prng_below(r, 3)) {
    case 0:
      PROPERTY(r, tmesh_is_ok(wire_write(&t->w, from, n)));
      t->is_pending = true;
      break;
    case 1:
      PROPERTY(r, tmesh_is_ok(tmesh_transport_try_write(&t->w.t, from, n, &is_all)));
      t->is_pending = !is_all;
      break;
    default:
      PROPERTY(r, tmesh_is_ok(tmesh_transport_push(&t->w.t, from, n, &taken, &is_all)));
      if (taken == n && is_all) break;
      PROPERTY(r, tmesh_is_ok(wire_write(&t->w, from + taken, n - taken)));
      t->is_pending = true;
      break;
  }
}

static void check(struct prng* r, const struct talker* to, const struct talker* from) {
  PROPERTY(r, to->w.error_count == 0 && tmesh_is_ok(to->w.ready));
  PROPERTY(r, to->w.got_bytes <= from->sent);
  PROPERTY(r, to->w.eof_count == 0 || to->w.got_bytes == from->total);
}

/* One closes when everything passed both ways, the other one when it sees that. */
static void close_some(struct prng* r, struct talker* t, const struct talker* other) {
  if (t->w.t.closing.is_begun) return;
  const bool is_done = t->sent == t->total && has_written(t) && t->w.got_bytes == other->total;
  const bool may = t->closes_first ? is_done && prng_below(r, 4) == 0 : t->w.eof_count == 1;
  if (may) wire_start_close(&t->w, true);
}

static void run_one(uint64_t seed, struct tls_configs* tls) {
  static struct talker t[2];
  struct prng r = prng_init(seed);
  int fds[2];
  memset(t, 0, sizeof t);
  test_tcp_pair(fds);
  if (prng_below(&r, 2)) {
    const int small = 4096;
    for (int i = 0; i < 2; i++) {
      assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    }
  }
  wire_open(&t[0].w, fds[0], tls ? tls->client : NULL, false, TLS_NAME);
  wire_open(&t[1].w, fds[1], tls ? tls->server : NULL, true, NULL);
  for (unsigned i = 0; i < 2; i++) {
    t[i].seed = i;
    t[i].total = prng_below(&r, prng_below(&r, 2) ? TOTAL_MAX_BYTES : 2000);
  }
  t[prng_below(&r, 2)].closes_first = true;
  const uint32_t read_change = 1 + prng_below(&r, 20);
  test_loop_begin("both are closed");
  while (t[0].w.closed_count + t[1].w.closed_count < 2) {
    for (int i = 0; i < 2; i++) {
      if (t[i].w.t.closing.is_begun) continue;
      if (prng_below(&r, 3) == 0) write_some(&r, &t[i]);
      if (prng_below(&r, read_change) == 0) wire_read(&t[i].w, prng_below(&r, 4) > 0);
      check(&r, &t[i], &t[1 - i]);
      close_some(&r, &t[i], &t[1 - i]);
    }
    test_loop_step();
    r.step++;
  }
  test_loop_end();
  for (int i = 0; i < 2; i++) {
    PROPERTY(&r, t[i].w.got_bytes == t[1 - i].total);
    test_match((uint32_t)(1 - i), 0, t[i].w.got, t[i].w.got_bytes);
    wire_closed(&t[i].w);
  }
}

static uint64_t first_seed = 1, last_seed = 20;

static void run_all(void** state, struct tls_configs* tls) {
  for (unsigned i = 0; i < 2; i++) test_fill(i, 0, data[i], TOTAL_MAX_BYTES);
  for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
    if (seed > first_seed) assert_int_equal(test_loop_open(state), 0);
    run_one(seed, tls);
    if (seed < last_seed) assert_int_equal(test_loop_close(state), 0);
  }
}

static void plain(void** state) {
  run_all(state, NULL);
}

static void tls_1_3(void** state) {
  struct tls_configs tls = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  run_all(state, &tls);
  tls_fixture_free(&tls);
}

static void tls_1_2(void** state) {
  struct tls_configs tls = tls_fixture_configs(TMESH_TLS_VERSION_1_2);
  run_all(state, &tls);
  tls_fixture_free(&tls);
}

/* A nightly run takes other seeds: `test_transport_random FIRST LAST`. */
int main(int argc, char** argv) {
  const struct CMUnitTest tests[] = {LOOP_TEST(plain), LOOP_TEST(tls_1_3), LOOP_TEST(tls_1_2)};
  if (argc == 3) {
    first_seed = strtoull(argv[1], NULL, 10);
    last_seed = strtoull(argv[2], NULL, 10);
  }
  return cmocka_run_group_tests(tests, tls_fixture_make, NULL);
}
