#include "tests/core/loop/dial_support.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned open_fd_count(void) {
  unsigned count = 0;
  DIR* dir = opendir("/proc/self/fd");
  assert_non_null(dir);
  while (readdir(dir)) count++;
  closedir(dir);
  return count;
}

/* One that is free on every address, and that no outgoing connection of others gets before it is bound on
 * the second one. */
static uint16_t free_port(void) {
  unsigned first_outgoing = 0;
  FILE* range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
  assert_non_null(range);
  assert_int_equal(fscanf(range, "%u", &first_outgoing), 1);
  fclose(range);
  const unsigned last = first_outgoing > 12000 ? first_outgoing - 1 : 65535;
  for (int tries = 0; tries < 1000; tries++) {
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    const int off = 0;
    uint16_t port = 0;
    assert_int_equal(uv_random(NULL, NULL, &port, sizeof port, 0, NULL), 0);
    port = (uint16_t)(last - port % 10000);
    any.sin6_port = htons(port);
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const bool is_free = bind(fd, (struct sockaddr*)&any, sizeof any) == 0;
    close(fd);
    if (is_free) return port;
  }
  fail_msg("no free port");
  return 0;
}

int dial_set_up(void** state) {
  struct fixture* f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_true(tmesh_is_ok(tmesh_loop_init(&f->loop, 1 << 20)));
  f->port = free_port();
  fake_dns_open(&f->dns, &f->loop, "127.0.0.1", 0);
  f->resolver = tmesh_resolver_new(&f->loop, f->dns.servers);
  assert_non_null(f->resolver);
  assert_true(tmesh_is_ok(tmesh_resolver_set_files(f->resolver, NULL, "/dev/null")));
  *state = f;
  return 0;
}

int dial_tear_down(void** state) {
  struct fixture* f = *state;
  tmesh_resolver_free(f->resolver);
  fake_dns_close(&f->dns);
  assert_true(tmesh_loop_close(&f->loop));
  for (int i = 0; i < f->fd_count; i++) close(f->fds[i]);
  free(f);
  return 0;
}

static socklen_t address_of(const char* ip, uint16_t port, struct sockaddr_storage* out) {
  memset(out, 0, sizeof *out);
  if (strchr(ip, ':')) {
    assert_int_equal(uv_ip6_addr(ip, port, (struct sockaddr_in6*)out), 0);
    return sizeof(struct sockaddr_in6);
  }
  assert_int_equal(uv_ip4_addr(ip, port, (struct sockaddr_in*)out), 0);
  return sizeof(struct sockaddr_in);
}

static int keep(struct fixture* f, int fd) {
  assert_true(fd >= 0);
  assert_true(f->fd_count < LISTENERS_MAX * 2);
  f->fds[f->fd_count++] = fd;
  return fd;
}

int bind_only(struct fixture* f, const char* ip) {
  struct sockaddr_storage a;
  socklen_t len = address_of(ip, f->port, &a);
  int fd = keep(f, socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int on = 1;
  if (a.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  assert_int_equal(bind(fd, (struct sockaddr*)&a, len), 0);
  return fd;
}

int live(struct fixture* f, const char* ip) {
  int fd = bind_only(f, ip);
  assert_int_equal(listen(fd, 64), 0);
  return fd;
}

void black_hole(struct fixture* f, const char* ip) {
  int fd = bind_only(f, ip);
  assert_int_equal(listen(fd, 0), 0);
  struct sockaddr_storage a;
  socklen_t len = address_of(ip, f->port, &a);
  for (;;) { /* fills it; the last one hangs, which is the proof */
    int c = keep(f, socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    struct timeval wait = {0, 20000};
    setsockopt(c, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    if (connect(c, (struct sockaddr*)&a, len) != 0) {
      assert_int_equal(errno, EINPROGRESS);
      return;
    }
  }
}

void on_done(void* ctx, const struct tmesh_dial_result* result) {
  struct outcome* o = ctx;
  assert_false(o->is_in_start);
  o->result = *result;
  o->done_count++;
  o->is_done = true;
}

static bool filter(void* ctx, const struct tmesh_address* address, bool is_name) {
  struct outcome* o = ctx;
  char text[64] = "";
  assert_false(o->is_in_start);
  assert_non_null(inet_ntop(address->family, address->bytes, text, sizeof text));
  o->filter_count++;
  o->was_name = is_name;
  for (int i = 0; i < 4; i++) {
    if (strcmp(o->denied[i], text) == 0) return false;
  }
  return true;
}

struct tmesh_dial* begin(struct fixture* f, const char* host, unsigned timeout_ms, unsigned connect_ms,
                         struct outcome* o) {
  struct tmesh_dial_params p = {.host = host,
                                .port = f->port,
                                .timeout_ms = timeout_ms,
                                .connect_timeout_ms = connect_ms,
                                .filter = filter,
                                .ctx = o,
                                .done = on_done};
  struct tmesh_dial* d = NULL;
  o->is_in_start = true;
  assert_true(tmesh_is_ok(tmesh_dial_start(&f->loop, f->resolver, &p, &d)));
  assert_non_null(d);
  o->is_in_start = false;
  return d;
}

void dial(struct fixture* f, const char* host, unsigned timeout_ms, unsigned connect_ms, struct outcome* o) {
  (void)begin(f, host, timeout_ms, connect_ms, o);
  assert_true(run_until(&f->loop, &o->is_done));
  assert_int_equal(o->done_count, 1);
  assert_true((o->result.fd >= 0) == tmesh_is_ok(o->result.status));
}

void assert_connected_to(const struct outcome* o, const char* ip) {
  assert_int_equal(o->result.status.code, TMESH_OK);
  assert_true(o->result.fd >= 0);
  assert_true(fcntl(o->result.fd, F_GETFL) & O_NONBLOCK);
  assert_true(fcntl(o->result.fd, F_GETFD) & FD_CLOEXEC);
  struct sockaddr_storage a;
  socklen_t len = sizeof a;
  assert_int_equal(getpeername(o->result.fd, (struct sockaddr*)&a, &len), 0);
  char text[64] = "";
  assert_int_equal(uv_ip_name((struct sockaddr*)&a, text, sizeof text), 0);
  assert_string_equal(text, ip);
  close(o->result.fd);
}

void assert_failed(const struct outcome* o, enum tmesh_code code, enum tmesh_dial_phase phase) {
  assert_int_equal(o->result.status.code, code);
  assert_int_equal(o->result.status.scope, TMESH_SCOPE_STREAM);
  assert_int_equal(o->result.phase, phase);
  assert_int_equal(o->result.fd, -1);
}

void names(struct fixture* f, const char* name, const char* v4, const char* v6) {
  fake_dns_rule(&f->dns, name, FAKE_DNS_A, FAKE_DNS_ANSWER, v4, 0);
  fake_dns_rule(&f->dns, name, FAKE_DNS_AAAA, FAKE_DNS_ANSWER, v6, 0);
}
