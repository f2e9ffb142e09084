/* What tcp.c, transport.c and listener.c share about sockets. Internal to core/loop. */
#ifndef TMESH_LOOP_SOCKET_H
#define TMESH_LOOP_SOCKET_H

#include "core/loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one table from libuv's errors (negative errno) to codes. UV_EOF is CLOSED, what
 * is not listed is IO. Never OK. */
enum tmesh_code tmesh_code_from_uv(int uv_error);

/* Takes Nagle's delay away (LESSONS P-C13, P-C14). False when fd is no open descriptor. */
bool tmesh_socket_prepare(int fd);
/* Probes after idle_s of silence, one a second; the tenth without an answer breaks the connection. */
void tmesh_socket_keep_alive(int fd, int idle_s);
/* Initialises the handle and gives it fd, non-blocking. On an error fd is closed and the
 * handle is still to be closed. */
int tmesh_socket_adopt(struct tmesh_loop* loop, uv_tcp_t* handle, int fd);
/* The close that follows sends RST and drops what the kernel holds, so that the peer
 * does not take a cut stream for a complete one (LESSONS R5). Unlike
 * uv_tcp_close_reset() legal at any time. */
void tmesh_socket_reset_on_close(uv_tcp_t* handle);
/* What the kernel knows of the peer of a socket that is not read, and hence deaf. ENDED: it
 * sent its FIN (of a Unix socket: ended or gone); GONE: the connection is no more.
 * is_finished: our FIN is on its way too. */
enum tmesh_peer_state { TMESH_PEER_ALIVE, TMESH_PEER_ENDED, TMESH_PEER_GONE };
enum tmesh_peer_state tmesh_socket_peer(int fd, bool is_finished);
/* ::ffff:a.b.c.d becomes a.b.c.d, in place: one peer has one spelling. */
void tmesh_sockaddr_unmap(struct sockaddr_storage* address);

#ifdef __cplusplus
}
#endif

#endif
