/* core/loop/workers: bounds, cancelling at each stage, and the end; its threads are in worker_threads.c. */
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>

#include "workers_support.h"

static unsigned order_count;

void work(struct tmesh_job* job) {
  struct test_job* t = TMESH_CONTAINER(job, struct test_job, job);
  sigset_t set;
  t->worked_on = pthread_self();
  t->worked_count++;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  t->has_signals_blocked = sigismember(&set, SIGTERM) == 1;
  if (!t->is_held) return;
  sem_post(&t->started);
  sem_wait(&t->go);
}

void done(struct tmesh_job* job) {
  struct test_job* t = TMESH_CONTAINER(job, struct test_job, job);
  t->done_on = pthread_self();
  t->done_count++;
  t->order = ++order_count;
}

static void dropped(struct tmesh_job* job) {
  TMESH_CONTAINER(job, struct test_job, job)->dropped_count++;
}

void init_job(struct test_job* t, bool is_held) {
  *t = (struct test_job){.is_held = is_held};
  t->job.work = work;
  t->job.done = done;
  t->job.dropped = dropped;
  sem_init(&t->started, 0, 0);
  sem_init(&t->go, 0, 0);
}

struct tmesh_workers* make(unsigned threads, size_t pending_max) {
  struct tmesh_workers* w = tmesh_workers_new(&test_loop, threads, pending_max);
  assert_non_null(w);
  return w;
}

void submit(struct tmesh_workers* w, struct test_job* t) {
  assert_true(tmesh_is_ok(tmesh_workers_submit(w, &t->job)));
}

static void work_runs_on_a_thread_and_done_on_the_loop(void** state) {
  (void)state;
  struct tmesh_workers* w = make(2, 4);
  struct test_job t;
  init_job(&t, false);
  submit(w, &t);
  assert_int_equal(t.done_count, 0);
  tmesh_loop_run(&test_loop); /* a job keeps the loop alive, idle threads do not */
  assert_int_equal(t.worked_count, 1);
  assert_int_equal(t.done_count, 1);
  assert_int_equal(t.dropped_count, 0);
  assert_true(pthread_equal(t.done_on, pthread_self()));
  assert_false(pthread_equal(t.worked_on, pthread_self()));
  assert_true(t.has_signals_blocked);
  tmesh_workers_free(w);
}

static void waiting_jobs_are_bounded_and_start_in_order(void** state) {
  (void)state;
  struct tmesh_workers* w = make(1, 2);
  struct test_job held, a, b, c;
  order_count = 0;
  init_job(&held, true), init_job(&a, false), init_job(&b, false), init_job(&c, false);
  submit(w, &held);
  sem_wait(&held.started);
  submit(w, &a);
  submit(w, &b);
  struct tmesh_status st = tmesh_workers_submit(w, &c.job);
  assert_int_equal(st.code, TMESH_E_LIMIT);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
  sem_post(&held.go);
  RUN_UNTIL(b.done_count == 1);
  assert_int_equal(held.order, 1);
  assert_int_equal(a.order, 2);
  assert_int_equal(b.order, 3);
  submit(w, &c); /* there is room again, and the refused job was untouched */
  RUN_UNTIL(c.done_count == 1);
  tmesh_workers_free(w);
}

static void cancelling_a_waiting_job_drops_it_at_once(void** state) {
  (void)state;
  struct tmesh_workers* w = make(1, 2);
  struct test_job held, a;
  init_job(&held, true), init_job(&a, false);
  submit(w, &held);
  sem_wait(&held.started);
  submit(w, &a);
  tmesh_workers_cancel(w, &a.job);
  assert_int_equal(a.dropped_count, 1);
  sem_post(&held.go);
  RUN_UNTIL(held.done_count == 1);
  assert_int_equal(a.worked_count + a.done_count, 0);
  tmesh_workers_free(w);
}

static void a_dropped_job_may_be_submitted_again(void** state) {
  (void)state;
  struct tmesh_workers* w = make(1, 2);
  struct test_job t;
  init_job(&t, true);
  submit(w, &t);
  sem_wait(&t.started);
  tmesh_workers_cancel(w, &t.job);
  sem_post(&t.go);
  RUN_UNTIL(t.dropped_count == 1);
  t.is_held = false;
  submit(w, &t);
  RUN_UNTIL(t.done_count + t.dropped_count == 2);
  assert_int_equal(t.done_count, 1);
  tmesh_workers_free(w);
}

static void a_cancelled_running_job_keeps_its_slot_until_it_ended(void** state) {
  (void)state;
  struct tmesh_workers* w = make(1, 1);
  struct test_job held, a, b;
  init_job(&held, true), init_job(&a, false), init_job(&b, false);
  submit(w, &held);
  sem_wait(&held.started);
  tmesh_workers_cancel(w, &held.job);
  assert_int_equal(held.dropped_count, 0);
  submit(w, &a);
  assert_int_equal(tmesh_workers_submit(w, &b.job).code, TMESH_E_LIMIT);
  sem_post(&held.go);
  RUN_UNTIL(held.dropped_count == 1 && a.done_count == 1);
  assert_int_equal(held.done_count, 0);
  tmesh_workers_free(w);
}

