/* What only tests set on a resolver: files and times. Internal to core/loop and its tests. */
#ifndef TMESH_LOOP_RESOLVER_INTERNAL_H
#define TMESH_LOOP_RESOLVER_INTERNAL_H

#include "core/loop/resolver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Queries in flight, cancelled ones that c-ares still holds included: 4,096 names are
 * 32 dials on each of more links than an agent has, and about 4 MiB. */
#define TMESH_RESOLVE_QUERIES_MAX 4096u
/* One try; a silent server costs a name 3 s, which leaves a second name server time
 * within the 8 s of an open. */
#define TMESH_RESOLVE_TRY_MS 1500u
#define TMESH_RESOLVE_TRIES 2u

/* Other files than /etc/resolv.conf and /etc/hosts; copied; NULL keeps the present
 * one. Takes effect with the next query. NO_MEMORY leaves the resolver unchanged. */
TMESH_MUST_CHECK struct tmesh_status tmesh_resolver_set_files(struct tmesh_resolver* r,
                                                              const char* resolv_conf, const char* hosts);
/* Another try time than TMESH_RESOLVE_TRY_MS, and another interval than one second
 * between two looks at resolv.conf. Takes effect with the next query. */
void tmesh_resolver_set_timing(struct tmesh_resolver* r, unsigned try_ms, uint64_t check_interval_us);
/* The port of name servers that resolv.conf names (it cannot say one). Next query. */
void tmesh_resolver_set_port(struct tmesh_resolver* r, uint16_t port);
/* Queries that hold memory now. */
size_t tmesh_resolver_query_count(const struct tmesh_resolver* r);
/* c-ares handles alive: 1, more while queries of an earlier configuration end. */
size_t tmesh_resolver_ares_count(const struct tmesh_resolver* r);

#ifdef __cplusplus
}
#endif

#endif
