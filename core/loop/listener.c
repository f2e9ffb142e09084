#include "core/loop/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/loop/bind.h"
#include "core/loop/socket.h"

/* How long accepting rests when a newcomer can be neither taken nor refused. */
#define REST_US UINT64_C(100000)

/* --- opening ------------------------------------------------------------------- */

static int open_reserve(void) {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_poll(uv_poll_t* poll, int status, int events);

static void listen_again(struct tmesh_listener* l) {
  const int rc = uv_poll_start(&l->poll, UV_READABLE, on_poll);
  TMESH_ASSERT(rc == 0);
}

static void on_rested(struct tmesh_alarm* alarm) {
  listen_again(TMESH_CONTAINER(alarm, struct tmesh_listener, rest));
}

struct tmesh_status tmesh_listener_open(struct tmesh_listener* l, struct tmesh_loop* loop, const char* host,
                                        uint16_t port, const struct tmesh_listener_events* events,
                                        void* ctx) {
  struct tmesh_status why;
  const int fd = tmesh_bind(host, port, SOCK_STREAM, &why);

  if (fd < 0) return why;
  if (listen(fd, SOMAXCONN) != 0) {
    why = tmesh_bind_error(errno);
    (void)close(fd);
    return why;
  }
  return tmesh_listener_adopt(l, loop, fd, events, ctx);
}

struct tmesh_status tmesh_listener_adopt(struct tmesh_listener* l, struct tmesh_loop* loop, int fd,
                                         const struct tmesh_listener_events* events, void* ctx) {
  *l = (struct tmesh_listener){.loop = loop, .events = events, .ctx = ctx, .fd = fd, .reserve_fd = -1};
  if (uv_poll_init(&loop->uv, &l->poll, fd) != 0) {
    (void)close(fd);
    l->fd = -1;
    return tmesh_err_stream(TMESH_E_IO);
  }
  l->poll.data = l;
  l->reserve_fd = open_reserve();
  tmesh_alarm_init(&l->rest, on_rested);
  listen_again(l);
  return tmesh_ok();
}

uint16_t tmesh_listener_port(const struct tmesh_listener* l) {
  return tmesh_bound_port(l->fd);
}

/* --- accepting -------------------------------------------------------------------- */

static void rest(struct tmesh_listener* l) {
  (void)uv_poll_stop(&l->poll);
  tmesh_alarm_set(l->loop, &l->rest, tmesh_loop_now_us(l->loop) + REST_US);
}

enum accept_result { ACCEPT_NEXT, ACCEPT_STOP, ACCEPT_REST, ACCEPT_BROKEN };

/* Takes one newcomer with the reserve descriptor and closes it. */
static enum accept_result refuse_one(struct tmesh_listener* l) {
  enum accept_result result = ACCEPT_REST;
  int fd;

  if (l->reserve_fd < 0) l->reserve_fd = open_reserve();
  if (l->reserve_fd < 0) return ACCEPT_REST;
  (void)close(l->reserve_fd);
  fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    (void)close(fd);
    l->refused_count++;
    result = ACCEPT_NEXT;
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    result = ACCEPT_STOP; /* accept(2) looks for a descriptor before it looks for a newcomer */
  }
  l->reserve_fd = open_reserve();
  return result;
}

/* Of the newcomer, not of the listening socket (accept(2)). */
static bool is_newcomers_fault(int error) {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPERM:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

static enum accept_result accept_one(struct tmesh_listener* l, struct tmesh_status* why) {
  struct sockaddr_storage peer = {0};
  socklen_t len = sizeof peer;
  const int fd = accept4(l->fd, (struct sockaddr*)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

  if (fd >= 0) {
    l->accepted_count++;
    tmesh_sockaddr_unmap(&peer);
    l->events->on_accept(l->ctx, fd, (const struct sockaddr*)&peer);
    return l->closing.is_begun ? ACCEPT_STOP : ACCEPT_NEXT;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return ACCEPT_STOP;
  if (errno == EMFILE || errno == ENFILE) return refuse_one(l);
  if (errno == ENOBUFS || errno == ENOMEM) return ACCEPT_REST;
  if (is_newcomers_fault(errno)) return ACCEPT_NEXT;
  *why = tmesh_err_stream(TMESH_E_IO);
  return ACCEPT_BROKEN;
}

static void on_poll(uv_poll_t* poll, int status, int events) {
  struct tmesh_listener* l = poll->data;
  struct tmesh_status why = tmesh_err_stream(TMESH_E_IO);
  enum accept_result result = status < 0 ? ACCEPT_BROKEN : ACCEPT_NEXT;

  (void)events;
  for (unsigned i = 0; result == ACCEPT_NEXT && i < TMESH_ACCEPTS_PER_ITERATION_MAX; i++) {
    result = accept_one(l, &why);
  }
  if (result == ACCEPT_REST) rest(l);
  if (result == ACCEPT_BROKEN) {
    (void)uv_poll_stop(&l->poll);
    l->events->on_broken(l->ctx, why);
  }
}

/* --- closing ------------------------------------------------------------------------ */

static void on_closed(struct tmesh_closing* closing) {
  struct tmesh_listener* l = TMESH_CONTAINER(closing, struct tmesh_listener, closing);
  l->events->on_closed(l->ctx);
}

void tmesh_listener_close(struct tmesh_listener* l) {
  if (l->closing.is_begun) return;
  tmesh_closing_begin(&l->closing, l->loop, on_closed);
  tmesh_alarm_clear(&l->rest);
  tmesh_closing_handle(&l->closing, (uv_handle_t*)&l->poll);
  (void)close(l->fd);
  if (l->reserve_fd >= 0) (void)close(l->reserve_fd);
  l->fd = -1;
  l->reserve_fd = -1;
}
