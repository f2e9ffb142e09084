/* The c-ares handles of a resolver: the current one, which follows resolv.conf, and retired
 * ones of earlier contents while their lookups end. Internal to core/loop.
 *
 * Lets overdue tries time out after a poll, with a timer that runs only while c-ares has a
 * lookup. Nothing here calls back into user code; on_end of a lookup may come from inside
 * tmesh_ares_set_ask(), the sweep, and the close.
 */
#ifndef TMESH_LOOP_RESOLVER_ARES_SET_H
#define TMESH_LOOP_RESOLVER_ARES_SET_H

#include <sys/types.h>
#include <time.h>

#include "core/loop/resolver_ares.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What identifies the content of resolv.conf; all zero = no file. */
struct tmesh_file_identity {
  dev_t device;
  ino_t inode;
  struct timespec changed;
};

struct tmesh_ares_set {
  struct tmesh_ares_owner owner; /* first: the end of a handle finds the set by it */
  struct tmesh_list areses;      /* tmesh_ares.node: the current one and retired ones */
  struct tmesh_ares* current;    /* NULL when c-ares could not be set up */
  struct tmesh_flush sweep;
  struct tmesh_flush expire;
  uv_timer_t timer;
  char* servers;
  char* resolv_conf;
  struct tmesh_file_identity identity;
  uint64_t checked_us;
  uint64_t check_interval_us;
  unsigned try_ms;
  uint16_t port;
  bool has_config_changed; /* by a setter */
  bool is_closing;
  void (*on_closed)(struct tmesh_ares_set* set);
};

/* For /etc/resolv.conf, or these servers (copied). Whether it could be done; if not, nothing is left. */
bool tmesh_ares_set_init(struct tmesh_ares_set* set, struct tmesh_loop* loop, const char* servers,
                         unsigned try_ms, void (*on_closed)(struct tmesh_ares_set* set));
/* Ends every lookup. on_closed comes from the loop when the last handle of libuv is closed: the
 * memory has to stay until then. */
void tmesh_ares_set_close(struct tmesh_ares_set* set);
/* Looks at resolv.conf once per interval and follows it. Whether there is a handle to ask. */
bool tmesh_ares_set_follow(struct tmesh_ares_set* set);
/* Asks the current handle; tmesh_ares_set_follow() has said yes. */
void tmesh_ares_set_ask(struct tmesh_ares_set* set, struct tmesh_lookup* lookup, const char* name);
/* In the next flush: drops lookups without an owner and retired handles without a lookup. */
void tmesh_ares_set_sweep(struct tmesh_ares_set* set);
/* Another file than /etc/resolv.conf, which the set owns from now on. */
void tmesh_ares_set_use_file(struct tmesh_ares_set* set, char* resolv_conf);
size_t tmesh_ares_set_count(const struct tmesh_ares_set* set);

#ifdef __cplusplus
}
#endif

#endif
