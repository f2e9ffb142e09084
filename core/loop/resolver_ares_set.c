#include "core/loop/resolver_ares_set.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A stat() per query would be one system call per dial for a file that changes once a day. */
#define CHECK_INTERVAL_US 1000000u

static void free_config(struct tmesh_ares_set* set) {
  free(set->servers);
  free(set->resolv_conf);
  ares_library_cleanup();
}

static void on_handle_closed(struct tmesh_ares_owner* owner) {
  struct tmesh_ares_set* set = (struct tmesh_ares_set*)owner;
  if (!set->is_closing || owner->handle_count > 0) return;
  free_config(set);
  set->on_closed(set);
}

static void on_timer_closed(uv_handle_t* handle) {
  struct tmesh_ares_set* set = handle->data;
  set->owner.handle_count--;
  on_handle_closed(&set->owner);
}

/* --- the file -------------------------------------------------------------------- */

static struct tmesh_file_identity identity_of(const char* path) {
  struct tmesh_file_identity id;
  struct stat st;
  memset(&id, 0, sizeof id);
  if (stat(path, &st) == 0) {
    id.device = st.st_dev;
    id.inode = st.st_ino;
    id.changed = st.st_mtim;
  }
  return id;
}

static bool is_same_file(const struct tmesh_file_identity* a, const struct tmesh_file_identity* b) {
  return a->device == b->device && a->inode == b->inode && a->changed.tv_sec == b->changed.tv_sec &&
         a->changed.tv_nsec == b->changed.tv_nsec;
}

static void rebuild(struct tmesh_ares_set* set) {
  struct tmesh_ares_config config = {set->servers, set->resolv_conf, set->try_ms, set->port};
  struct tmesh_ares* fresh = tmesh_ares_new(&set->owner, &config);
  if (!fresh) return; /* the old one is better than none; the next query tries again */
  if (set->current) {
    set->current->is_retired = true;
    tmesh_loop_flush_request(set->owner.loop, &set->sweep);
  }
  tmesh_list_push_back(&set->areses, &fresh->node);
  set->current = fresh;
  set->has_config_changed = false;
}

bool tmesh_ares_set_follow(struct tmesh_ares_set* set) {
  uint64_t now_us = tmesh_loop_now_us(set->owner.loop);
  if (now_us - set->checked_us >= set->check_interval_us) {
    struct tmesh_file_identity id = identity_of(set->resolv_conf);
    set->checked_us = now_us;
    if (!is_same_file(&id, &set->identity)) set->has_config_changed = true;
    set->identity = id;
  }
  if (set->has_config_changed || !set->current) rebuild(set);
  return set->current != NULL;
}

/* --- time ------------------------------------------------------------------------ */

static void on_timer(uv_timer_t* timer);

static void arm(struct tmesh_ares_set* set) {
  /* While it runs it is early enough: all tries of a handle last equally long. */
  if (uv_is_active((uv_handle_t*)&set->timer)) return;
  uint64_t next_ms = TMESH_LOOKUP_IDLE_MS;
  bool is_asked = false;
  for (struct tmesh_list* n = set->areses.next; n != &set->areses; n = n->next) {
    struct tmesh_ares* a = TMESH_CONTAINER(n, struct tmesh_ares, node);
    if (a->lookup_count == 0) continue;
    uint64_t ms = tmesh_ares_timeout_ms(a);
    is_asked = true;
    if (ms < next_ms) next_ms = ms;
  }
  if (is_asked) uv_timer_start(&set->timer, on_timer, next_ms, 0);
}

/* libuv runs timers before it polls; answers that wait unread come first. */
static void on_timer(uv_timer_t* timer) {
  struct tmesh_ares_set* set = timer->data;
  tmesh_loop_after_poll_request(set->owner.loop, &set->expire);
}

static void on_expire(struct tmesh_flush* flush) {
  struct tmesh_ares_set* set = TMESH_CONTAINER(flush, struct tmesh_ares_set, expire);
  for (struct tmesh_list* n = set->areses.next; n != &set->areses; n = n->next) {
    tmesh_ares_expire(TMESH_CONTAINER(n, struct tmesh_ares, node));
  }
  arm(set);
}

static void on_sweep(struct tmesh_flush* flush) {
  struct tmesh_ares_set* set = TMESH_CONTAINER(flush, struct tmesh_ares_set, sweep);
  bool is_asked = false;
  for (struct tmesh_list *n = set->areses.next, *next; n != &set->areses; n = next) {
    struct tmesh_ares* a = TMESH_CONTAINER(n, struct tmesh_ares, node);
    next = n->next;
    tmesh_ares_sweep(a);
    if (a->lookup_count > 0) {
      is_asked = true;
    } else if (a->is_retired) {
      tmesh_ares_free(a);
    }
  }
  if (!is_asked) uv_timer_stop(&set->timer);
}

/* --- life ------------------------------------------------------------------------ */

bool tmesh_ares_set_init(struct tmesh_ares_set* set, struct tmesh_loop* loop, const char* servers,
                         unsigned try_ms, void (*on_closed)(struct tmesh_ares_set* set)) {
  if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) return false;
  *set = (struct tmesh_ares_set){
      .try_ms = try_ms, .check_interval_us = CHECK_INTERVAL_US, .on_closed = on_closed};
  set->servers = servers ? strdup(servers) : NULL;
  set->resolv_conf = strdup("/etc/resolv.conf");
  if ((servers && !set->servers) || !set->resolv_conf || uv_timer_init(&loop->uv, &set->timer) != 0) {
    free_config(set);
    return false;
  }
  set->timer.data = set;
  set->owner = (struct tmesh_ares_owner){loop, 1, on_handle_closed};
  set->checked_us = tmesh_loop_now_us(loop);
  tmesh_list_init(&set->areses);
  tmesh_flush_init(&set->sweep, on_sweep);
  tmesh_flush_init(&set->expire, on_expire);
  set->identity = identity_of(set->resolv_conf);
  return true;
}

void tmesh_ares_set_close(struct tmesh_ares_set* set) {
  set->is_closing = true;
  tmesh_flush_cancel(&set->sweep);
  tmesh_flush_cancel(&set->expire);
  for (struct tmesh_list *n = set->areses.next, *next; n != &set->areses; n = next) {
    next = n->next;
    tmesh_ares_free(TMESH_CONTAINER(n, struct tmesh_ares, node));
  }
  uv_close((uv_handle_t*)&set->timer, on_timer_closed);
}

void tmesh_ares_set_ask(struct tmesh_ares_set* set, struct tmesh_lookup* lookup, const char* name) {
  tmesh_ares_lookup(set->current, lookup, name);
  arm(set);
}

void tmesh_ares_set_sweep(struct tmesh_ares_set* set) {
  tmesh_loop_flush_request(set->owner.loop, &set->sweep);
}

void tmesh_ares_set_use_file(struct tmesh_ares_set* set, char* resolv_conf) {
  free(set->resolv_conf);
  set->resolv_conf = resolv_conf;
  set->identity = identity_of(resolv_conf);
  set->has_config_changed = true;
}

size_t tmesh_ares_set_count(const struct tmesh_ares_set* set) {
  size_t count = 0;
  for (const struct tmesh_list* n = set->areses.next; n != &set->areses; n = n->next) count++;
  return count;
}
