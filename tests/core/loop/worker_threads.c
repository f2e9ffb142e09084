/* core/loop/workers: its threads, which may end and come back, or cannot be made. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "workers_support.h"

static unsigned threads_left = UINT_MAX; /* how many more can be made */

int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*run)(void*), void* arg);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*run)(void*), void* arg);

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*run)(void*), void* arg) {
  if (threads_left == 0) return EAGAIN;
  if (threads_left != UINT_MAX) threads_left--;
  return __real_pthread_create(thread, attr, run, arg);
}

static void leaving_idle_threads_ends_them(void** state) {
  (void)state;
  for (int i = 0; i < 20; i++) tmesh_workers_leave(make(4, 1));
}

static pthread_key_t thread_key;
static unsigned ended_threads_count;

static void note_end(void* value) {
  (void)value;
  ended_threads_count++;
}

static void work_on_a_noted_thread(struct tmesh_job* job) {
  pthread_setspecific(thread_key, job); /* note_end is called when this thread ends */
  work(job);
}

static void idle_threads_may_end_and_come_back(void** state) {
  (void)state;
  struct tmesh_workers* w = make(1, 4);
  ended_threads_count = 0;
  assert_int_equal(pthread_key_create(&thread_key, note_end), 0);
  tmesh_workers_end_idle_threads(w); /* at once, without a job */
  for (unsigned i = 1; i <= 3; i++) {
    struct test_job held, cancelled;
    init_job(&held, true);
    init_job(&cancelled, false);
    held.job.work = work_on_a_noted_thread;
    submit(w, &held);
    submit(w, &cancelled);
    sem_wait(&held.started);
    if (i == 3) tmesh_workers_cancel(w, &held.job);
    tmesh_workers_cancel(w, &cancelled.job);
    sem_post(&held.go);
    tmesh_loop_run(&test_loop);
    assert_int_equal(held.done_count, i == 3 ? 0 : 1);
    assert_int_equal(held.dropped_count, i == 3 ? 1 : 0);
    assert_int_equal(ended_threads_count, i);
  }
  tmesh_workers_free(w);
  test_loop_spin(2);
  pthread_key_delete(thread_key);
}

/* Each starts beside the ones that are held: no thread has ended for want of work meanwhile. */
static void threads_that_came_back_stay_while_a_job_is_out(void** state) {
  (void)state;
  enum { THREADS = 8, ROUNDS = 5 };
  struct tmesh_workers* w = make(THREADS, THREADS);
  struct test_job jobs[THREADS];
  tmesh_workers_end_idle_threads(w);
  for (unsigned round = 0; round < ROUNDS; round++) {
    for (unsigned i = 0; i < THREADS; i++) {
      init_job(&jobs[i], true);
      submit(w, &jobs[i]);
      sem_wait(&jobs[i].started);
    }
    for (unsigned i = 0; i < THREADS; i++) sem_post(&jobs[i].go);
    tmesh_loop_run(&test_loop);
    for (unsigned i = 0; i < THREADS; i++) assert_int_equal(jobs[i].done_count, 1);
  }
  tmesh_workers_free(w);
  test_loop_spin(2);
}

static void threads_that_cannot_be_made_again_refuse_the_job_and_no_other(void** state) {
  (void)state;
  struct tmesh_workers* w = make(3, 4);
  struct test_job held, beside;
  init_job(&held, true), init_job(&beside, false);
  tmesh_workers_end_idle_threads(w);
  threads_left = 1;
  struct tmesh_status st = tmesh_workers_submit(w, &held.job);
  assert_int_equal(st.code, TMESH_E_NO_MEMORY);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
  threads_left = UINT_MAX;
  submit(w, &held);
  sem_wait(&held.started);
  submit(w, &beside); /* all three are there, not the one that could be made */
  RUN_UNTIL(beside.done_count == 1);
  sem_post(&held.go);
  tmesh_loop_run(&test_loop);
  assert_int_equal(held.done_count, 1);
  threads_left = 1;
  assert_int_equal(tmesh_workers_submit(w, &held.job).code, TMESH_E_NO_MEMORY);
  tmesh_workers_leave(w); /* freed: it waits for no thread */
  threads_left = 1;
  assert_null(tmesh_workers_new(&test_loop, 3, 4));
  threads_left = UINT_MAX;
  test_loop_spin(2);
}

static struct tmesh_workers* left_in_done;

static void done_and_leave(struct tmesh_job* job) {
  done(job);
  tmesh_workers_leave(left_in_done);
}

static void done_may_leave_a_pool_whose_idle_threads_end(void** state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    struct test_job t;
    init_job(&t, false);
    t.job.done = done_and_leave;
    left_in_done = make(4, 1);
    tmesh_workers_end_idle_threads(left_in_done);
    submit(left_in_done, &t);
    RUN_UNTIL(t.done_count == 1);
  }
}

static void threads_stay_unless_told_otherwise(void** state) {
  (void)state;
  struct tmesh_workers* w = make(1, 4);
  struct test_job t;
  ended_threads_count = 0;
  assert_int_equal(pthread_key_create(&thread_key, note_end), 0);
  init_job(&t, false);
  t.job.work = work_on_a_noted_thread;
  submit(w, &t);
  tmesh_loop_run(&test_loop);
  assert_int_equal(ended_threads_count, 0);
  tmesh_workers_free(w);
  assert_int_equal(ended_threads_count, 1);
  test_loop_spin(2);
  pthread_key_delete(thread_key);
}

int test_worker_threads(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(leaving_idle_threads_ends_them),
      LOOP_TEST(idle_threads_may_end_and_come_back),
      LOOP_TEST(threads_that_came_back_stay_while_a_job_is_out),
      LOOP_TEST(threads_that_cannot_be_made_again_refuse_the_job_and_no_other),
      LOOP_TEST(done_may_leave_a_pool_whose_idle_threads_end),
      LOOP_TEST(threads_stay_unless_told_otherwise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
