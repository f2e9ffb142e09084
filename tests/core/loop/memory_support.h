/* A loop with a small budget of blocks, and what uses them up. */
#ifndef TMESH_TESTS_MEMORY_SUPPORT_H
#define TMESH_TESTS_MEMORY_SUPPORT_H

#include "core/loop/memory.h"
#include "tests/core/loop/link_support.h"
#include "tests/core/loop/tcp_support.h"

#define BLOCK ((size_t)TMESH_BLOCK_BYTES)
#define BUDGET_BLOCKS ((size_t)64)
#define SOCKET_LIMIT (BUDGET_BLOCKS - BUDGET_BLOCKS / 8)

int open_small(void** state);
#define MEMORY_TEST(f) cmocka_unit_test_setup_teardown(f, open_small, test_loop_close)

/* Takes blocks until this many are live; gives those back until this many are. */
void fill_pool(size_t live_count);
void empty_pool(size_t keep_count);

void wait_us(uint64_t us);

enum { SOCKS = 3 };
extern struct sock socks[SOCKS];
extern int peers[SOCKS];
void open_socks(void);
void close_socks(void);
/* Fills the way out of the socket until a write waits for the kernel. */
void stall_writer(struct sock* s);

/* The tests of memory_streams.c; how many failed. */
int test_memory_streams(void);

#endif
