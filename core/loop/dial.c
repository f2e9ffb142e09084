#include "core/loop/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/loop/dial_errno.h"

/* RFC 8305 section 8: Connection Attempt Delay and Resolution Delay. */
#define ATTEMPT_DELAY_US 250000u
#define RESOLUTION_DELAY_US 50000u
/* A name with many dead addresses must not hold a descriptor for each. */
#define ATTEMPTS_MAX 8u
#define NEVER_US UINT64_MAX

enum { V6 = 0, V4 = 1, FAMILY_COUNT = 2 };

struct waiting {
  struct tmesh_address items[TMESH_RESOLVE_ADDRESSES_MAX];
  size_t count, next;
};

struct attempt {
  struct tmesh_dial* dial;
  struct tmesh_list node; /* in dial->attempts until it ended */
  uv_poll_t poll;
  int fd;
  uint64_t deadline_us;
};

struct tmesh_dial {
  struct tmesh_loop* loop;
  struct tmesh_dial_params params; /* host is not kept */
  struct tmesh_resolve* query;     /* while a family is pending */
  struct tmesh_flush flush;        /* begins the race, judges deadlines, delivers the result */
  uv_timer_t timer;
  struct waiting waiting[FAMILY_COUNT]; /* allowed addresses not tried yet */
  struct tmesh_list attempts;           /* in flight */
  size_t attempt_count;
  size_t handle_count; /* uv handles not closed: the memory outlives them */
  uint64_t started_us, deadline_us;
  uint64_t resolved_us;      /* first address; 0 = none yet */
  uint64_t first_attempt_us; /* 0 = none yet */
  uint64_t next_attempt_us;
  uint64_t v4_held_until_us; /* resolution delay: IPv6 may still come */
  enum tmesh_code error;     /* most telling failure of an attempt so far */
  enum tmesh_code dns_error; /* of a family */
  struct tmesh_dial_result result;
  struct tmesh_address literal;
  uint8_t next_family; /* interleaving */
  bool is_name, has_literal, has_denied, is_finished, is_over;
};

static void on_timer(uv_timer_t* timer);

/* --- ends of handles ----------------------------------------------------------- */

static void handle_gone(struct tmesh_dial* d) {
  TMESH_ASSERT(d->handle_count > 0);
  if (--d->handle_count == 0) free(d);
}

static void on_timer_closed(uv_handle_t* handle) {
  handle_gone(handle->data);
}

static void on_attempt_closed(uv_handle_t* handle) {
  struct attempt* a = handle->data;
  struct tmesh_dial* d = a->dial;
  free(a);
  handle_gone(d);
}

/* Ends an attempt; returns its descriptor, which libuv no longer watches. */
static int attempt_end(struct attempt* a) {
  int fd = a->fd;
  a->fd = -1;
  tmesh_list_remove(&a->node);
  a->dial->attempt_count--;
  uv_close((uv_handle_t*)&a->poll, on_attempt_closed);
  return fd;
}

static void close_attempts(struct tmesh_dial* d) {
  struct tmesh_list* n;
  while ((n = tmesh_list_first(&d->attempts)) != NULL) {
    close(attempt_end(TMESH_CONTAINER(n, struct attempt, node)));
  }
}

/* Nothing of this dial runs any more but close callbacks. */
static void over(struct tmesh_dial* d) {
  d->is_over = true;
  tmesh_flush_cancel(&d->flush);
  if (d->query) tmesh_resolve_cancel(d->query);
  d->query = NULL;
  close_attempts(d);
  uv_close((uv_handle_t*)&d->timer, on_timer_closed);
}

static void finish(struct tmesh_dial* d, enum tmesh_code code, int fd) {
  uint64_t now_us = tmesh_loop_now_us(d->loop);
  uint64_t resolved_us = d->resolved_us ? d->resolved_us : now_us;
  d->is_finished = true;
  d->result.status = code == TMESH_OK ? tmesh_ok() : tmesh_err_stream(code);
  d->result.phase = d->resolved_us ? TMESH_DIAL_CONNECT : TMESH_DIAL_DNS;
  d->result.fd = fd;
  d->result.dns_us = resolved_us - d->started_us;
  d->result.connect_us = d->first_attempt_us ? now_us - d->first_attempt_us : 0;
  if (d->query) tmesh_resolve_cancel(d->query);
  d->query = NULL;
  close_attempts(d);
  uv_timer_stop(&d->timer);
  tmesh_loop_flush_request(d->loop, &d->flush);
}

