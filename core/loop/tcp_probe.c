/* What libuv does not report and the kernel is asked for. A socket that is not read is
 * deaf: neither FIN nor RST of the peer shows. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/loop/socket.h"
#include "core/loop/tcp_internal.h"

enum tmesh_peer_state tmesh_socket_peer(int fd, bool is_finished) {
  struct tcp_info info;
  socklen_t len = sizeof info;

  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) {
    /* A Unix socket, which knows no more than that its peer will not send. */
    struct pollfd look = {.fd = fd, .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0 && (look.revents & POLLRDHUP) != 0 ? TMESH_PEER_ENDED : TMESH_PEER_ALIVE;
  }
  switch (info.tcpi_state) {
    case TCP_CLOSE_WAIT:
    case TCP_LAST_ACK:
    case TCP_CLOSING:
    case TCP_TIME_WAIT:
      return TMESH_PEER_ENDED;
    case TCP_CLOSE:
      /* Both sides sent FIN and the kernel is done, but our bytes are still there to be read. */
      return is_finished ? TMESH_PEER_ENDED : TMESH_PEER_GONE;
    default:
      return TMESH_PEER_ALIVE;
  }
}

void tmesh_tcp_probe(struct tmesh_tcp* t) {
  const uint64_t now_us = tmesh_loop_now_us(t->loop);
  int error = 0;
  socklen_t len = sizeof error;
  uv_os_fd_t fd;

  if (t->paused_since_us == 0 && !t->is_eof) return;
  if (uv_fileno((const uv_handle_t*)&t->tcp, &fd) != 0) {
    tmesh_tcp_break(t, TMESH_E_IO);
    return;
  }
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0) {
    tmesh_tcp_break(t, tmesh_code_from_uv(-error));
    return;
  }
  const enum tmesh_peer_state state = tmesh_socket_peer(fd, t->is_shutting_down);
  if (state == TMESH_PEER_GONE) {
    tmesh_tcp_break(t, TMESH_E_RESET);
    return;
  }
  if (t->is_eof) { /* it may take as long as it likes to read what we send */
    tmesh_alarm_set(t->loop, &t->alarm, now_us + t->loop->paused_probe_us);
    return;
  }
  if (state == TMESH_PEER_ENDED && t->half_closed_us == 0) {
    t->half_closed_us = now_us;
  } else if (t->half_closed_us != 0 && now_us > t->alarm.at_us + t->loop->paused_probe_us) {
    /* A look that comes this late means that the process was stopped: nobody had a chance. */
    t->half_closed_us += now_us - t->alarm.at_us;
  }
  /* It will send nothing more and what it sent is not taken: nobody would ever notice
   * that it has gone for good. */
  if (t->half_closed_us != 0 && now_us - t->half_closed_us >= t->loop->stalled_close_us) {
    tmesh_tcp_break(t, TMESH_E_TIMEOUT);
    return;
  }
  tmesh_alarm_set(t->loop, &t->alarm, now_us + t->loop->paused_probe_us);
}

/* libuv says UV_EOF without a read when a socket hung up behind a short read, whether by
 * FIN or by RST. The kernel keeps them apart: a read gives 0 only after a FIN, unless a
 * failed write has taken the error away. EPIPE then still means that a FIN came first,
 * and ENOTCONN (of shutdown) leaves the error in place. */
int tmesh_tcp_look_behind(const struct tmesh_tcp* t) {
  uv_os_fd_t fd;
  char byte;

  if (uv_fileno((const uv_handle_t*)&t->tcp, &fd) != 0) return UV_EBADF;
  const ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n > 0) return 1;
  if (n < 0 && errno != EAGAIN) return uv_translate_sys_error(errno);
  const bool is_error_taken =
      t->write_error != 0 && t->write_error != UV_EPIPE && t->write_error != UV_ENOTCONN;
  return is_error_taken ? t->write_error : 0;
}
