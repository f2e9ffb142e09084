/* A dial on loopback with scripted names: what test_dial*.c share. */
#ifndef TMESH_TESTS_DIAL_SUPPORT_H
#define TMESH_TESTS_DIAL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "core/loop/dial.h"
#include "core/loop/resolver_internal.h"
#include "tests/core/loop/fake_dns.h"

#define LISTENERS_MAX 32

struct fixture {
  struct tmesh_loop loop;
  struct fake_dns dns;
  struct tmesh_resolver* resolver;
  int fds[LISTENERS_MAX * 2]; /* closed at the end */
  int fd_count;
  uint16_t port; /* of the first listener; the others take the same */
};

struct outcome {
  struct tmesh_dial_result result;
  bool is_done;
  bool is_in_start;
  unsigned done_count;
  char denied[4][64];
  unsigned filter_count;
  bool was_name;
};

/* Descriptors of this process. */
unsigned open_fd_count(void);
/* A loop, a fake name server and a resolver that asks it. */
int dial_set_up(void** state);
/* Proves of every test that no handle leaked. */
int dial_tear_down(void** state);
/* A port nobody listens on and nobody else gets. Closed at the end, as all below. */
int bind_only(struct fixture* f, const char* ip);
/* A listener. All addresses of one test share one port. */
int live(struct fixture* f, const char* ip);
/* An address whose SYNs are dropped: a listener with a full backlog. */
void black_hole(struct fixture* f, const char* ip);
/* Stores the result in a struct outcome. */
void on_done(void* ctx, const struct tmesh_dial_result* result);
struct tmesh_dial* begin(struct fixture* f, const char* host, unsigned timeout_ms, unsigned connect_ms,
                         struct outcome* o);
/* Begins, and runs until done. */
void dial(struct fixture* f, const char* host, unsigned timeout_ms, unsigned connect_ms, struct outcome* o);
/* And closes the descriptor. */
void assert_connected_to(const struct outcome* o, const char* ip);
void assert_failed(const struct outcome* o, enum tmesh_code code, enum tmesh_dial_phase phase);
/* What the name server says. */
void names(struct fixture* f, const char* name, const char* v4, const char* v6);

#define T(name) cmocka_unit_test_setup_teardown(name, dial_set_up, dial_tear_down)

#endif
