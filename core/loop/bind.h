/* Local addresses as users write them: where listeners and UDP sockets are bound. Internal to
 * core/loop and cpp/net. */
#ifndef TMESH_LOOP_BIND_H
#define TMESH_LOOP_BIND_H

#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bound socket (non-blocking, close-on-exec) of type SOCK_STREAM or SOCK_DGRAM, which the caller
 * owns; -1 with *why. host: IPv4 or IPv6 literal; "", "*" and "::" = all addresses of both
 * families, of IPv4 alone on a machine without IPv6; port 0 = any. SO_REUSEADDR for streams only:
 * two datagram sockets would share the port. *why (stream scope) names the cause: REFUSED =
 * address in use, POLICY = permission denied, INVALID = not an address of this machine, IO. */
int tmesh_bind(const char* host, uint16_t port, int type, struct tmesh_status* why);
/* The port a socket is bound to; 0 = none, or not of a family with ports. */
uint16_t tmesh_bound_port(int fd);
/* The status of a bind() or listen() that failed with this errno; as above. */
struct tmesh_status tmesh_bind_error(int error);

#ifdef __cplusplus
}
#endif

#endif
