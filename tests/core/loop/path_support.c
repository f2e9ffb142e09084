#include "tests/core/loop/path_support.h"

#include <string.h>
#include <unistd.h>

#include "tests/core/wire/tls_fixture.h"

struct test_path path;

static void on_readable(void* ctx) {
  struct half* h = ctx;
  if (h->is_spliced) tmesh_splice_readable(&h->splice, 0);
}

static void on_eof(void* ctx) {
  struct half* h = ctx;
  if (h->is_spliced) tmesh_splice_eof(&h->splice, 0);
}

static void on_written(void* ctx, size_t n, bool all_written) {
  tmesh_splice_written(&((struct half*)ctx)->splice, 0, n, all_written);
}

static void on_broken(void* ctx, struct tmesh_status why) {
  tmesh_splice_broken(&((struct half*)ctx)->splice, 0, why);
}

static void on_tcp_closed(void* ctx) {
  ((struct half*)ctx)->is_tcp_closed = true;
}

static const struct tmesh_tcp_events tcp_events = {on_readable, on_eof, on_written, on_broken, on_tcp_closed};

static void on_done(void* ctx, struct tmesh_splice* splice, struct tmesh_status why, int broken) {
  struct half* h = ctx;
  (void)splice;
  h->done_count++;
  h->why = why;
  h->broken = broken;
  tmesh_tcp_close(&h->tcp, tmesh_is_ok(why));
  tmesh_stream_release(h->stream);
  h->stream = NULL;
}

static void splice_them(struct half* h) {
  tmesh_splice_init(&h->splice, tmesh_tcp_end(&h->tcp), tmesh_stream_end(h->stream), h, on_done);
  h->is_spliced = true;
  tmesh_tcp_read(&h->tcp, TMESH_BLOCK_BYTES);
  tmesh_splice_start(&h->splice);
}

static void on_stream_event(void* user, struct tmesh_stream* s, unsigned events) {
  struct half* h = user;
  if (!h->is_spliced && (events & TMESH_STREAM_EV_RESULT) != 0) {
    assert_true(s->result.accepted);
    splice_them(h);
  }
  if (h->is_spliced) tmesh_splice_stream_event(&h->splice, 1, s, events);
}

static void open_tcp(struct half* h) {
  int fds[2];
  memset(h, 0, sizeof *h);
  test_tcp_pair(fds);
  h->peer = fds[1];
  assert_true(tmesh_is_ok(tmesh_tcp_open(&h->tcp, &test_loop, fds[0], &tcp_events, h)));
}

/* The agent: the target is there, so it is installed and then the open is answered. */
static void on_stream(void* ctx, struct tmesh_stream* s) {
  struct half* h = ctx;
  const struct tmesh_open_result ok = tmesh_open_accept();
  h->stream = s;
  tmesh_stream_attach(s, h, on_stream_event);
  splice_them(h);
  tmesh_stream_answer(s, &ok);
}

void path_open(int fds[2], struct tls_configs* tls) {
  test_link_start(&path.a, fds[0], true, tls == NULL ? NULL : tls->client, TLS_NAME);
  test_link_start(&path.b, fds[1], false, tls == NULL ? NULL : tls->server, NULL);
  RUN_UNTIL(path.a.is_ready && path.b.is_ready);
  test_link_take(&path.a, true, NULL, 0);
  test_link_take(&path.b, false, NULL, 0);
  open_tcp(&path.entry);
  open_tcp(&path.target);
  path.b.on_stream = on_stream;
  path.b.ctx = &path.target;
  tmesh_tcp_read(&path.entry.tcp, 16384); /* while opening */
  path.entry.stream = test_link_stream(&path.a);
  tmesh_stream_attach(path.entry.stream, &path.entry, on_stream_event);
}

void path_close_links(void) {
  tmesh_link_close(&path.a.link);
  test_link_closed(&path.a);
  test_link_closed(&path.b);
}

void path_close_peers(void) {
  close(path.entry.peer);
  close(path.target.peer);
}

void path_expect_regular_end(void) {
  RUN_UNTIL(path.entry.is_tcp_closed && path.target.is_tcp_closed);
  assert_int_equal(path.entry.done_count, 1);
  assert_int_equal(path.target.done_count, 1);
  assert_true(tmesh_is_ok(path.entry.why) && tmesh_is_ok(path.target.why));
  path_close_peers();
}