static struct tmesh_workers* cancel_in;
static struct test_job* cancel_what;

static void done_and_cancel(struct tmesh_job* job) {
  done(job);
  tmesh_workers_cancel(cancel_in, &cancel_what->job);
}

static void a_job_that_ended_can_still_be_cancelled(void** state) {
  (void)state;
  struct tmesh_workers* w = make(1, 4);
  struct test_job a, b;
  init_job(&a, false), init_job(&b, true);
  a.job.done = done_and_cancel;
  cancel_in = w;
  cancel_what = &b;
  submit(w, &a);
  submit(w, &b);
  sem_wait(&b.started); /* so a ended, and nobody saw it yet */
  sem_post(&b.go);
  RUN_UNTIL(a.done_count == 1 && b.dropped_count == 1);
  assert_int_equal(b.done_count, 0);
  tmesh_workers_free(w);
}

static struct test_job* released_by_drop;

static void drop_and_release(struct tmesh_job* job) {
  dropped(job);
  sem_post(&released_by_drop->go);
}

static void free_waits_for_running_jobs_and_drops_all(void** state) {
  (void)state;
  struct tmesh_workers* w = make(1, 4);
  struct test_job held, waiting;
  init_job(&held, true), init_job(&waiting, false);
  submit(w, &held);
  sem_wait(&held.started);
  submit(w, &waiting);
  /* Free drops what waits first; only then can the running job end. */
  released_by_drop = &held;
  waiting.job.dropped = drop_and_release;
  tmesh_workers_free(w);
  assert_int_equal(held.worked_count, 1);
  assert_int_equal(held.dropped_count, 1);
  assert_int_equal(waiting.dropped_count, 1);
  assert_int_equal(waiting.worked_count, 0);
  assert_int_equal(held.done_count + waiting.done_count, 0);
}

static void done_and_free(struct tmesh_job* job) {
  done(job);
  tmesh_workers_free(cancel_in);
}

static void done_may_free_the_pool(void** state) {
  (void)state;
  struct tmesh_workers* w = make(2, 4);
  struct test_job a, b;
  init_job(&a, false), init_job(&b, false);
  a.job.done = done_and_free;
  cancel_in = w;
  submit(w, &a);
  submit(w, &b);
  RUN_UNTIL(a.done_count == 1);
  assert_int_equal(b.done_count + b.dropped_count, 1);
}

static sem_t has_dropped;

static void drop_and_post(struct tmesh_job* job) {
  dropped(job);
  sem_post(&has_dropped);
}

static void leaving_waits_for_nobody_and_the_thread_drops_its_job(void** state) {
  struct tmesh_workers* w = make(1, 4);
  struct test_job running, waiting, ended;
  init_job(&ended, false);
  init_job(&running, true);
  init_job(&waiting, false);
  sem_init(&has_dropped, 0, 0);
  running.job.dropped = drop_and_post;
  submit(w, &ended);
  submit(w, &running);
  submit(w, &waiting);
  sem_wait(&running.started);
  tmesh_workers_leave(w);
  assert_int_equal(ended.dropped_count + waiting.dropped_count, 2);
  assert_int_equal(running.dropped_count, 0);
  assert_int_equal(test_loop_close(state), 0); /* the loop closes clean while it runs */
  sem_post(&running.go);
  sem_wait(&has_dropped);
  assert_int_equal(running.dropped_count, 1);
  assert_int_equal(ended.done_count + running.done_count + waiting.done_count, 0);
  assert_int_equal(test_loop_open(state), 0);
}

static void many_jobs_all_come_back(void** state) {
  (void)state;
  enum { COUNT = 500 };
  struct tmesh_workers* w = make(4, COUNT);
  struct test_job* jobs = calloc(COUNT, sizeof *jobs);
  for (int i = 0; i < COUNT; i++) {
    init_job(&jobs[i], false);
    submit(w, &jobs[i]);
    if (i % 3 == 0) tmesh_workers_cancel(w, &jobs[i].job);
  }
  tmesh_loop_run(&test_loop);
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(jobs[i].done_count + jobs[i].dropped_count, 1);
    assert_int_equal(jobs[i].dropped_count, i % 3 == 0);
  }
  free(jobs);
  tmesh_workers_free(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(work_runs_on_a_thread_and_done_on_the_loop),
      LOOP_TEST(waiting_jobs_are_bounded_and_start_in_order),
      LOOP_TEST(cancelling_a_waiting_job_drops_it_at_once),
      LOOP_TEST(a_dropped_job_may_be_submitted_again),
      LOOP_TEST(a_cancelled_running_job_keeps_its_slot_until_it_ended),
      LOOP_TEST(a_job_that_ended_can_still_be_cancelled),
      LOOP_TEST(free_waits_for_running_jobs_and_drops_all),
      LOOP_TEST(done_may_free_the_pool),
      LOOP_TEST(leaving_waits_for_nobody_and_the_thread_drops_its_job),
      LOOP_TEST(many_jobs_all_come_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) + test_worker_threads();
}
