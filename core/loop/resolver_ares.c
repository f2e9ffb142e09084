#include "core/loop/resolver_ares.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/check.h"

struct sock {
  struct tmesh_ares_owner* owner;
  struct tmesh_ares* ares; /* NULL once closing */
  struct tmesh_list node;
  uv_poll_t poll;
  ares_socket_t fd;
  int events;
};

static void on_sock_closed(uv_handle_t* handle) {
  struct sock* s = handle->data;
  struct tmesh_ares_owner* owner = s->owner;
  free(s);
  owner->handle_count--;
  owner->on_handle_closed(owner);
}

static void sock_close(struct sock* s) {
  tmesh_list_remove(&s->node);
  s->ares = NULL;
  uv_close((uv_handle_t*)&s->poll, on_sock_closed);
}

static void on_poll(uv_poll_t* poll, int status, int events) {
  struct sock* s = poll->data;
  /* libuv reports an error on the socket as a bad status and stops watching; c-ares
   * learns which error it is by reading. */
  bool is_error = status < 0;
  ares_process_fd(s->ares->handle, is_error || (events & UV_READABLE) ? s->fd : ARES_SOCKET_BAD,
                  is_error || (events & UV_WRITABLE) ? s->fd : ARES_SOCKET_BAD);
  if (is_error && s->ares) uv_poll_start(&s->poll, s->events, on_poll);
}

static struct sock* sock_find(struct tmesh_ares* a, ares_socket_t fd) {
  for (struct tmesh_list* n = a->socks.next; n != &a->socks; n = n->next) {
    struct sock* s = TMESH_CONTAINER(n, struct sock, node);
    if (s->fd == fd) return s;
  }
  return NULL;
}

/* Without a handle (no memory) the socket is deaf and its queries time out. */
static struct sock* sock_new(struct tmesh_ares* a, ares_socket_t fd) {
  struct sock* s = calloc(1, sizeof *s);
  if (!s) return NULL;
  if (uv_poll_init_socket(&a->owner->loop->uv, &s->poll, fd) != 0) {
    free(s);
    return NULL;
  }
  s->poll.data = s;
  s->owner = a->owner;
  s->ares = a;
  s->fd = fd;
  tmesh_list_push_back(&a->socks, &s->node);
  a->owner->handle_count++;
  return s;
}

static void on_sock_state(void* ctx, ares_socket_t fd, int is_readable, int is_writable) {
  struct tmesh_ares* a = ctx;
  struct sock* s = sock_find(a, fd);
  if (!is_readable && !is_writable) {
    if (s) sock_close(s);
    return;
  }
  if (!s) s = sock_new(a, fd);
  if (!s) return;
  s->events = (is_readable ? UV_READABLE : 0) | (is_writable ? UV_WRITABLE : 0);
  uv_poll_start(&s->poll, s->events, on_poll);
}

struct tmesh_ares* tmesh_ares_new(struct tmesh_ares_owner* owner, const struct tmesh_ares_config* config) {
  struct tmesh_ares* a = calloc(1, sizeof *a);
  if (!a) return NULL;
  a->owner = owner;
  tmesh_list_init(&a->node);
  tmesh_list_init(&a->socks);

  struct ares_options options;
  memset(&options, 0, sizeof options);
  int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
             ARES_OPT_SOCK_STATE_CB | ARES_OPT_RESOLVCONF;
  options.flags = ARES_FLAG_NOALIASES;
  options.timeout = (int)config->try_ms;
  /* The second try is the resolver's: c-ares would double its time. */
  options.tries = 1;
  options.lookups = (char*)"b"; /* the hosts file is read once for both families, by the resolver */
  options.sock_state_cb = on_sock_state;
  options.sock_state_cb_data = a;
  options.resolvconf_path = (char*)config->resolv_conf;
  if (config->servers) {
    /* A fixed server list stands alone: no search domains of this machine. */
    mask |= ARES_OPT_DOMAINS;
    options.resolvconf_path = (char*)"/dev/null";
  }
  if (config->port) {
    mask |= ARES_OPT_UDP_PORT | ARES_OPT_TCP_PORT;
    options.udp_port = config->port;
    options.tcp_port = config->port;
  }
#if ARES_VERSION >= 0x011700
  mask |= ARES_OPT_QUERY_CACHE; /* max_ttl 0: no cache (requirement A5) */
#endif
  if (ares_init_options(&a->handle, &options, mask) != ARES_SUCCESS) {
    free(a);
    return NULL;
  }
  if (config->servers && ares_set_servers_ports_csv(a->handle, config->servers) != ARES_SUCCESS) {
    ares_destroy(a->handle);
    free(a);
    return NULL;
  }
  return a;
}

