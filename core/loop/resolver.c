#include "core/loop/resolver.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/check.h"
#include "core/loop/resolver_ares_set.h"
#include "core/loop/resolver_internal.h"
#include "core/loop/resolver_system.h"

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

struct tmesh_resolver {
  struct tmesh_ares_set set; /* first: on_set_closed finds the resolver by it */
  struct tmesh_list queries;
  struct tmesh_system* system; /* if it is not c-ares that is asked */
  size_t query_count;
  char* hosts;
  bool is_closing;
};

static void on_set_closed(struct tmesh_ares_set* set) {
  struct tmesh_resolver* r = (struct tmesh_resolver*)set;
  free(r->hosts);
  free(r);
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
  if (!r->is_closing) tmesh_ares_set_sweep(&r->set);
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
  tmesh_loop_flush_request(q->resolver->set.owner.loop, &q->flush);
}

static void ask(struct family* f) {
  f->phase = FAMILY_ASKED;
  f->try_count++;
  tmesh_ares_set_ask(&f->query->resolver->set, &f->lookup, f->query->name);
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
    tmesh_loop_flush_request(q->resolver->set.owner.loop, &q->flush);
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
  tmesh_loop_flush_request(q->resolver->set.owner.loop, &q->flush);
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
  if (is_asked && !tmesh_ares_set_follow(&r->set)) return tmesh_err_stream(TMESH_E_NO_MEMORY);
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
    tmesh_ares_set_sweep(&q->resolver->set);
  }
}

/* --- life ---------------------------------------------------------------------- */

static struct tmesh_resolver* resolver_new(struct tmesh_loop* loop, const char* servers) {
  struct tmesh_resolver* r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->hosts = strdup("/etc/hosts");
  if (!r->hosts || !tmesh_ares_set_init(&r->set, loop, servers, TMESH_RESOLVE_TRY_MS, on_set_closed)) {
    on_set_closed(&r->set);
    return NULL;
  }
  tmesh_list_init(&r->queries);
  return r;
}

struct tmesh_resolver* tmesh_resolver_new(struct tmesh_loop* loop, const char* servers) {
  struct tmesh_resolver* r = resolver_new(loop, servers);
  if (r != NULL) (void)tmesh_ares_set_follow(&r->set); /* if it fails, the first query tries again */
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
  for (struct tmesh_list *n = r->queries.next, *next; n != &r->queries; n = next) {
    next = n->next;
    struct tmesh_resolve* q = TMESH_CONTAINER(n, struct tmesh_resolve, node);
    if (!q->is_cancelled) tmesh_resolve_cancel(q);
  }
  tmesh_ares_set_close(&r->set);
  TMESH_ASSERT(r->query_count == 0);
  tmesh_system_free(r->system);
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
  if (new_conf) tmesh_ares_set_use_file(&r->set, new_conf);
  return tmesh_ok();
}

void tmesh_resolver_set_timing(struct tmesh_resolver* r, unsigned try_ms, uint64_t check_interval_us) {
  r->set.try_ms = try_ms;
  r->set.check_interval_us = check_interval_us;
  r->set.has_config_changed = true;
}

void tmesh_resolver_set_port(struct tmesh_resolver* r, uint16_t port) {
  r->set.port = port;
  r->set.has_config_changed = true;
}

size_t tmesh_resolver_query_count(const struct tmesh_resolver* r) {
  return r->query_count;
}

size_t tmesh_resolver_ares_count(const struct tmesh_resolver* r) {
  return tmesh_ares_set_count(&r->set);
}
