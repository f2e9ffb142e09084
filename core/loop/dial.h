/* One outgoing TCP connection, or connected UDP socket, by name or address: Happy Eyeballs
 * (RFC 8305). A UDP socket is connected as soon as there is a way to the address: nothing is sent,
 * and nobody has to be there.
 *
 * Literals are parsed with inet_pton; names go to the resolver. Addresses are
 * interleaved by family (IPv6 first), 50 ms resolution delay, 250 ms between
 * attempts, the first that connects wins, the others are closed. Each address is
 * put to the filter first; denied ones drop out, and if none is left the result is
 * POLICY. Deadline and cancel at any point. At most 8 attempts in flight.
 */
#ifndef TMESH_LOOP_DIAL_H
#define TMESH_LOOP_DIAL_H

#include "core/loop/resolver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_dial;

enum tmesh_dial_phase { TMESH_DIAL_DNS, TMESH_DIAL_CONNECT };

struct tmesh_dial_result {
  struct tmesh_status
      status;    /* OK; DNS, REFUSED, NET_UNREACHABLE, HOST_UNREACHABLE, TIMEOUT, POLICY, IO (stream scope) */
  uint8_t phase; /* where it failed: enum tmesh_dial_phase */
  int fd;        /* connected, non-blocking; owned by the callee; -1 on failure */
  uint64_t dns_us, connect_us;
};

typedef void (*tmesh_dial_fn)(void* ctx, const struct tmesh_dial_result* result);

struct tmesh_dial_params {
  const char* host; /* copied */
  uint16_t port;
  bool is_datagram;            /* UDP */
  uint32_t timeout_ms;         /* for everything, from now */
  uint32_t connect_timeout_ms; /* each attempt; 0 = only the above */
  /* May be NULL. is_name: the host was a name, not a literal. Returns whether the address may be dialled. */
  bool (*filter)(void* ctx, const struct tmesh_address* address, bool is_name);
  void* ctx;
  tmesh_dial_fn done; /* exactly once unless cancelled; never from inside tmesh_dial_start */
};

/* NO_MEMORY, DNS (refused name), LIMIT. */
TMESH_MUST_CHECK struct tmesh_status tmesh_dial_start(struct tmesh_loop* loop,
                                                      struct tmesh_resolver* resolver,
                                                      const struct tmesh_dial_params* params,
                                                      struct tmesh_dial** dial);
/* No callback afterwards; sockets are closed; the pointer is dead. */
void tmesh_dial_cancel(struct tmesh_dial* dial);

#ifdef __cplusplus
}
#endif

#endif
