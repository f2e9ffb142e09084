/* Names to addresses with c-ares on the loop: nothing blocks, everything can be cancelled.
 *
 * No cache (requirement A5). A and AAAA are separate queries, 1.5 s x 2 tries each.
 * IP literals never come here (dial.c uses inet_pton); names of only digits and dots,
 * or in 0x form, are refused. /etc/hosts and `localhost` are honoured. The c-ares
 * handle is rebuilt when resolv.conf changes (inode or mtime), so a host that had no
 * network at boot works later.
 */
#ifndef TMESH_LOOP_RESOLVER_H
#define TMESH_LOOP_RESOLVER_H

#include "core/loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* More answers than this are dropped: no target needs them and each costs a connect attempt. */
#define TMESH_RESOLVE_ADDRESSES_MAX 16u

struct tmesh_address {
  uint8_t family; /* AF_INET or AF_INET6 */
  uint8_t bytes[16];
};

struct tmesh_resolver;
struct tmesh_resolve;

/* Called up to twice: once per family, as each query ends, and `is_last` with the
 * second. addresses point into the call. Never from inside tmesh_resolver_start. */
typedef void (*tmesh_resolve_fn)(void* ctx, struct tmesh_status st, int family,
                                 const struct tmesh_address* addresses, size_t count, bool is_last);

/* servers: NULL = the system's; otherwise "127.0.0.1:5353,..." (tests). NULL on no memory. */
struct tmesh_resolver* tmesh_resolver_new(struct tmesh_loop* loop, const char* servers);
/* One that asks the system with getaddrinfo() in threads of its own (resolver_system.h says
 * what that costs). NULL on no memory or no threads. */
struct tmesh_resolver* tmesh_resolver_new_system(struct tmesh_loop* loop);
/* Two-phase inside: the memory goes when its handles are closed. Cancels everything. */
void tmesh_resolver_free(struct tmesh_resolver* r);
/* DNS (stream scope) for a name that is refused, NO_MEMORY, LIMIT (4,096 queries in flight). */
TMESH_MUST_CHECK struct tmesh_status tmesh_resolver_start(struct tmesh_resolver* r, const char* name,
                                                          void* ctx, tmesh_resolve_fn fn,
                                                          struct tmesh_resolve** query);
/* No callback afterwards; the query pointer is dead. */
void tmesh_resolve_cancel(struct tmesh_resolve* query);

#ifdef __cplusplus
}
#endif

#endif
