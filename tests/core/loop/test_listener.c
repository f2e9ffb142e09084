/* core/loop/listener: accepting, addresses, errors by cause, descriptors running out. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/loop/listener.h"
#include "tests/core/loop/loop_support.h"

#define ACCEPTED_MAX 256

struct entry {
  struct tmesh_listener listener;
  int fds[ACCEPTED_MAX];
  unsigned count, broken_count, closed_count;
  struct tmesh_status why;
  struct sockaddr_storage peer;
  bool closes_in_accept;
};

static void on_accept(void* ctx, int fd, const struct sockaddr* peer) {
  struct entry* e = ctx;
  assert_true(e->count < ACCEPTED_MAX);
  e->fds[e->count++] = fd;
  if (peer->sa_family == AF_INET) *(struct sockaddr_in*)&e->peer = *(const struct sockaddr_in*)peer;
  if (peer->sa_family == AF_INET6) *(struct sockaddr_in6*)&e->peer = *(const struct sockaddr_in6*)peer;
  if (e->closes_in_accept) tmesh_listener_close(&e->listener);
}

static void on_broken(void* ctx, struct tmesh_status why) {
  struct entry* e = ctx;
  e->broken_count++;
  e->why = why;
}

static void on_closed(void* ctx) {
  ((struct entry*)ctx)->closed_count++;
}

static const struct tmesh_listener_events events = {on_accept, on_broken, on_closed};

static struct tmesh_status open_on(struct entry* e, const char* host, uint16_t port) {
  *e = (struct entry){0};
  return tmesh_listener_open(&e->listener, &test_loop, host, port, &events, e);
}

static void end(struct entry* e) {
  for (unsigned i = 0; i < e->count; i++) close(e->fds[i]);
  tmesh_listener_close(&e->listener);
  tmesh_listener_close(&e->listener); /* idempotent */
  RUN_UNTIL(e->closed_count > 0);
  assert_int_equal(e->closed_count, 1);
}

static void an_accepted_descriptor_is_the_callees_and_non_blocking(void** state) {
  (void)state;
  struct entry e;
  assert_true(tmesh_is_ok(open_on(&e, "127.0.0.1", 0)));
  assert_int_not_equal(tmesh_listener_port(&e.listener), 0);
  int client = test_connect(tmesh_listener_port(&e.listener));
  RUN_UNTIL(e.count == 1);
  assert_true((fcntl(e.fds[0], F_GETFL) & O_NONBLOCK) != 0);
  assert_true((fcntl(e.fds[0], F_GETFD) & FD_CLOEXEC) != 0);
  assert_int_equal(e.peer.ss_family, AF_INET);
  assert_int_equal(e.listener.accepted_count, 1);
  close(client);
  end(&e);
}

static void all_addresses_means_both_families(void** state) {
  (void)state;
  const char* const hosts[] = {"", "*", "::"};
  for (int i = 0; i < 3; i++) {
    struct entry e;
    assert_true(tmesh_is_ok(open_on(&e, hosts[i], 0)));
    int client = test_connect(tmesh_listener_port(&e.listener));
    RUN_UNTIL(e.count == 1);
    assert_int_equal(e.peer.ss_family, AF_INET); /* not the mapped form */
    close(client);
    end(&e);
  }
}

static void an_ipv6_literal_listens_on_that_address(void** state) {
  (void)state;
  struct entry six, four;
  if (open_on(&six, "::1", 0).code != TMESH_OK) skip(); /* a host without IPv6 */
  const uint16_t port = tmesh_listener_port(&six.listener);
  assert_true(tmesh_is_ok(open_on(&four, "127.0.0.1", port))); /* the other family is free */
  struct sockaddr_in6 name = {
      .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback, .sin6_port = htons(port)};
  int client = socket(AF_INET6, SOCK_STREAM, 0);
  assert_int_equal(connect(client, (struct sockaddr*)&name, sizeof name), 0);
  RUN_UNTIL(six.count == 1);
  assert_int_equal(six.peer.ss_family, AF_INET6);
  assert_int_equal(four.count, 0);
  close(client);
  end(&six);
  end(&four);
}

static void errors_name_their_cause(void** state) {
  (void)state;
  struct entry e, other;
  const char* const bad[] = {"localhost", "300.1.1.1", "1.2.3", "::g", "203.0.113.7"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal(open_on(&e, bad[i], 0).code, TMESH_E_INVALID);
  }
  assert_true(tmesh_is_ok(open_on(&e, "127.0.0.1", 0)));
  struct tmesh_status st = open_on(&other, "127.0.0.1", tmesh_listener_port(&e.listener));
  assert_int_equal(st.code, TMESH_E_REFUSED);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
  end(&e);
}

