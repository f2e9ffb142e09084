/* Links for the tests of core/loop/link: a recorder around one link, and a peer that
 * speaks raw WebSocket frames over a plain socket. */
#ifndef TMESH_TESTS_LINK_SUPPORT_H
#define TMESH_TESTS_LINK_SUPPORT_H

#include "core/loop/link.h"
#include "tests/core/loop/loop_support.h"

#define TEST_STREAMS_MAX 64

struct test_link {
  struct tmesh_transport transport;
  struct tmesh_link link;
  bool is_ready, is_transport_closed; /* before the link has the transport */
  unsigned down_count, closed_count, control_count, pong_count, goaway_count, over_count;
  struct tmesh_status down;
  char order[128]; /* O = a stream is over, D = down, C = closed */
  struct tmesh_frame_header control;
  uint8_t control_payload[64];
  size_t control_len_bytes;
  unsigned disorder_count; /* metadata frames whose 8-digit number was not control_count */
  struct tmesh_stream* streams[TEST_STREAMS_MAX]; /* accepted; NULL = released */
  unsigned stream_count;
  uint64_t stream_got_bytes; /* read from accepted streams */
  /* what handlers do */
  bool fails_in_control, closes_in_down, holds_streams, streams_read_nothing;
  /* attaches and answers the new stream instead of the recorder */
  void (*on_stream)(void* ctx, struct tmesh_stream* s);
  void* ctx;
};

/* A transport on fd, over TLS with a configuration; ready when is_ready. */
void test_link_start(struct test_link* t, int fd, bool is_client, struct tmesh_tls_config* config,
                     const char* server_name);
/* A link on fd; its client side opens streams. Runs the loop until the transport is ready. */
void test_link_open(struct test_link* t, int fd, bool is_client, const void* early, size_t early_bytes);
/* The same over a transport that is ready. */
void test_link_take(struct test_link* t, bool is_client, const void* early, size_t early_bytes);
struct tmesh_status test_link_try_take(struct test_link* t, bool is_client, const void* early,
                                       size_t early_bytes);
/* The events of a transport before the link has it. */
extern const struct tmesh_transport_events test_link_before;
/* For streams this side opens or accepts: reads everything, releases when over. */
void test_link_attach(struct test_link* t, struct tmesh_stream* s);
struct tmesh_stream* test_link_stream(struct test_link* t);
/* Runs until the link is closed and checks what must hold then. */
void test_link_closed(struct test_link* t);

/* --- the raw peer -------------------------------------------------------------------- */

struct raw_peer {
  int fd;
  bool is_client; /* masks what it sends */
  struct tmesh_ws_decoder ws;
  uint8_t in[1 << 17];
  size_t in_bytes;
  /* the newest complete message or control frame */
  enum tmesh_ws_event_kind kind;
  uint16_t close_code;
  uint8_t message[1 << 17];
  size_t message_bytes;
  bool is_eof;
};

void raw_open(struct raw_peer* p, int fd, bool is_client);
/* One WebSocket frame. */
void raw_send(struct raw_peer* p, bool fin, enum tmesh_ws_opcode opcode, const void* payload, size_t n);
/* One protocol frame as one binary message. */
void raw_send_frame(struct raw_peer* p, struct tmesh_frame_header h, const void* payload);
/* The bytes of a protocol frame; returns how many. */
size_t raw_frame_bytes(uint8_t* out, struct tmesh_frame_header h, const void* payload);
/* Whether a message or control frame came (then in p); leaves later ones for later. */
bool raw_next(struct raw_peer* p);
/* Runs until a protocol frame of this type came; others are skipped. */
struct tmesh_frame_header raw_wait_frame(struct raw_peer* p, unsigned type);
/* Runs until a WebSocket event of this kind came; others are skipped. */
void raw_wait(struct raw_peer* p, enum tmesh_ws_event_kind kind);

/* --- the usual arrangements ------------------------------------------------------------ */

/* a: client and opener, b: server, joined over TCP. */
extern struct test_link a, b;
/* Instead of a, when b is tried against raw frames. */
extern struct raw_peer peer;

void open_two(void);
void close_two(void);
void open_raw(bool link_is_client);
/* Runs until b went down, for this reason. */
void expect_down(enum tmesh_code code);
/* The peer leaves; b must close. */
void end_raw(void);
void open_stream_from_peer(uint32_t id);
struct tmesh_frame_header header(unsigned type, uint32_t id, size_t len);

#endif
