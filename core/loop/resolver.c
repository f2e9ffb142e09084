#include "core/loop/resolver.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/base/check.h"
#include "core/loop/resolver_ares.h"
#include "core/loop/resolver_internal.h"
#include "core/loop/resolver_system.h"

/* A stat() per query would be one system call per dial for a file that changes once a day. */
#define CHECK_INTERVAL_US 1000000u

enum family_phase {
  FAMILY_ASKED,  /* c-ares has the question */
  FAMILY_SILENT, /* a try ended without an answer; the next flush asks again */
  FAMILY_DONE,   /* to be delivered */
  FAMILY_DELIVERED,
};

struct family {
  struct tmesh_lookup lookup; /* first: on_end finds the family by it */
  struct tmesh_resolve* query;
  struct tmesh_status status; /* when DONE */
  uint8_t phase;              /* enum family_phase */
  uint8_t try_count;
};

enum { V6 = 0, V4 = 1, FAMILY_COUNT = 2 }; /* in order of delivery: IPv6 has precedence (RFC 8305 3) */

struct tmesh_resolve {
  struct tmesh_resolver* resolver;
  struct tmesh_list node;
  struct tmesh_flush flush;
  tmesh_resolve_fn fn;
  void* ctx;
  struct family families[FAMILY_COUNT];
  struct tmesh_system_lookup* system; /* while it runs */
  bool is_cancelled;                  /* stays only until c-ares let go of it */
  char name[TMESH_NAME_BYTES_MAX + 2];
};

/* What identifies the content of resolv.conf; all zero = no file. */
struct file_identity {
  dev_t device;
  ino_t inode;
  struct timespec changed;
};

struct tmesh_resolver {
  struct tmesh_ares_owner owner; /* first: on_handle_closed finds the resolver by it */
  struct tmesh_list queries;
  struct tmesh_list areses;    /* tmesh_ares.node: the current one and retired ones */
  struct tmesh_ares* current;  /* NULL when c-ares could not be set up */
  struct tmesh_system* system; /* if it is not c-ares that is asked */
  struct tmesh_flush sweep;
  struct tmesh_flush expire;
  uv_timer_t timer;
  size_t query_count;
  char* servers;
  char* resolv_conf;
  char* hosts;
  struct file_identity identity;
  uint64_t checked_us;
  uint64_t check_interval_us;
  unsigned try_ms;
  uint16_t port;
  bool has_config_changed; /* by a setter */
  bool is_closing;
};

static void release(struct tmesh_resolver* r) {
  free(r->servers);
  free(r->resolv_conf);
  free(r->hosts);
  free(r);
  ares_library_cleanup();
}

static void on_handle_closed(struct tmesh_ares_owner* owner) {
  struct tmesh_resolver* r = (struct tmesh_resolver*)owner;
  if (r->is_closing && owner->handle_count == 0) release(r);
}

static void on_timer_closed(uv_handle_t* handle) {
  struct tmesh_resolver* r = handle->data;
  r->owner.handle_count--;
  on_handle_closed(&r->owner);
}

/* --- the c-ares handles -------------------------------------------------------- */

static struct file_identity identity_of(const char* path) {
  struct file_identity id;
  struct stat st;
  memset(&id, 0, sizeof id);
  if (stat(path, &st) == 0) {
    id.device = st.st_dev;
    id.inode = st.st_ino;
    id.changed = st.st_mtim;
  }
  return id;
}

static bool is_same_file(const struct file_identity* a, const struct file_identity* b) {
  return a->device == b->device && a->inode == b->inode && a->changed.tv_sec == b->changed.tv_sec &&
         a->changed.tv_nsec == b->changed.tv_nsec;
}

static void rebuild(struct tmesh_resolver* r) {
  struct tmesh_ares_config config = {r->servers, r->resolv_conf, r->try_ms, r->port};
  struct tmesh_ares* fresh = tmesh_ares_new(&r->owner, &config);
  if (!fresh) return; /* the old one is better than none; the next query tries again */
  if (r->current) {
    r->current->is_retired = true;
    tmesh_loop_flush_request(r->owner.loop, &r->sweep);
  }
  tmesh_list_push_back(&r->areses, &fresh->node);
  r->current = fresh;
  r->has_config_changed = false;
}

/* Looks at resolv.conf once per interval and follows it. */
static void follow_config(struct tmesh_resolver* r) {
  uint64_t now_us = tmesh_loop_now_us(r->owner.loop);
  if (now_us - r->checked_us >= r->check_interval_us) {
    struct file_identity id = identity_of(r->resolv_conf);
    r->checked_us = now_us;
    if (!is_same_file(&id, &r->identity)) r->has_config_changed = true;
    r->identity = id;
  }
  if (r->has_config_changed || !r->current) rebuild(r);
}

