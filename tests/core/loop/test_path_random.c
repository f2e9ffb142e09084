/* entry socket ==link== target socket under random traffic and random ends: a regular
 * end at one side means that the other side sent exactly these bytes and then ended
 * regularly (LESSONS R5), and an answer that reached us reaches the entry (P-B8). */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/core/base/prng.h"
#include "tests/core/loop/path_support.h"

/* A receive buffer has room for this much from the start. */
#define KERNEL_TAKES_BYTES 40000u

enum ending { END_FIN, END_CLOSE, END_RESET, ENDINGS };

struct side {
  int fd; /* -1: closed */
  uint32_t seed;
  uint64_t total, sent, got;
  uint32_t read_chance, write_chance; /* of 8 */
  enum ending ending;
  bool is_fin_sent;       /* regular end behind `total` */
  bool has_ended, is_cut; /* nothing more is sent */
  bool is_eof, is_broken; /* nothing more is read */
  bool all_taken;         /* the other kernel had every byte when this side went */
};

static void end_side(struct side* s) {
  int unread = 0, unsent = 0;
  s->has_ended = true;
  assert_int_equal(ioctl(s->fd, FIONREAD, &unread), 0);
  assert_int_equal(ioctl(s->fd, SIOCOUTQ, &unsent), 0);
  s->all_taken = unsent == 0;
  if (s->ending == END_FIN) {
    s->is_fin_sent = !s->is_cut && shutdown(s->fd, SHUT_WR) == 0;
    return;
  }
  if (s->ending == END_CLOSE) {
    s->is_fin_sent = !s->is_cut && unread == 0;
    close(s->fd);
  } else {
    test_close_reset(s->fd);
  }
  s->fd = -1;
}

static void send_some(struct prng* r, struct side* s) {
  static uint8_t buf[32768];
  size_t n = 1 + prng_below(r, sizeof buf);
  if (n > s->total - s->sent) n = (size_t)(s->total - s->sent);
  test_fill(s->seed, s->sent, buf, n);
  const ssize_t done = send(s->fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (done > 0) s->sent += (uint64_t)done;
  if (done < 0 && errno != EAGAIN) s->is_cut = true;
}

static void read_some(struct prng* r, struct side* s, const struct side* other) {
  static uint8_t buf[65536];
  size_t len = 0;
  const int rc = test_recv(s->fd, buf, 1 + prng_below(r, sizeof buf), &len);
  test_match(other->seed, s->got, buf, len);
  s->got += len;
  if (rc < 0) s->is_broken = true;
  if (rc != 0) return;
  s->is_eof = true;
  PROPERTY(r, other->is_fin_sent && s->got == other->total);
}

static void act(struct prng* r, struct side* s, const struct side* other) {
  if (s->fd < 0) return;
  if (!s->is_eof && !s->is_broken && prng_below(r, 8) < s->read_chance) read_some(r, s, other);
  if (s->has_ended || prng_below(r, 8) >= s->write_chance) return;
  if (s->sent < s->total && !s->is_cut) {
    send_some(r, s);
  } else {
    end_side(s);
  }
}

static struct side new_side(struct prng* r, int fd, uint32_t seed) {
  static const uint32_t sizes[] = {1, 10, 3000, KERNEL_TAKES_BYTES, 400000};
  return (struct side){.fd = fd,
                       .seed = seed,
                       .total = prng_below(r, sizes[prng_below(r, 5)]),
                       .read_chance = 1 + prng_below(r, 8),
                       .write_chance = 1 + prng_below(r, 8),
                       .ending = (enum ending)prng_below(r, ENDINGS)};
}

static void run_one(uint64_t seed) {
  struct prng r = prng_init(seed);
  int fds[2];
  test_loop.paused_probe_us = 100000;
  test_tcp_pair(fds);
  path_open(fds, NULL);
  RUN_UNTIL(path.entry.is_spliced && path.target.is_spliced);
  struct side entry = new_side(&r, path.entry.peer, 1);
  struct side target = new_side(&r, path.target.peer, 2);
  test_loop_begin("both sockets of the path are closed");
  while (!path.entry.is_tcp_closed || !path.target.is_tcp_closed) {
    act(&r, &entry, &target);
    act(&r, &target, &entry);
    test_loop_step();
    r.step++;
  }
  test_loop_end();
  while (entry.fd >= 0 && !entry.is_eof && !entry.is_broken) read_some(&r, &entry, &target);
  /* What waits in our kernel for a slow reader is lost with an RST, as without a tunnel. */
  const bool is_small = target.total <= KERNEL_TAKES_BYTES;
  if (entry.fd >= 0 && target.has_ended && target.all_taken && !target.is_cut && is_small) {
    PROPERTY(&r, entry.got == target.total);
  }
  PROPERTY(&r, path.entry.done_count == 1 && path.target.done_count == 1);
  if (entry.fd >= 0) close(entry.fd);
  if (target.fd >= 0) close(target.fd);
  path_close_links();
  PROPERTY(&r, test_loop.pool.live_count == 0);
}

static uint64_t first_seed = 1, last_seed = 300;

static void random_ends_are_never_mistaken(void** state) {
  for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
    if (seed > first_seed) assert_int_equal(test_loop_open(state), 0);
    run_one(seed);
    if (seed < last_seed) assert_int_equal(test_loop_close(state), 0);
  }
}

/* A nightly run takes other seeds: `test_path_random FIRST LAST`. */
int main(int argc, char** argv) {
  const struct CMUnitTest tests[] = {LOOP_TEST(random_ends_are_never_mistaken)};
  if (argc == 3) {
    first_seed = strtoull(argv[1], NULL, 10);
    last_seed = strtoull(argv[2], NULL, 10);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
