#include "core/loop/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"

static const struct {
  int uv_error;
  enum tmesh_code code;
} codes[] = {
    {UV_EOF, TMESH_E_CLOSED},
    {UV_ECONNRESET, TMESH_E_RESET},
    {UV_ECONNABORTED, TMESH_E_RESET},
    {UV_EPIPE, TMESH_E_RESET},
    {UV_ENOTCONN, TMESH_E_RESET},
    {UV_ECONNREFUSED, TMESH_E_REFUSED},
    {UV_ETIMEDOUT, TMESH_E_TIMEOUT},
    {UV_ENETUNREACH, TMESH_E_NET_UNREACHABLE},
    {UV_ENETDOWN, TMESH_E_NET_UNREACHABLE},
    {UV_EHOSTUNREACH, TMESH_E_HOST_UNREACHABLE},
    {UV_EHOSTDOWN, TMESH_E_HOST_UNREACHABLE},
    {UV_EACCES, TMESH_E_POLICY},
    {UV_EPERM, TMESH_E_POLICY},
    {UV_ENOMEM, TMESH_E_NO_MEMORY},
    {UV_ENOBUFS, TMESH_E_NO_MEMORY},
    {UV_EMFILE, TMESH_E_LIMIT},
    {UV_ENFILE, TMESH_E_LIMIT},
    {UV_ECANCELED, TMESH_E_CANCELLED},
};

enum tmesh_code tmesh_code_from_uv(int uv_error) {
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    if (codes[i].uv_error == uv_error) return codes[i].code;
  }
  return TMESH_E_IO;
}

bool tmesh_socket_prepare(int fd) {
  const int on = 1;
  /* Not every stream socket has Nagle's algorithm (a local one has not). */
  return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 || errno != EBADF;
}

void tmesh_socket_keep_alive(int fd, int idle_s) {
  const int on = 1, interval_s = 1, probes_max = 10;
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes_max, sizeof probes_max);
}

int tmesh_socket_adopt(struct tmesh_loop* loop, uv_tcp_t* handle, int fd) {
  int rc = uv_tcp_init(&loop->uv, handle);
  TMESH_ASSERT(rc == 0); /* it makes no socket, so nothing can fail */
  rc = uv_tcp_open(handle, fd);
  if (rc != 0) {
    (void)close(fd);
    return rc;
  }
  return 0;
}

void tmesh_socket_reset_on_close(uv_tcp_t* handle) {
  const struct linger now = {.l_onoff = 1, .l_linger = 0};
  uv_os_fd_t fd;
  if (uv_fileno((const uv_handle_t*)handle, &fd) != 0) return;
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void tmesh_sockaddr_unmap(struct sockaddr_storage* address) {
  struct sockaddr_in6 six;
  struct sockaddr_in four;

  if (address->ss_family != AF_INET6) return;
  memcpy(&six, address, sizeof six);
  if (!IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return;
  memset(&four, 0, sizeof four);
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, sizeof four.sin_addr);
  memset(address, 0, sizeof *address);
  memcpy(address, &four, sizeof four);
}
