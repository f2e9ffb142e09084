#include "tests/core/wire/tls_pair.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

void tls_pair_open(struct tls_pair* p, struct tmesh_tls_config* client, struct tmesh_tls_config* server,
                   const char* name, size_t piece_bytes) {
  memset(p, 0, sizeof *p);
  p->piece_bytes = piece_bytes;
  TMESH_ASSERT(tmesh_is_ok(tmesh_tls_new(client, name, &p->client.tls)));
  TMESH_ASSERT(tmesh_is_ok(tmesh_tls_new(server, NULL, &p->server.tls)));
  p->client.st = tmesh_again();
  p->server.st = tmesh_again();
}

static void end_close(struct tls_end* e) {
  tmesh_tls_free(e->tls);
  free(e->inbox);
}

void tls_pair_close(struct tls_pair* p) {
  end_close(&p->client);
  end_close(&p->server);
}

size_t tls_pair_carry(struct tls_pair* p, struct tls_end* from, struct tls_end* to) {
  const uint8_t* data;
  size_t n;

  tmesh_tls_pending(from->tls, &data, &n);
  if (n > p->piece_bytes) n = p->piece_bytes;
  if (n == 0) return 0;
  if (to->inbox_cap - to->inbox_len < n) {
    to->inbox_cap = (to->inbox_len + n) * 2;
    to->inbox = realloc(to->inbox, to->inbox_cap);
    TMESH_ASSERT(to->inbox != NULL);
  }
  memcpy(to->inbox + to->inbox_len, data, n);
  to->inbox_len += n;
  tmesh_tls_sent(from->tls, n);
  return n;
}

static void drop(struct tls_end* e, size_t n) {
  TMESH_ASSERT(n <= e->inbox_len);
  if (n > 0) memmove(e->inbox, e->inbox + n, e->inbox_len - n);
  e->inbox_len -= n;
}

/* One step; true if something happened. */
static bool end_step(struct tls_end* e) {
  struct tmesh_status st;
  size_t used;

  if (e->st.code != TMESH_E_AGAIN) return false;
  st = tmesh_tls_handshake_step(e->tls, e->inbox, e->inbox_len, &used);
  drop(e, used);
  if (tmesh_is_ok(st)) {
    if (tmesh_tls_handshake_done(e->tls)) e->st = st;
    return true;
  }
  e->st = st;
  return used > 0 || st.code != TMESH_E_AGAIN;
}

bool tls_pair_handshake(struct tls_pair* p) {
  bool is_moving = true;

  while (is_moving) {
    is_moving = end_step(&p->client);
    is_moving |= end_step(&p->server);
    is_moving |= tls_pair_carry(p, &p->client, &p->server) > 0;
    is_moving |= tls_pair_carry(p, &p->server, &p->client) > 0;
  }
  return tmesh_is_ok(p->client.st) && tmesh_is_ok(p->server.st);
}

struct tmesh_status tls_end_read(struct tls_end* e, uint8_t* plain, size_t cap, size_t* n) {
  size_t used;
  struct tmesh_status st = tmesh_tls_read(e->tls, e->inbox, e->inbox_len, &used, plain, cap, n);
  drop(e, used);
  return st;
}
