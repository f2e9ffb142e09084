#include "core/loop/resolver_system.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/loop/workers.h"

struct tmesh_system {
  struct tmesh_workers* workers;
};

struct tmesh_system_lookup {
  struct tmesh_job job; /* first: the callbacks find the lookup by it */
  struct tmesh_workers* workers;
  tmesh_system_fn fn;
  void* ctx;
  enum tmesh_lookup_end end;
  struct tmesh_addresses v6, v4;
  char name[TMESH_NAME_BYTES_MAX + 2];
};

static enum tmesh_lookup_end end_of(int error) {
  switch (error) {
    case 0:
      return TMESH_LOOKUP_ANSWERED;
    case EAI_AGAIN:
      return TMESH_LOOKUP_SILENT;
    case EAI_MEMORY:
      return TMESH_LOOKUP_NO_MEMORY;
    default:
      return TMESH_LOOKUP_NO_NAME;
  }
}

/* On a thread; touches the lookup only. */
static void work(struct tmesh_job* job) {
  struct tmesh_system_lookup* l = (struct tmesh_system_lookup*)job;
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo* info = NULL;

  l->end = end_of(getaddrinfo(l->name, NULL, &hints, &info));
  if (l->end != TMESH_LOOKUP_ANSWERED) return;
  for (const struct addrinfo* i = info; i != NULL; i = i->ai_next) {
    if (i->ai_family == AF_INET6) {
      tmesh_addresses_add(&l->v6, AF_INET6, &((struct sockaddr_in6*)(void*)i->ai_addr)->sin6_addr);
    } else if (i->ai_family == AF_INET) {
      tmesh_addresses_add(&l->v4, AF_INET, &((struct sockaddr_in*)(void*)i->ai_addr)->sin_addr);
    }
  }
  freeaddrinfo(info);
}

static void done(struct tmesh_job* job) {
  struct tmesh_system_lookup* l = (struct tmesh_system_lookup*)job;
  l->fn(l->ctx, l->end, &l->v6, &l->v4);
  free(l);
}

static void dropped(struct tmesh_job* job) {
  free(job);
}

struct tmesh_system* tmesh_system_new(struct tmesh_loop* loop, size_t pending_max) {
  struct tmesh_system* s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  s->workers = tmesh_workers_new(loop, TMESH_SYSTEM_THREADS, pending_max);
  if (s->workers != NULL) return s;
  free(s);
  return NULL;
}

void tmesh_system_free(struct tmesh_system* s) {
  if (s == NULL) return;
  tmesh_workers_leave(s->workers);
  free(s);
}

struct tmesh_status tmesh_system_lookup(struct tmesh_system* s, const char* name, void* ctx,
                                        tmesh_system_fn fn, struct tmesh_system_lookup** lookup) {
  *lookup = NULL;
  struct tmesh_system_lookup* l = calloc(1, sizeof *l);
  if (l == NULL) return tmesh_err_stream(TMESH_E_NO_MEMORY);
  l->job = (struct tmesh_job){.work = work, .done = done, .dropped = dropped};
  l->workers = s->workers;
  l->fn = fn;
  l->ctx = ctx;
  memcpy(l->name, name, strlen(name) + 1); /* classified: at most 253 bytes and a dot */
  const struct tmesh_status st = tmesh_workers_submit(s->workers, &l->job);
  if (!tmesh_is_ok(st)) {
    free(l);
    return st;
  }
  *lookup = l;
  return st;
}

void tmesh_system_abandon(struct tmesh_system_lookup* lookup) {
  tmesh_workers_cancel(lookup->workers, &lookup->job);
}
