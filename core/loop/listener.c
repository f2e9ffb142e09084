#include "core/loop/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/loop/socket.h"

/* How long accepting rests when a newcomer can be neither taken nor refused. */
#define REST_US UINT64_C(100000)

/* --- opening ------------------------------------------------------------------- */

struct bind_address {
  struct sockaddr_storage storage;
  socklen_t len_bytes;
  bool is_dual;
};

static bool is_any(const char* host) {
  return host[0] == '\0' || strcmp(host, "*") == 0 || strcmp(host, "::") == 0;
}

static void set_four(struct bind_address* a, struct in_addr host, uint16_t port) {
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};
  memcpy(&a->storage, &four, sizeof four);
  a->len_bytes = sizeof four;
}

static void set_six(struct bind_address* a, struct in6_addr host, uint16_t port) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = host};
  memcpy(&a->storage, &six, sizeof six);
  a->len_bytes = sizeof six;
}

static bool parse(struct bind_address* a, const char* host, uint16_t port) {
  struct in_addr four;
  struct in6_addr six;

  memset(a, 0, sizeof *a);
  if (is_any(host)) {
    a->is_dual = true;
    set_six(a, in6addr_any, port);
  } else if (inet_pton(AF_INET, host, &four) == 1) {
    set_four(a, four, port);
  } else if (inet_pton(AF_INET6, host, &six) == 1) {
    set_six(a, six, port);
  } else {
    return false;
  }
  return true;
}

static struct tmesh_status listen_error(int error) {
  switch (error) {
    case EADDRINUSE:
      return tmesh_err_stream(TMESH_E_REFUSED);
    case EACCES:
    case EPERM:
      return tmesh_err_stream(TMESH_E_POLICY);
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return tmesh_err_stream(TMESH_E_INVALID);
    default:
      return tmesh_err_stream(TMESH_E_IO);
  }
}

/* The listening descriptor, or -1 with errno. */
static int bind_socket(const struct bind_address* a) {
  const int family = a->storage.ss_family;
  const int one = 1;
  const int six_only = a->is_dual ? 0 : 1;
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

  if (fd < 0) return -1;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &six_only, sizeof six_only) != 0) ||
      bind(fd, (const struct sockaddr*)&a->storage, a->len_bytes) != 0 || listen(fd, SOMAXCONN) != 0) {
    const int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

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
  struct bind_address address;

  *l = (struct tmesh_listener){.loop = loop, .events = events, .ctx = ctx, .fd = -1, .reserve_fd = -1};
  if (!parse(&address, host, port)) return tmesh_err_stream(TMESH_E_INVALID);
  l->fd = bind_socket(&address);
  if (l->fd < 0 && address.is_dual && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
    /* A host without IPv6. */
    set_four(&address, (struct in_addr){htonl(INADDR_ANY)}, port);
    l->fd = bind_socket(&address);
  }
  if (l->fd < 0) return listen_error(errno);
  if (uv_poll_init(&loop->uv, &l->poll, l->fd) != 0) {
    (void)close(l->fd);
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
  struct sockaddr_storage name = {0};
  socklen_t len = sizeof name;

  if (l->fd < 0 || getsockname(l->fd, (struct sockaddr*)&name, &len) != 0) return 0;
  if (name.ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6*)&name)->sin6_port);
  return ntohs(((const struct sockaddr_in*)&name)->sin_port);
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
