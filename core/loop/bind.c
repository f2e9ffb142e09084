#include "core/loop/bind.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

struct tmesh_status tmesh_bind_error(int error) {
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

/* The descriptor, or -1 with errno. */
static int bind_socket(const struct bind_address* a, int type) {
  const int family = a->storage.ss_family;
  const int one = 1;
  const int six_only = a->is_dual ? 0 : 1;
  int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

  if (fd < 0) return -1;
  if ((type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) ||
      (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &six_only, sizeof six_only) != 0) ||
      bind(fd, (const struct sockaddr*)&a->storage, a->len_bytes) != 0) {
    const int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

int tmesh_bind(const char* host, uint16_t port, int type, struct tmesh_status* why) {
  struct bind_address address;
  int fd;

  *why = tmesh_err_stream(TMESH_E_INVALID);
  if (!parse(&address, host, port)) return -1;
  fd = bind_socket(&address, type);
  if (fd < 0 && address.is_dual && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
    /* A host without IPv6. */
    address.is_dual = false;
    set_four(&address, (struct in_addr){htonl(INADDR_ANY)}, port);
    fd = bind_socket(&address, type);
  }
  *why = fd < 0 ? tmesh_bind_error(errno) : tmesh_ok();
  return fd;
}

uint16_t tmesh_bound_port(int fd) {
  struct sockaddr_storage name = {0};
  socklen_t len = sizeof name;

  if (fd < 0 || getsockname(fd, (struct sockaddr*)&name, &len) != 0) return 0;
  if (name.ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6*)&name)->sin6_port);
  return name.ss_family == AF_INET ? ntohs(((const struct sockaddr_in*)&name)->sin_port) : 0;
}
