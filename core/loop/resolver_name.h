/* Which names may be resolved, and which are answered without a query.
 *
 * Pure functions; nothing is allocated except the hosts file's stream buffer while
 * tmesh_hosts_lookup runs. Internal to core/loop.
 */
#ifndef TMESH_LOOP_RESOLVER_NAME_H
#define TMESH_LOOP_RESOLVER_NAME_H

#include "core/loop/resolver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* RFC 1035 2.3.4 as text, without the trailing dot. */
#define TMESH_NAME_BYTES_MAX 253u
#define TMESH_NAME_LABEL_BYTES_MAX 63u

enum tmesh_name_kind {
  /* Empty, too long, an empty or over-long label, a byte that is not a letter, digit,
   * '-' or '_'; or every label is a number (decimal or 0x): inet_aton would read those
   * as an address, so two programs could disagree on what they mean. */
  TMESH_NAME_REFUSED,
  /* "localhost" and names under ".localhost": 127.0.0.1 and ::1, never asked (RFC 6761 6.3). */
  TMESH_NAME_LOCALHOST,
  TMESH_NAME_QUERY,
};

/* One trailing dot is allowed. */
enum tmesh_name_kind tmesh_name_classify(const char* name);

struct tmesh_addresses {
  struct tmesh_address items[TMESH_RESOLVE_ADDRESSES_MAX];
  size_t count;
};

/* Adds an address; drops it when the list is full. bytes: 4 or 16 of them. */
void tmesh_addresses_add(struct tmesh_addresses* list, int family, const void* bytes);

/* Looks a name up in a hosts(5) file: case-insensitive, trailing dot ignored, one pass
 * for both families. Returns whether a line names it; a file that cannot be read names
 * nobody. At most 8 MiB of the file are read. Blocks for a local file read. */
bool tmesh_hosts_lookup(const char* path, const char* name, struct tmesh_addresses* v4,
                        struct tmesh_addresses* v6);

#ifdef __cplusplus
}
#endif

#endif
