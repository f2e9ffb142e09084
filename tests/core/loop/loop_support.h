/* What the tests of core/loop share: a loop per test that must close clean, running
 * it until something happened (with a limit on real time), socket pairs over TCP, and
 * a peer that is driven with plain calls. */
#ifndef TMESH_TESTS_LOOP_SUPPORT_H
#define TMESH_TESTS_LOOP_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "core/loop/loop.h"

/* The loop of the running test. */
extern struct tmesh_loop test_loop;
/* CMocka setup and teardown: the teardown fails when anything leaked. */
int test_loop_open(void** state);
int test_loop_close(void** state);
#define LOOP_TEST(f) cmocka_unit_test_setup_teardown(f, test_loop_open, test_loop_close)

/* One iteration; wakes up at least every 2 ms so that conditions on plain sockets are
 * seen. Fails the test 20 s after the RUN_UNTIL began. */
void test_loop_begin(const char* what);
void test_loop_step(void);
void test_loop_end(void);
#define RUN_UNTIL(condition)               \
  do {                                     \
    test_loop_begin(#condition);           \
    while (!(condition)) test_loop_step(); \
    test_loop_end();                       \
  } while (0)
/* A bounded number of iterations, for "nothing more happens". */
void test_loop_spin(unsigned iterations);

/* A connected TCP pair on loopback, both ends non-blocking. */
void test_tcp_pair(int fds[2]);
/* A connected local stream pair, both ends non-blocking. */
void test_unix_pair(int fds[2]);
/* A socket that listens on 127.0.0.1; its port. */
int test_listen(uint16_t* port);
/* A non-blocking connection to 127.0.0.1, already established. */
int test_connect(uint16_t port);

/* Reads what waits: bytes appended to buf, *len moves. Returns 1 while open, 0 after
 * EOF, -errno after an error. */
int test_recv(int fd, uint8_t* buf, size_t cap, size_t* len);
/* Writes as much as the kernel takes; returns how much (0 = full). */
size_t test_send(int fd, const void* data, size_t n);
/* Writes all of a small piece. */
void test_send_all(int fd, const void* data, size_t n);
/* Makes the close of this plain descriptor an RST. */
void test_close_reset(int fd);

/* A reproducible stream of bytes: byte i depends on seed and i only. */
uint8_t test_byte(uint32_t seed, uint64_t i);
void test_fill(uint32_t seed, uint64_t at, uint8_t* out, size_t n);
/* Fails unless data is what test_fill makes. */
void test_match(uint32_t seed, uint64_t at, const uint8_t* data, size_t n);

#endif
