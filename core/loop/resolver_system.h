/* Names to addresses by the system's own resolver: getaddrinfo() in a bounded pool of
 * threads. Internal to core/loop; resolver.c chooses.
 *
 * For machines whose names come from somewhere else than name servers (nsswitch.conf: mDNS,
 * LDAP, a local cache). A lookup blocks a thread for as long as the system likes, by default
 * 5 s x 2 tries per silent name server, and nothing can end it. So a name that is stuck
 * costs one of the TMESH_SYSTEM_THREADS threads until the system gives up, and nothing more:
 * cancelled, its result is dropped; a lookup that waits for a thread is taken out of the
 * queue. When all threads are stuck, further names wait until one returns or their dial's
 * time is over. IPv6 and IPv4 come together: a silent answer for one family holds the other
 * back (the resolver on the loop does not have that).
 */
#ifndef TMESH_LOOP_RESOLVER_SYSTEM_H
#define TMESH_LOOP_RESOLVER_SYSTEM_H

#include "core/loop/resolver_ares.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As many as dials run at once on a link by default: without stuck names no dial waits for
 * a thread. An idle one costs some 16 KiB. */
#define TMESH_SYSTEM_THREADS 32u

struct tmesh_system;
struct tmesh_system_lookup;

/* From the loop, once, unless abandoned. The addresses point into the call; both may be
 * empty although the end is ANSWERED. SILENT: the system asked in vain. */
typedef void (*tmesh_system_fn)(void* ctx, enum tmesh_lookup_end end, const struct tmesh_addresses* v6,
                                const struct tmesh_addresses* v4);

/* pending_max: lookups that wait for a thread. NULL if threads cannot be made. */
struct tmesh_system* tmesh_system_new(struct tmesh_loop* loop, size_t pending_max);
/* Abandons everything and waits for nothing: threads that are stuck end by themselves. */
void tmesh_system_free(struct tmesh_system* s);
/* Stream scope: NO_MEMORY, LIMIT. */
TMESH_MUST_CHECK struct tmesh_status tmesh_system_lookup(struct tmesh_system* s, const char* name, void* ctx,
                                                         tmesh_system_fn fn,
                                                         struct tmesh_system_lookup** lookup);
/* No callback afterwards; the pointer is dead. */
void tmesh_system_abandon(struct tmesh_system_lookup* lookup);

#ifdef __cplusplus
}
#endif

#endif
