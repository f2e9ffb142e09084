/* Jobs that note what became of them, and may be held while they run. */
#ifndef TMESH_TESTS_WORKERS_SUPPORT_H
#define TMESH_TESTS_WORKERS_SUPPORT_H

#include <pthread.h>
#include <semaphore.h>

#include "core/loop/workers.h"
#include "tests/core/loop/loop_support.h"

struct test_job {
  struct tmesh_job job;
  sem_t started, go; /* a job may be held while it runs */
  bool is_held, has_signals_blocked;
  pthread_t worked_on, done_on;
  unsigned worked_count, done_count, dropped_count, order;
};

/* What a job of init_job() does. */
void work(struct tmesh_job* job);
void done(struct tmesh_job* job);
void init_job(struct test_job* t, bool is_held);

/* A pool that could be made; a job that was taken. */
struct tmesh_workers* make(unsigned threads, size_t pending_max);
void submit(struct tmesh_workers* w, struct test_job* t);

/* The tests of worker_threads.c; how many failed. */
int test_worker_threads(void);

#endif