/* --- attempts ------------------------------------------------------------------ */

static uint16_t port_of(const struct sockaddr_storage* name) {
  if (name->ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6*)name)->sin6_port);
  return ntohs(((const struct sockaddr_in*)name)->sin_port);
}

static void attempt_failed(struct tmesh_dial* d, enum tmesh_code code) {
  d->error = tmesh_dial_worse(d->error, code);
  d->next_attempt_us = 0; /* RFC 8305 5: a failure does not wait for the delay */
}

/* Connecting to a port of the ephemeral range on this machine may meet its own SYN
 * and "succeed" with nobody listening. */
static bool is_self_connected(int fd, uint16_t port) {
  struct sockaddr_storage local, remote;
  socklen_t local_len = sizeof local, remote_len = sizeof remote;
  memset(&local, 0, sizeof local);
  memset(&remote, 0, sizeof remote);
  if (getsockname(fd, (struct sockaddr*)&local, &local_len) != 0 || port_of(&local) != port) return false;
  return getpeername(fd, (struct sockaddr*)&remote, &remote_len) == 0 && local_len == remote_len &&
         memcmp(&local, &remote, local_len) == 0;
}

/* What became of a connect that is over; takes fd. */
static void attempt_over(struct tmesh_dial* d, int fd, int error) {
  if (error == 0 && is_self_connected(fd, d->params.port)) error = ECONNREFUSED;
  if (error == 0) {
    finish(d, TMESH_OK, fd);
    return;
  }
  close(fd);
  attempt_failed(d, (enum tmesh_code)tmesh_dial_status_of_errno(error).code);
}

static void attempt_ready(struct attempt* a) {
  struct tmesh_dial* d = a->dial;
  int error = 0;
  socklen_t len = sizeof error;
  if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
  attempt_over(d, attempt_end(a), error);
}

static void advance(struct tmesh_dial* d);

static void on_poll(uv_poll_t* poll, int status, int events) {
  (void)status; /* an error of the socket arrives as a bad status; SO_ERROR says which */
  (void)events;
  struct attempt* a = poll->data;
  struct tmesh_dial* d = a->dial;
  attempt_ready(a);
  advance(d);
}

static socklen_t sockaddr_of(const struct tmesh_address* address, uint16_t port,
                             struct sockaddr_storage* out) {
  memset(out, 0, sizeof *out);
  if (address->family == AF_INET) {
    struct sockaddr_in* in = (struct sockaddr_in*)out;
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    memcpy(&in->sin_addr, address->bytes, 4);
    return sizeof *in;
  }
  struct sockaddr_in6* in6 = (struct sockaddr_in6*)out;
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(port);
  memcpy(&in6->sin6_addr, address->bytes, 16);
  return sizeof *in6;
}

/* Watches a socket whose connect() is under way; takes fd over. */
static void attempt_watch(struct tmesh_dial* d, int fd, uint64_t now_us) {
  struct attempt* a = calloc(1, sizeof *a);
  if (!a || uv_poll_init(&d->loop->uv, &a->poll, fd) != 0) {
    free(a);
    close(fd);
    attempt_failed(d, TMESH_E_IO);
    return;
  }
  a->dial = d;
  a->fd = fd;
  a->poll.data = a;
  a->deadline_us =
      d->params.connect_timeout_ms ? now_us + (uint64_t)d->params.connect_timeout_ms * 1000 : NEVER_US;
  d->handle_count++;
  d->attempt_count++;
  d->next_attempt_us = now_us + ATTEMPT_DELAY_US;
  tmesh_list_push_back(&d->attempts, &a->node);
  if (uv_poll_start(&a->poll, UV_WRITABLE, on_poll) != 0) {
    close(attempt_end(a));
    attempt_failed(d, TMESH_E_IO);
  }
}

