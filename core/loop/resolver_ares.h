/* One c-ares handle (an ares_channel) on the loop: its sockets as uv_poll
 * handles, its answers as address lists. Internal to core/loop.
 *
 * A resolver has one current handle and, while their lookups end, retired ones of an
 * earlier resolv.conf. Nothing here calls back into user code; an answer may come from
 * inside tmesh_ares_lookup. c-ares cannot cancel one query, so a lookup whose owner
 * went away stays until its answer or time-out, unless no lookup of the handle has an
 * owner any more: then all are dropped at once.
 */
#ifndef TMESH_LOOP_RESOLVER_ARES_H
#define TMESH_LOOP_RESOLVER_ARES_H

#include <ares.h>

#include "core/loop/resolver_name.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Result of tmesh_ares_timeout_ms() without a lookup in flight. */
#define TMESH_LOOKUP_IDLE_MS 60000u

/* Counts the uv handles of a resolver, so that its memory outlives them. */
struct tmesh_ares_owner {
  struct tmesh_loop* loop;
  size_t handle_count;
  void (*on_handle_closed)(struct tmesh_ares_owner* owner); /* after handle_count went down */
};

struct tmesh_ares {
  struct tmesh_ares_owner* owner;
  struct tmesh_list node;  /* for the resolver's list */
  struct tmesh_list socks; /* struct of resolver_ares.c */
  ares_channel handle;
  size_t lookup_count; /* lookups c-ares holds */
  size_t owned_count;  /* of these, not abandoned */
  bool is_retired;
};

struct tmesh_ares_config {
  const char* servers;     /* NULL = what resolv_conf says */
  const char* resolv_conf; /* path */
  unsigned try_ms;
  uint16_t port; /* of servers from resolv_conf; 0 = 53 */
};

enum tmesh_lookup_end {
  TMESH_LOOKUP_ANSWERED,
  TMESH_LOOKUP_NO_NAME,
  TMESH_LOOKUP_SILENT,
  TMESH_LOOKUP_NO_MEMORY
};

/* One question (name, family) in flight. Embedded in a query. */
struct tmesh_lookup {
  struct tmesh_ares* ares; /* while in flight */
  int family;
  enum tmesh_lookup_end end;
  struct tmesh_addresses addresses; /* of `family` only */
  /* The lookup is out of c-ares. */
  void (*on_end)(struct tmesh_lookup* lookup);
  bool is_abandoned;
};

/* NULL when c-ares cannot be set up (no memory, unreadable configuration). */
struct tmesh_ares* tmesh_ares_new(struct tmesh_ares_owner* owner, const struct tmesh_ares_config* config);
/* Ends every lookup (on_end with NO_NAME), closes the sockets, frees. Not from inside on_end. */
void tmesh_ares_free(struct tmesh_ares* a);
void tmesh_ares_lookup(struct tmesh_ares* a, struct tmesh_lookup* lookup, const char* name);
/* The owner does not want the answer; on_end comes all the same. */
void tmesh_lookup_abandon(struct tmesh_lookup* lookup);
/* Drops all lookups when none has an owner. Not from inside on_end. */
void tmesh_ares_sweep(struct tmesh_ares* a);
/* Milliseconds until c-ares wants tmesh_ares_expire(). */
uint64_t tmesh_ares_timeout_ms(const struct tmesh_ares* a);
/* Lets overdue tries time out. Only after a poll, so that answers which wait are read first. */
void tmesh_ares_expire(struct tmesh_ares* a);

#ifdef __cplusplus
}
#endif

#endif