static void on_timer(uv_timer_t* timer);

static void arm(struct tmesh_resolver* r) {
  /* While it runs it is early enough: all tries of a handle last equally long. */
  if (uv_is_active((uv_handle_t*)&r->timer)) return;
  uint64_t next_ms = TMESH_LOOKUP_IDLE_MS;
  bool is_asked = false;
  for (struct tmesh_list* n = r->areses.next; n != &r->areses; n = n->next) {
    struct tmesh_ares* a = TMESH_CONTAINER(n, struct tmesh_ares, node);
    if (a->lookup_count == 0) continue;
    uint64_t ms = tmesh_ares_timeout_ms(a);
    is_asked = true;
    if (ms < next_ms) next_ms = ms;
  }
  if (is_asked) uv_timer_start(&r->timer, on_timer, next_ms, 0);
}

/* libuv runs timers before it polls; answers that wait unread come first. */
static void on_timer(uv_timer_t* timer) {
  struct tmesh_resolver* r = timer->data;
  tmesh_loop_after_poll_request(r->owner.loop, &r->expire);
}

static void on_expire(struct tmesh_flush* flush) {
  struct tmesh_resolver* r = TMESH_CONTAINER(flush, struct tmesh_resolver, expire);
  for (struct tmesh_list* n = r->areses.next; n != &r->areses; n = n->next) {
    tmesh_ares_expire(TMESH_CONTAINER(n, struct tmesh_ares, node));
  }
  arm(r);
}

static void on_sweep(struct tmesh_flush* flush) {
  struct tmesh_resolver* r = TMESH_CONTAINER(flush, struct tmesh_resolver, sweep);
  for (struct tmesh_list *n = r->areses.next, *next; n != &r->areses; n = next) {
    struct tmesh_ares* a = TMESH_CONTAINER(n, struct tmesh_ares, node);
    next = n->next;
    tmesh_ares_sweep(a);
    if (a->is_retired && a->lookup_count == 0) tmesh_ares_free(a);
  }
  if (r->query_count == 0) uv_timer_stop(&r->timer);
}

/* --- queries ------------------------------------------------------------------- */

static bool is_in_ares(const struct tmesh_resolve* q) {
  return q->families[V6].lookup.ares || q->families[V4].lookup.ares;
}

static void query_free(struct tmesh_resolve* q) {
  struct tmesh_resolver* r = q->resolver;
  tmesh_flush_cancel(&q->flush);
  tmesh_list_remove(&q->node);
  r->query_count--;
  free(q);
  if (!r->is_closing) tmesh_loop_flush_request(r->owner.loop, &r->sweep);
}

static struct tmesh_status status_of(enum tmesh_lookup_end end) {
  switch (end) {
    case TMESH_LOOKUP_ANSWERED:
      return tmesh_ok();
    case TMESH_LOOKUP_SILENT:
      return tmesh_err_stream(TMESH_E_TIMEOUT);
    case TMESH_LOOKUP_NO_MEMORY:
      return tmesh_err_stream(TMESH_E_NO_MEMORY);
    case TMESH_LOOKUP_NO_NAME:
      break;
  }
  return tmesh_err_stream(TMESH_E_DNS);
}

static void on_lookup_end(struct tmesh_lookup* lookup) {
  struct family* f = (struct family*)lookup;
  struct tmesh_resolve* q = f->query;
  if (q->is_cancelled) {
    if (!is_in_ares(q)) query_free(q);
    return;
  }
  if (lookup->end == TMESH_LOOKUP_SILENT && f->try_count < TMESH_RESOLVE_TRIES) {
    f->phase = FAMILY_SILENT;
  } else {
    f->phase = FAMILY_DONE;
    f->status = status_of(lookup->end);
  }
  tmesh_loop_flush_request(q->resolver->owner.loop, &q->flush);
}

static void ask(struct family* f) {
  struct tmesh_resolver* r = f->query->resolver;
  f->phase = FAMILY_ASKED;
  f->try_count++;
  tmesh_ares_lookup(r->current, &f->lookup, f->query->name);
  arm(r);
}

static void deliver(struct tmesh_resolve* q, struct family* f) {
  struct tmesh_addresses addresses = f->lookup.addresses;
  struct tmesh_status status = f->status;
  int family = f->lookup.family;
  tmesh_resolve_fn fn = q->fn;
  void* ctx = q->ctx;
  const struct family* other = &q->families[f == &q->families[V6] ? V4 : V6];
  bool is_last = other->phase == FAMILY_DELIVERED;
  f->phase = FAMILY_DELIVERED;
  if (is_last) {
    query_free(q);
  } else if (other->phase == FAMILY_DONE) {
    /* One call per flush: the callee may cancel the query, which takes this request back. */
    tmesh_loop_flush_request(q->resolver->owner.loop, &q->flush);
  }
  fn(ctx, status, family, addresses.items, addresses.count, is_last);
}

