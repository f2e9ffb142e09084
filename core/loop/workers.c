#include "core/loop/workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "core/base/check.h"
#include "core/loop/closing.h"

#define THREADS_MAX 256u

enum job_phase { JOB_IDLE = 0, JOB_WAITING, JOB_RUNNING, JOB_ENDED };

struct tmesh_workers {
  struct tmesh_loop* loop;
  struct tmesh_closing closing;
  uv_async_t wake; /* a job ended */
  size_t pending_max;
  size_t out_count; /* jobs submitted and neither done nor dropped; loop thread only */
  unsigned threads_max, thread_count;
  bool ends_idle_threads;
  pthread_t threads[THREADS_MAX];

  pthread_mutex_t lock; /* of what follows, and of phase and is_cancelled of every job */
  pthread_cond_t has_work;
  struct tmesh_list waiting;
  struct tmesh_list ended;
  size_t waiting_count;
  unsigned live_count; /* threads that have not ended */
  bool is_stopping;
  bool is_left;       /* nobody waits for the threads; the last to go frees this */
  bool has_left_loop; /* and the handle is closed */
};

static void destroy(struct tmesh_workers* w) {
  (void)pthread_cond_destroy(&w->has_work);
  (void)pthread_mutex_destroy(&w->lock);
  free(w);
}

/* --- worker threads -------------------------------------------------------------- */

/* The next job, or NULL when it is time to end. */
static struct tmesh_job* take_job(struct tmesh_workers* w) {
  struct tmesh_job* job = NULL;

  pthread_mutex_lock(&w->lock);
  while (tmesh_list_empty(&w->waiting) && !w->is_stopping) pthread_cond_wait(&w->has_work, &w->lock);
  if (!tmesh_list_empty(&w->waiting)) {
    job = TMESH_CONTAINER(w->waiting.next, struct tmesh_job, node);
    tmesh_list_remove(&job->node);
    w->waiting_count--;
    job->phase = JOB_RUNNING;
  }
  pthread_mutex_unlock(&w->lock);
  return job;
}

