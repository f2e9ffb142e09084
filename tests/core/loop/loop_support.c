#include "tests/core/loop/loop_support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_US UINT64_C(20000000)

struct tmesh_loop test_loop;
static uv_timer_t tick;
static uint64_t limit_us;
static const char* waiting_for;
static unsigned descriptors_before;

/* Descriptors of this process that are open now. */
static unsigned descriptor_count(void) {
  unsigned count = 0;
  DIR* dir = opendir("/proc/self/fd");
  assert_non_null(dir);
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count;
}

int test_loop_open(void** state) {
  (void)state;
  descriptors_before = descriptor_count();
  assert_true(tmesh_is_ok(tmesh_loop_init(&test_loop, 64u << 20)));
  assert_int_equal(uv_timer_init(&test_loop.uv, &tick), 0);
  return 0;
}

int test_loop_close(void** state) {
  (void)state;
  uv_close((uv_handle_t*)&tick, NULL);
  assert_true(tmesh_loop_close(&test_loop));
  /* libuv keeps a pipe for signals from the first loop on. */
  static bool is_later;
  if (is_later) assert_int_equal(descriptor_count(), descriptors_before);
  is_later = true;
  return 0;
}

static void on_tick(uv_timer_t* timer) {
  (void)timer;
}

void test_loop_begin(const char* what) {
  waiting_for = what;
  limit_us = uv_hrtime() / 1000 + LIMIT_US;
  assert_int_equal(uv_timer_start(&tick, on_tick, 2, 2), 0);
}

void test_loop_step(void) {
  if (uv_hrtime() / 1000 > limit_us) fail_msg("did not happen: %s", waiting_for);
  (void)uv_run(&test_loop.uv, UV_RUN_ONCE);
}

void test_loop_end(void) {
  uv_timer_stop(&tick);
}

void test_loop_spin(unsigned iterations) {
  /* A loop without anything alive does not iterate. */
  assert_int_equal(uv_timer_start(&tick, on_tick, 1000, 1000), 0);
  while (iterations-- > 0) (void)uv_run(&test_loop.uv, UV_RUN_NOWAIT);
  uv_timer_stop(&tick);
}

static void set_non_blocking(int fd) {
  assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

int test_listen(uint16_t* port) {
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof name;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr*)&name, sizeof name), 0);
  assert_int_equal(listen(fd, 64), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr*)&name, &len), 0);
  *port = ntohs(name.sin_port);
  return fd;
}

int test_connect(uint16_t port) {
  struct sockaddr_in name = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr*)&name, sizeof name), 0);
  set_non_blocking(fd);
  return fd;
}

void test_tcp_pair(int fds[2]) {
  uint16_t port;
  int listening = test_listen(&port);
  fds[0] = test_connect(port);
  fds[1] = accept(listening, NULL, NULL);
  assert_true(fds[1] >= 0);
  set_non_blocking(fds[1]);
  close(listening);
}

void test_unix_pair(int fds[2]) {
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

int test_recv(int fd, uint8_t* buf, size_t cap, size_t* len) {
  while (*len < cap) {
    ssize_t n = recv(fd, buf + *len, cap - *len, MSG_DONTWAIT);
    if (n == 0) return 0;
    if (n < 0) return errno == EAGAIN ? 1 : -errno;
    *len += (size_t)n;
  }
  return 1;
}

size_t test_send(int fd, const void* data, size_t n) {
  ssize_t sent = send(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    assert_true(errno == EAGAIN);
    return 0;
  }
  return (size_t)sent;
}

void test_send_all(int fd, const void* data, size_t n) {
  assert_int_equal(test_send(fd, data, n), n);
}

void test_close_reset(int fd) {
  struct linger now = {.l_onoff = 1, .l_linger = 0};
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  close(fd);
}

uint8_t test_byte(uint32_t seed, uint64_t i) {
  uint64_t x = (i + 1) * UINT64_C(0x9E3779B97F4A7C15) + seed * UINT64_C(0xBF58476D1CE4E5B9);
  x ^= x >> 29;
  return (uint8_t)(x >> 13);
}

void test_fill(uint32_t seed, uint64_t at, uint8_t* out, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = test_byte(seed, at + i);
}

void test_match(uint32_t seed, uint64_t at, const uint8_t* data, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (data[i] != test_byte(seed, at + i)) fail_msg("byte %llu differs", (unsigned long long)(at + i));
  }
}
