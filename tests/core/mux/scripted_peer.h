/* A mux under test whose peer is the test itself: frames go in one by one and the
 * frames that come out are kept in a list. */
#ifndef TMESH_TESTS_MUX_SCRIPTED_PEER_H
#define TMESH_TESTS_MUX_SCRIPTED_PEER_H

/* cmocka.h needs these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/mux/mux.h"

#define PEER_FRAMES_MAX 16384
#define PEER_BYTES_MAX (8u << 20)
#define PEER_USERS_MAX 4096

struct sent_frame {
  struct tmesh_frame_header header;
  const uint8_t* payload;
};

/* What a stream's user saw. */
struct seen {
  struct tmesh_stream* stream;
  uint32_t id;
  unsigned events; /* all bits ever delivered */
  unsigned over_count, result_count, readable_count, written_count;
  size_t written_bytes;
  struct tmesh_status over;
  struct tmesh_open_result result;
};

enum on_open_choice { OPEN_LATER, OPEN_ACCEPT, OPEN_REFUSE, OPEN_IGNORE, OPEN_RESET, OPEN_RELEASE };

struct peer {
  struct tmesh_pool pool;
  struct tmesh_mux mux;

  struct sent_frame frames[PEER_FRAMES_MAX];
  size_t frames_count;
  uint8_t* bytes;
  size_t bytes_used;
  uint8_t* at; /* message being written */
  size_t at_len;

  struct seen users[PEER_USERS_MAX];
  size_t users_count;
  enum on_open_choice on_open;
  struct tmesh_open_stream last_open;

  /* called by the mux when the pool refuses; NULL = does nothing */
  void (*on_memory_full)(struct peer* p, const struct tmesh_stream* keep);
  unsigned memory_full_count;
  unsigned dirty_count, goaway_count, pong_count, control_count;
  uint8_t last_control[TMESH_METADATA_MAX_BYTES];
  size_t last_control_len;
  struct tmesh_status control_answer;
};

/* Defaults: acceptor, strict and windows negotiated, not one of ours. */
struct tmesh_mux_config peer_config(void);
struct peer* peer_new(const struct tmesh_mux_config* config);
struct peer* peer_new_acceptor(void);
struct peer* peer_new_opener(void);
/* One of ours, with early data. */
struct peer* peer_new_early(bool is_opener);
/* Releases what is left, closes, and checks that every block came back. */
void peer_free(struct peer* p);

/* Injects one frame, the payload in two pieces, and checks the mux after it. */
struct tmesh_status peer_frame_status(struct peer* p, uint8_t type, uint16_t flags, uint32_t id,
                                      uint32_t window, const void* payload, size_t len);
/* The same, expecting that the session lives. */
void peer_frame(struct peer* p, uint8_t type, uint32_t id, const void* payload, size_t len);
void peer_data(struct peer* p, uint32_t id, size_t len);
void peer_update(struct peer* p, uint32_t id, uint32_t window);
void peer_open(struct peer* p, uint32_t id, uint16_t flags, uint32_t window);
/* An acceptor's stream, opened strict with windows and accepted; output flushed. */
struct tmesh_stream* peer_opened(struct peer* p, uint32_t id);
/* The same, and its first 16 KiB count as sent: it is bulk from now on. */
struct tmesh_stream* peer_bulk(struct peer* p, uint32_t id);
/* The same for a stream of protocol udp, and one that is accepted; legacy, with a window announced. */
void peer_open_udp(struct peer* p, uint32_t id, uint16_t flags, uint32_t window);
struct tmesh_stream* peer_opened_udp(struct peer* p, uint32_t id);
void peer_result(struct peer* p, uint32_t id, struct tmesh_open_result result);

struct tmesh_sink peer_sink(struct peer* p);
/* Pulls until nothing is left, reporting every batch written, then dispatches. */
void peer_flush(struct peer* p);
void peer_dispatch(struct peer* p);
/* Forgets the frames seen so far. */
void peer_forget(struct peer* p);
/* How many frames of this type (and id, if not 0) were sent since the last forget. */
size_t peer_sent(const struct peer* p, unsigned type, uint32_t id);
const struct sent_frame* peer_last(const struct peer* p);

/* An opener's stream, attached. */
struct seen* peer_start(struct peer* p, bool is_strict, uint32_t window);
struct seen* peer_user(struct peer* p, uint32_t id);
/* The mux's stream of this id, or NULL. */
struct tmesh_stream* peer_stream(struct peer* p, uint32_t id);
/* Routes the events of u->stream into u. */
void peer_attach(struct seen* u);
struct tmesh_open_stream sample_open(void);
/* Bytes that tell their place. */
void peer_pattern(uint8_t* bytes, size_t n);

/* An acceptor with the open streams 1 and 2. */
struct peer* peer_two_streams(void);
/* Stream 1 ended with this code and RESET, stream 2 and the link live. Frees the peer. */
void peer_expect_reset_of_1(struct peer* p, unsigned code);

#endif