static void on_query_flush(struct tmesh_flush* flush) {
  struct tmesh_resolve* q = TMESH_CONTAINER(flush, struct tmesh_resolve, flush);
  for (int i = 0; i < FAMILY_COUNT; i++) {
    if (q->families[i].phase == FAMILY_SILENT) ask(&q->families[i]);
  }
  for (int i = 0; i < FAMILY_COUNT; i++) {
    if (q->families[i].phase == FAMILY_DONE) {
      deliver(q, &q->families[i]);
      return;
    }
  }
}

static struct tmesh_resolve* query_new(struct tmesh_resolver* r, const char* name, void* ctx,
                                       tmesh_resolve_fn fn) {
  struct tmesh_resolve* q = calloc(1, sizeof *q);
  if (!q) return NULL;
  q->resolver = r;
  q->fn = fn;
  q->ctx = ctx;
  memcpy(q->name, name, strlen(name) + 1); /* classified: at most 253 bytes and a dot */
  tmesh_flush_init(&q->flush, on_query_flush);
  tmesh_list_push_back(&r->queries, &q->node);
  r->query_count++;
  for (int i = 0; i < FAMILY_COUNT; i++) {
    struct family* f = &q->families[i];
    f->query = q;
    f->lookup.family = i == V6 ? AF_INET6 : AF_INET;
    f->lookup.on_end = on_lookup_end;
  }
  return q;
}

static void answer_locally(struct tmesh_resolve* q, const struct tmesh_addresses* v6,
                           const struct tmesh_addresses* v4) {
  for (int i = 0; i < FAMILY_COUNT; i++) {
    struct family* f = &q->families[i];
    f->lookup.addresses = i == V6 ? *v6 : *v4;
    f->status = f->lookup.addresses.count > 0 ? tmesh_ok() : tmesh_err_stream(TMESH_E_DNS);
    f->phase = FAMILY_DONE;
  }
  tmesh_loop_flush_request(q->resolver->owner.loop, &q->flush);
}

static void on_system_answer(void* ctx, enum tmesh_lookup_end end, const struct tmesh_addresses* v6,
                             const struct tmesh_addresses* v4) {
  struct tmesh_resolve* q = ctx;
  q->system = NULL;
  answer_locally(q, v6, v4);
  if (end == TMESH_LOOKUP_ANSWERED) return;
  for (int i = 0; i < FAMILY_COUNT; i++) q->families[i].status = status_of(end);
}

struct tmesh_status tmesh_resolver_start(struct tmesh_resolver* r, const char* name, void* ctx,
                                         tmesh_resolve_fn fn, struct tmesh_resolve** query) {
  *query = NULL;
  TMESH_ASSERT(!r->is_closing);
  enum tmesh_name_kind kind = tmesh_name_classify(name);
  if (kind == TMESH_NAME_REFUSED) return tmesh_err_stream(TMESH_E_DNS);
  if (r->query_count >= TMESH_RESOLVE_QUERIES_MAX) return tmesh_err_stream(TMESH_E_LIMIT);

  struct tmesh_addresses v6 = {.count = 0};
  struct tmesh_addresses v4 = {.count = 0};
  if (kind == TMESH_NAME_LOCALHOST) {
    tmesh_addresses_add(&v6, AF_INET6, &in6addr_loopback);
    tmesh_addresses_add(&v4, AF_INET, (const uint8_t[]){127, 0, 0, 1});
  }
  /* A name in the hosts file is complete: its missing family is not asked (as getaddrinfo does). */
  bool is_local =
      kind == TMESH_NAME_LOCALHOST || (r->system == NULL && tmesh_hosts_lookup(r->hosts, name, &v4, &v6));
  bool is_asked = !is_local && r->system == NULL;
  if (is_asked) follow_config(r);
  if (is_asked && !r->current) return tmesh_err_stream(TMESH_E_NO_MEMORY);
  struct tmesh_resolve* q = query_new(r, name, ctx, fn);
  if (!q) return tmesh_err_stream(TMESH_E_NO_MEMORY);
  if (is_local) {
    answer_locally(q, &v6, &v4);
  } else if (r->system != NULL) {
    struct tmesh_status st = tmesh_system_lookup(r->system, q->name, q, on_system_answer, &q->system);
    if (!tmesh_is_ok(st)) {
      query_free(q);
      return st;
    }
  } else {
    ask(&q->families[V6]);
    ask(&q->families[V4]);
  }
  *query = q;
  return tmesh_ok();
}