static void attempt_start(struct tmesh_dial* d, const struct tmesh_address* address, uint64_t now_us) {
  if (!d->first_attempt_us) d->first_attempt_us = now_us;
  const int type = d->params.is_datagram ? SOCK_DGRAM : SOCK_STREAM;
  int fd = socket(address->family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_storage to;
  socklen_t to_len = sockaddr_of(address, d->params.port, &to);
  if (fd < 0) {
    attempt_failed(d, (enum tmesh_code)tmesh_dial_status_of_errno(errno).code);
    return;
  }
  int error = connect(fd, (struct sockaddr*)&to, to_len) == 0 ? 0 : errno;
  /* Within this machine the handshake, or the refusal, is over when the call returns: asked
   * again the kernel says so, and the wait with its five system calls is spared. */
  if (error == EINPROGRESS) error = connect(fd, (struct sockaddr*)&to, to_len) == 0 ? 0 : errno;
  if (error == EALREADY || error == EINPROGRESS || error == EINTR) {
    attempt_watch(d, fd, now_us);
  } else {
    attempt_over(d, fd, error);
  }
}

static void expire_attempts(struct tmesh_dial* d, uint64_t now_us) {
  for (struct tmesh_list *n = d->attempts.next, *next; n != &d->attempts; n = next) {
    next = n->next;
    struct attempt* a = TMESH_CONTAINER(n, struct attempt, node);
    if (now_us < a->deadline_us && now_us < d->deadline_us) continue;
    close(attempt_end(a));
    attempt_failed(d, TMESH_E_TIMEOUT);
  }
}

/* --- the race ------------------------------------------------------------------ */

static bool has_waiting(const struct tmesh_dial* d, int family) {
  return d->waiting[family].next < d->waiting[family].count;
}

/* Takes the next address in interleaved order; NULL if none may be tried now. */
static const struct tmesh_address* next_address(struct tmesh_dial* d, uint64_t now_us) {
  int family = d->next_family;
  if (!has_waiting(d, family)) family = family == V6 ? V4 : V6;
  if (!has_waiting(d, family)) return NULL;
  if (family == V4 && now_us < d->v4_held_until_us) return NULL;
  d->next_family = family == V6 ? V4 : V6;
  return &d->waiting[family].items[d->waiting[family].next++];
}

static void start_attempts(struct tmesh_dial* d, uint64_t now_us) {
  while (!d->is_finished && d->attempt_count < ATTEMPTS_MAX && now_us >= d->next_attempt_us) {
    const struct tmesh_address* address = next_address(d, now_us);
    if (!address) return;
    attempt_start(d, address, now_us);
  }
}

static enum tmesh_code failure(const struct tmesh_dial* d) {
  if (d->first_attempt_us) return d->error;
  if (d->has_denied) return TMESH_E_POLICY;
  return d->dns_error == TMESH_E_NO_MEMORY ? TMESH_E_IO : d->dns_error;
}

static uint64_t min_us(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static void arm(struct tmesh_dial* d, uint64_t now_us) {
  uint64_t wake_us = d->deadline_us;
  for (struct tmesh_list* n = d->attempts.next; n != &d->attempts; n = n->next) {
    wake_us = min_us(wake_us, TMESH_CONTAINER(n, struct attempt, node)->deadline_us);
  }
  bool is_waiting = has_waiting(d, V6) || has_waiting(d, V4);
  if (is_waiting && d->attempt_count < ATTEMPTS_MAX) {
    uint64_t next_us = d->next_attempt_us;
    if (!has_waiting(d, V6) && d->v4_held_until_us > next_us) next_us = d->v4_held_until_us;
    wake_us = min_us(wake_us, next_us);
  }
  uint64_t wait_ms = wake_us > now_us ? (wake_us - now_us + 999) / 1000 : 0;
  uv_timer_start(&d->timer, on_timer, wait_ms, 0);
}

/* Everything that happened comes here; decides what is next. */
static void advance(struct tmesh_dial* d) {
  if (d->is_finished) return;
  uint64_t now_us = tmesh_loop_now_us(d->loop);
  expire_attempts(d, now_us);
  if (now_us >= d->deadline_us) {
    finish(d, tmesh_dial_worse(d->error, TMESH_E_TIMEOUT), -1);
    return;
  }
  start_attempts(d, now_us);
  if (d->is_finished) return;
  if (d->attempt_count == 0 && !d->query && !has_waiting(d, V6) && !has_waiting(d, V4)) {
    finish(d, failure(d), -1);
    return;
  }
  arm(d, now_us);
}

/* libuv runs timers before it polls: a connect that ended during a busy moment must be
 * seen before its deadline is judged. */
static void on_timer(uv_timer_t* timer) {
  struct tmesh_dial* d = timer->data;
  tmesh_loop_after_poll_request(d->loop, &d->flush);
}

static void add_address(struct tmesh_dial* d, const struct tmesh_address* address) {
  if (!d->resolved_us) d->resolved_us = tmesh_loop_now_us(d->loop);
  if (d->params.filter && !d->params.filter(d->params.ctx, address, d->is_name)) {
    d->has_denied = true;
    return;
  }
  struct waiting* w = &d->waiting[address->family == AF_INET6 ? V6 : V4];
  if (w->count < TMESH_RESOLVE_ADDRESSES_MAX) w->items[w->count++] = *address;
}

static void on_resolved(void* ctx, struct tmesh_status st, int family, const struct tmesh_address* addresses,
                        size_t count, bool is_last) {
  struct tmesh_dial* d = ctx;
  uint64_t now_us = tmesh_loop_now_us(d->loop);
  if (is_last) d->query = NULL;
  /* A definite "no such name" from one family says more than the other's silence. */
  if (!tmesh_is_ok(st) && d->dns_error != TMESH_E_DNS) d->dns_error = (enum tmesh_code)st.code;
  for (size_t i = 0; i < count; i++) add_address(d, &addresses[i]);
  if (family == AF_INET6) {
    d->v4_held_until_us = 0;
  } else if (!is_last) {
    d->v4_held_until_us = now_us + RESOLUTION_DELAY_US;
  }
  advance(d);
}

static void on_flush(struct tmesh_flush* flush) {
  struct tmesh_dial* d = TMESH_CONTAINER(flush, struct tmesh_dial, flush);
  if (d->has_literal) {
    d->has_literal = false;
    d->resolved_us = d->started_us;
    add_address(d, &d->literal);
  }
  if (!d->is_finished) {
    advance(d);
    return;
  }
  struct tmesh_dial_result result = d->result;
  tmesh_dial_fn done = d->params.done;
  void* ctx = d->params.ctx;
  d->result.fd = -1; /* the callee's from here */
  over(d);
  done(ctx, &result);
}

/* --- life ---------------------------------------------------------------------- */

static bool parse_literal(const char* host, struct tmesh_address* out) {
  memset(out, 0, sizeof *out);
  out->family = strchr(host, ':') ? AF_INET6 : AF_INET;
  return inet_pton(out->family, host, out->bytes) == 1;
}

struct tmesh_status tmesh_dial_start(struct tmesh_loop* loop, struct tmesh_resolver* resolver,
                                     const struct tmesh_dial_params* params, struct tmesh_dial** dial) {
  *dial = NULL;
  TMESH_ASSERT(params->done != NULL);
  struct tmesh_dial* d = calloc(1, sizeof *d);
  if (!d) return tmesh_err_stream(TMESH_E_NO_MEMORY);
  d->loop = loop;
  d->params = *params;
  d->params.host = NULL;
  tmesh_list_init(&d->attempts);
  tmesh_flush_init(&d->flush, on_flush);
  d->started_us = tmesh_loop_now_us(loop);
  d->deadline_us = d->started_us + (uint64_t)params->timeout_ms * 1000;

  d->has_literal = parse_literal(params->host, &d->literal);
  if (!d->has_literal) {
    d->is_name = true;
    struct tmesh_status st = tmesh_resolver_start(resolver, params->host, d, on_resolved, &d->query);
    if (!tmesh_is_ok(st)) {
      free(d);
      return st;
    }
  }
  (void)uv_timer_init(&loop->uv, &d->timer); /* cannot fail in libuv 1.x */
  d->timer.data = d;
  d->handle_count = 1;
  tmesh_loop_flush_request(loop, &d->flush); /* begins the race, or arms the deadline */
  *dial = d;
  return tmesh_ok();
}

void tmesh_dial_cancel(struct tmesh_dial* d) {
  TMESH_ASSERT(!d->is_over);
  if (d->is_finished && d->result.fd >= 0) close(d->result.fd);
  over(d);
}