void tmesh_ares_free(struct tmesh_ares* a) {
  ares_destroy(a->handle);
  TMESH_ASSERT(a->lookup_count == 0);
  TMESH_ASSERT(tmesh_list_empty(&a->socks));
  tmesh_list_remove(&a->node);
  free(a);
}

static enum tmesh_lookup_end end_of(int ares_status) {
  switch (ares_status) {
    case ARES_SUCCESS:
      return TMESH_LOOKUP_ANSWERED;
    case ARES_ETIMEOUT:
      return TMESH_LOOKUP_SILENT;
    case ARES_ENOMEM:
      return TMESH_LOOKUP_NO_MEMORY;
    default:
      return TMESH_LOOKUP_NO_NAME;
  }
}

static void on_answer(void* arg, int status, int timeouts, struct ares_addrinfo* info) {
  (void)timeouts;
  struct tmesh_lookup* lookup = arg;
  struct tmesh_ares* a = lookup->ares;
  lookup->end = end_of(status);
  for (struct ares_addrinfo_node* n = info ? info->nodes : NULL; n; n = n->ai_next) {
    if (n->ai_family != lookup->family) continue;
    const void* bytes = lookup->family == AF_INET
                            ? (void*)&((struct sockaddr_in*)(void*)n->ai_addr)->sin_addr
                            : (void*)&((struct sockaddr_in6*)(void*)n->ai_addr)->sin6_addr;
    tmesh_addresses_add(&lookup->addresses, lookup->family, bytes);
  }
  if (info) ares_freeaddrinfo(info);
  if (lookup->end == TMESH_LOOKUP_ANSWERED && lookup->addresses.count == 0)
    lookup->end = TMESH_LOOKUP_NO_NAME;
  a->lookup_count--;
  if (!lookup->is_abandoned) a->owned_count--;
  lookup->ares = NULL;
  lookup->on_end(lookup);
}

void tmesh_ares_lookup(struct tmesh_ares* a, struct tmesh_lookup* lookup, const char* name) {
  struct ares_addrinfo_hints hints = {
      .ai_flags = ARES_AI_NOSORT, .ai_family = lookup->family, .ai_socktype = SOCK_STREAM};
  TMESH_ASSERT(lookup->ares == NULL);
  lookup->ares = a;
  lookup->addresses.count = 0;
  a->lookup_count++;
  a->owned_count++;
  ares_getaddrinfo(a->handle, name, NULL, &hints, on_answer, lookup);
}

void tmesh_lookup_abandon(struct tmesh_lookup* lookup) {
  if (lookup->is_abandoned) return;
  lookup->is_abandoned = true;
  if (lookup->ares) lookup->ares->owned_count--;
}

void tmesh_ares_sweep(struct tmesh_ares* a) {
  if (a->lookup_count > 0 && a->owned_count == 0) ares_cancel(a->handle);
}

uint64_t tmesh_ares_timeout_ms(const struct tmesh_ares* a) {
  struct timeval tv;
  const struct timeval* next = ares_timeout(a->handle, NULL, &tv);
  if (!next) return TMESH_LOOKUP_IDLE_MS;
  /* Rounded up: waking a fraction early would only mean waking twice. */
  return (uint64_t)next->tv_sec * 1000 + (uint64_t)next->tv_usec / 1000 + 1;
}

void tmesh_ares_expire(struct tmesh_ares* a) {
  ares_process_fd(a->handle, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}