static void* run_thread(void* arg) {
  struct tmesh_workers* w = arg;
  struct tmesh_job* job;

  while ((job = take_job(w)) != NULL) {
    job->work(job);
    pthread_mutex_lock(&w->lock);
    const bool is_left = w->is_left;
    if (!is_left) {
      job->phase = JOB_ENDED;
      tmesh_list_push_back(&w->ended, &job->node);
      /* Under the lock: whoever leaves closes the handle next. */
      (void)uv_async_send(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
    if (is_left) job->dropped(job);
  }
  pthread_mutex_lock(&w->lock);
  w->live_count--;
  const bool is_last = w->live_count == 0 && w->has_left_loop;
  pthread_mutex_unlock(&w->lock);
  if (is_last) destroy(w);
  return NULL;
}

static bool start_threads(struct tmesh_workers* w) {
  const unsigned count = w->threads_max;
  pthread_attr_t attr;
  sigset_t all, before;

  if (pthread_attr_init(&attr) != 0) return false;
  (void)pthread_attr_setstacksize(&attr, TMESH_WORKER_STACK_BYTES);
  /* Signals belong to the loop thread. */
  sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  w->is_stopping = false;
  w->live_count = count; /* before they can end */
  while (w->thread_count < count && pthread_create(&w->threads[w->thread_count], &attr, run_thread, w) == 0) {
    w->thread_count++;
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attr);
  return w->thread_count == count;
}

static void stop_threads(struct tmesh_workers* w) {
  pthread_mutex_lock(&w->lock);
  w->is_stopping = true;
  pthread_cond_broadcast(&w->has_work);
  pthread_mutex_unlock(&w->lock);
  for (unsigned i = 0; i < w->thread_count; i++) (void)pthread_join(w->threads[i], NULL);
  w->thread_count = 0;
  w->live_count = 0; /* those that could not be made among them */
}

/* --- loop thread ------------------------------------------------------------------- */

static void rest(struct tmesh_workers* w) {
  if (w->ends_idle_threads && w->out_count == 0 && !w->closing.is_begun) stop_threads(w);
}

static void job_out(struct tmesh_workers* w) {
  if (w->out_count++ == 0) uv_ref((uv_handle_t*)&w->wake);
}

static void job_back(struct tmesh_workers* w) {
  TMESH_ASSERT(w->out_count > 0);
  if (--w->out_count == 0) uv_unref((uv_handle_t*)&w->wake);
}

static void drop(struct tmesh_workers* w, struct tmesh_job* job) {
  job_back(w);
  job->dropped(job);
}

/* One ended job at a time: done may cancel the next one. */
static struct tmesh_job* take_ended(struct tmesh_workers* w, bool* is_cancelled) {
  struct tmesh_job* job = NULL;

  pthread_mutex_lock(&w->lock);
  if (!tmesh_list_empty(&w->ended)) {
    job = TMESH_CONTAINER(w->ended.next, struct tmesh_job, node);
    tmesh_list_remove(&job->node);
    job->phase = JOB_IDLE;
    *is_cancelled = job->is_cancelled;
  }
  pthread_mutex_unlock(&w->lock);
  return job;
}

static void on_wake(uv_async_t* wake) {
  struct tmesh_workers* w = wake->data;
  struct tmesh_job* job;
  bool is_cancelled = false;

  /* done may call tmesh_workers_free(), which takes the rest. */
  while (!w->closing.is_begun && (job = take_ended(w, &is_cancelled)) != NULL) {
    if (is_cancelled) {
      drop(w, job);
    } else {
      job_back(w);
      job->done(job);
    }
  }
  rest(w);
}

static void on_closed(struct tmesh_closing* closing) {
  struct tmesh_workers* w = TMESH_CONTAINER(closing, struct tmesh_workers, closing);
  bool is_last = true;

  if (w->is_left) {
    pthread_mutex_lock(&w->lock);
    w->has_left_loop = true;
    is_last = w->live_count == 0;
    pthread_mutex_unlock(&w->lock);
  }
  if (is_last) destroy(w);
}

struct tmesh_workers* tmesh_workers_new(struct tmesh_loop* loop, unsigned threads, size_t pending_max) {
  struct tmesh_workers* w;

  TMESH_ASSERT(threads >= 1 && threads <= THREADS_MAX && pending_max >= 1);
  w = calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  w->loop = loop;
  w->threads_max = threads;
  w->pending_max = pending_max;
  tmesh_list_init(&w->waiting);
  tmesh_list_init(&w->ended);
  if (uv_async_init(&loop->uv, &w->wake, on_wake) != 0) {
    free(w);
    return NULL;
  }
  w->wake.data = w;
  uv_unref((uv_handle_t*)&w->wake);
  /* With default attributes neither of the two can fail. */
  (void)pthread_mutex_init(&w->lock, NULL);
  (void)pthread_cond_init(&w->has_work, NULL);
  if (!start_threads(w)) {
    tmesh_workers_free(w);
    return NULL;
  }
  return w;
}

void tmesh_workers_end_idle_threads(struct tmesh_workers* w) {
  w->ends_idle_threads = true;
  rest(w);
}

struct tmesh_status tmesh_workers_submit(struct tmesh_workers* w, struct tmesh_job* job) {
  bool is_full;

  TMESH_ASSERT(!w->closing.is_begun);
  if (w->thread_count == 0 && !start_threads(w)) {
    stop_threads(w);
    return tmesh_err_stream(TMESH_E_NO_MEMORY);
  }
  pthread_mutex_lock(&w->lock);
  is_full = w->waiting_count >= w->pending_max;
  if (!is_full) {
    job->phase = JOB_WAITING;
    job->is_cancelled = false;
    tmesh_list_push_back(&w->waiting, &job->node);
    w->waiting_count++;
    pthread_cond_signal(&w->has_work);
  }
  pthread_mutex_unlock(&w->lock);
  if (is_full) return tmesh_err_stream(TMESH_E_LIMIT);
  job_out(w);
  return tmesh_ok();
}

void tmesh_workers_cancel(struct tmesh_workers* w, struct tmesh_job* job) {
  bool was_waiting;

  pthread_mutex_lock(&w->lock);
  TMESH_ASSERT(job->phase != JOB_IDLE);
  was_waiting = job->phase == JOB_WAITING;
  if (was_waiting) {
    tmesh_list_remove(&job->node);
    w->waiting_count--;
    job->phase = JOB_IDLE;
  }
  job->is_cancelled = true;
  pthread_mutex_unlock(&w->lock);
  if (was_waiting) drop(w, job);
}

static struct tmesh_job* take_waiting(struct tmesh_workers* w) {
  struct tmesh_job* job = NULL;

  pthread_mutex_lock(&w->lock);
  if (!tmesh_list_empty(&w->waiting)) {
    job = TMESH_CONTAINER(w->waiting.next, struct tmesh_job, node);
    tmesh_list_remove(&job->node);
    w->waiting_count--;
    job->phase = JOB_IDLE;
  }
  pthread_mutex_unlock(&w->lock);
  return job;
}

void tmesh_workers_leave(struct tmesh_workers* w) {
  struct tmesh_job* job;
  bool is_cancelled;

  tmesh_closing_begin(&w->closing, w->loop, on_closed);
  while ((job = take_waiting(w)) != NULL) drop(w, job);
  pthread_mutex_lock(&w->lock);
  w->is_left = true;
  w->is_stopping = true;
  pthread_cond_broadcast(&w->has_work);
  pthread_mutex_unlock(&w->lock);
  for (unsigned i = 0; i < w->thread_count; i++) (void)pthread_detach(w->threads[i]);
  while ((job = take_ended(w, &is_cancelled)) != NULL) drop(w, job);
  tmesh_closing_handle(&w->closing, (uv_handle_t*)&w->wake);
}

void tmesh_workers_free(struct tmesh_workers* w) {
  struct tmesh_job* job;
  bool is_cancelled;

  tmesh_closing_begin(&w->closing, w->loop, on_closed);
  while ((job = take_waiting(w)) != NULL) drop(w, job);
  stop_threads(w);
  while ((job = take_ended(w, &is_cancelled)) != NULL) drop(w, job);
  TMESH_ASSERT(w->out_count == 0);
  tmesh_closing_handle(&w->closing, (uv_handle_t*)&w->wake);
}
