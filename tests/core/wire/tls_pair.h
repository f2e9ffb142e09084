/* A client and a server connection joined in memory, with ciphertext carried in pieces
 * of a chosen size. */
#ifndef TMESH_TESTS_TLS_PAIR_H
#define TMESH_TESTS_TLS_PAIR_H

#include "core/wire/tls.h"

/* What one end received but has not consumed, and how its handshake stands. */
struct tls_end {
  struct tmesh_tls* tls;
  struct tmesh_status st; /* AGAIN while the handshake goes on, then OK or the error */
  uint8_t* inbox;
  size_t inbox_len;
  size_t inbox_cap;
};

struct tls_pair {
  struct tls_end client;
  struct tls_end server;
  size_t piece_bytes; /* how much one delivery moves; >= 1 */
};

void tls_pair_open(struct tls_pair* p, struct tmesh_tls_config* client, struct tmesh_tls_config* server,
                   const char* name, size_t piece_bytes);
void tls_pair_close(struct tls_pair* p);

/* Runs both handshakes until neither can go on. True if both succeeded. */
bool tls_pair_handshake(struct tls_pair* p);

/* Moves at most piece_bytes of pending output from one end to the other's inbox;
 * returns how much. */
size_t tls_pair_carry(struct tls_pair* p, struct tls_end* from, struct tls_end* to);

/* One tmesh_tls_read on what is in the inbox. */
struct tmesh_status tls_end_read(struct tls_end* e, uint8_t* plain, size_t cap, size_t* n);

#endif