void tmesh_resolve_cancel(struct tmesh_resolve* q) {
  TMESH_ASSERT(!q->is_cancelled);
  q->is_cancelled = true;
  tmesh_flush_cancel(&q->flush);
  for (int i = 0; i < FAMILY_COUNT; i++) tmesh_lookup_abandon(&q->families[i].lookup);
  if (q->system != NULL) tmesh_system_abandon(q->system);
  if (!is_in_ares(q)) {
    query_free(q);
  } else if (!q->resolver->is_closing) {
    tmesh_loop_flush_request(q->resolver->owner.loop, &q->resolver->sweep);
  }
}

/* --- life ---------------------------------------------------------------------- */

static struct tmesh_resolver* resolver_new(struct tmesh_loop* loop, const char* servers) {
  struct tmesh_resolver* r = calloc(1, sizeof *r);
  if (!r) return NULL;
  if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
    free(r);
    return NULL;
  }
  r->servers = servers ? strdup(servers) : NULL;
  r->resolv_conf = strdup("/etc/resolv.conf");
  r->hosts = strdup("/etc/hosts");
  if ((servers && !r->servers) || !r->resolv_conf || !r->hosts || uv_timer_init(&loop->uv, &r->timer) != 0) {
    release(r);
    return NULL;
  }
  r->timer.data = r;
  r->owner.loop = loop;
  r->owner.handle_count = 1;
  r->owner.on_handle_closed = on_handle_closed;
  r->try_ms = TMESH_RESOLVE_TRY_MS;
  r->check_interval_us = CHECK_INTERVAL_US;
  r->checked_us = tmesh_loop_now_us(loop);
  tmesh_list_init(&r->queries);
  tmesh_list_init(&r->areses);
  tmesh_flush_init(&r->sweep, on_sweep);
  tmesh_flush_init(&r->expire, on_expire);
  r->identity = identity_of(r->resolv_conf);
  return r;
}

struct tmesh_resolver* tmesh_resolver_new(struct tmesh_loop* loop, const char* servers) {
  struct tmesh_resolver* r = resolver_new(loop, servers);
  if (r != NULL) rebuild(r); /* if it fails, the first query tries again */
  return r;
}

struct tmesh_resolver* tmesh_resolver_new_system(struct tmesh_loop* loop) {
  struct tmesh_resolver* r = resolver_new(loop, NULL);
  if (r == NULL) return NULL;
  r->system = tmesh_system_new(loop, TMESH_RESOLVE_QUERIES_MAX);
  if (r->system != NULL) return r;
  tmesh_resolver_free(r);
  return NULL;
}

void tmesh_resolver_free(struct tmesh_resolver* r) {
  if (!r) return;
  r->is_closing = true;
  tmesh_flush_cancel(&r->sweep);
  tmesh_flush_cancel(&r->expire);
  for (struct tmesh_list *n = r->queries.next, *next; n != &r->queries; n = next) {
    next = n->next;
    struct tmesh_resolve* q = TMESH_CONTAINER(n, struct tmesh_resolve, node);
    if (!q->is_cancelled) tmesh_resolve_cancel(q);
  }
  for (struct tmesh_list *n = r->areses.next, *next; n != &r->areses; n = next) {
    next = n->next;
    tmesh_ares_free(TMESH_CONTAINER(n, struct tmesh_ares, node));
  }
  TMESH_ASSERT(r->query_count == 0);
  tmesh_system_free(r->system);
  uv_close((uv_handle_t*)&r->timer, on_timer_closed);
}

struct tmesh_status tmesh_resolver_set_files(struct tmesh_resolver* r, const char* resolv_conf,
                                             const char* hosts) {
  char* new_conf = resolv_conf ? strdup(resolv_conf) : NULL;
  char* new_hosts = hosts ? strdup(hosts) : NULL;
  if ((resolv_conf && !new_conf) || (hosts && !new_hosts)) {
    free(new_conf);
    free(new_hosts);
    return tmesh_err_stream(TMESH_E_NO_MEMORY);
  }
  if (new_hosts) {
    free(r->hosts);
    r->hosts = new_hosts;
  }
  if (new_conf) {
    free(r->resolv_conf);
    r->resolv_conf = new_conf;
    r->identity = identity_of(new_conf);
    r->has_config_changed = true;
  }
  return tmesh_ok();
}

void tmesh_resolver_set_timing(struct tmesh_resolver* r, unsigned try_ms, uint64_t check_interval_us) {
  r->try_ms = try_ms;
  r->check_interval_us = check_interval_us;
  r->has_config_changed = true;
}

void tmesh_resolver_set_port(struct tmesh_resolver* r, uint16_t port) {
  r->port = port;
  r->has_config_changed = true;
}

size_t tmesh_resolver_query_count(const struct tmesh_resolver* r) {
  return r->query_count;
}

size_t tmesh_resolver_ares_count(const struct tmesh_resolver* r) {
  size_t count = 0;
  for (const struct tmesh_list* n = r->areses.next; n != &r->areses; n = n->next) count++;
  return count;
}