static void the_port_is_free_when_close_returns(void** state) {
  (void)state;
  struct entry e, again;
  assert_true(tmesh_is_ok(open_on(&e, "127.0.0.1", 0)));
  const uint16_t port = tmesh_listener_port(&e.listener);
  int client = test_connect(port);
  RUN_UNTIL(e.count == 1);
  tmesh_listener_close(&e.listener);
  assert_true(tmesh_is_ok(open_on(&again, "127.0.0.1", port)));
  close(client);
  close(e.fds[0]);
  RUN_UNTIL(e.closed_count == 1);
  end(&again);
}

static void one_iteration_accepts_a_bounded_number(void** state) {
  (void)state;
  enum { CLIENTS = TMESH_ACCEPTS_PER_ITERATION_MAX + 20 };
  struct entry e;
  int clients[CLIENTS];
  assert_true(tmesh_is_ok(open_on(&e, "127.0.0.1", 0)));
  for (int i = 0; i < CLIENTS; i++) clients[i] = test_connect(tmesh_listener_port(&e.listener));
  RUN_UNTIL(e.count > 0);
  assert_true(e.count <= 2 * TMESH_ACCEPTS_PER_ITERATION_MAX);
  RUN_UNTIL(e.count == CLIENTS);
  for (int i = 0; i < CLIENTS; i++) close(clients[i]);
  end(&e);
}

static void a_callback_may_close_the_listener(void** state) {
  (void)state;
  struct entry e;
  assert_true(tmesh_is_ok(open_on(&e, "127.0.0.1", 0)));
  e.closes_in_accept = true;
  int a = test_connect(tmesh_listener_port(&e.listener));
  int b = test_connect(tmesh_listener_port(&e.listener));
  RUN_UNTIL(e.closed_count == 1);
  assert_int_equal(e.count, 1);
  close(e.fds[0]);
  close(a);
  close(b);
}

static bool is_refused(int fd) {
  uint8_t buf[1];
  size_t len = 0;
  return test_recv(fd, buf, sizeof buf, &len) != 1;
}

static void without_descriptors_newcomers_are_refused_and_later_ones_taken(void** state) {
  (void)state;
  struct entry e;
  struct rlimit before, low;
  assert_true(tmesh_is_ok(open_on(&e, "127.0.0.1", 0)));
  const uint16_t port = tmesh_listener_port(&e.listener);
  int first = test_connect(port), second = test_connect(port);
  /* No descriptor is left: the lowest free number is above the limit. */
  int probe = open("/dev/null", O_RDONLY);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  low = before;
  low.rlim_cur = (rlim_t)probe;
  close(probe);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  RUN_UNTIL(is_refused(first) && is_refused(second));
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(e.count, 0);
  assert_int_equal(e.broken_count, 0);
  assert_int_equal(e.listener.refused_count, 2);
  int third = test_connect(port);
  RUN_UNTIL(e.count == 1);
  close(first);
  close(second);
  close(third);
  end(&e);
}

static void a_dead_listening_socket_is_reported_once(void** state) {
  (void)state;
  struct entry e;
  assert_true(tmesh_is_ok(open_on(&e, "127.0.0.1", 0)));
  /* shutdown() turns a listening socket into one that accept() refuses with EINVAL. */
  assert_int_equal(shutdown(e.listener.fd, SHUT_RDWR), 0);
  RUN_UNTIL(e.broken_count == 1);
  assert_int_equal(e.why.code, TMESH_E_IO);
  test_loop_spin(10);
  assert_int_equal(e.broken_count, 1);
  end(&e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(an_accepted_descriptor_is_the_callees_and_non_blocking),
      LOOP_TEST(all_addresses_means_both_families),
      LOOP_TEST(an_ipv6_literal_listens_on_that_address),
      LOOP_TEST(errors_name_their_cause),
      LOOP_TEST(the_port_is_free_when_close_returns),
      LOOP_TEST(one_iteration_accepts_a_bounded_number),
      LOOP_TEST(a_callback_may_close_the_listener),
      LOOP_TEST(without_descriptors_newcomers_are_refused_and_later_ones_taken),
      LOOP_TEST(a_dead_listening_socket_is_reported_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
