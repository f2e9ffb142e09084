/* Frame decoder: a message in any pieces decodes like the whole, and what decodes
 * encodes back to the same header. Input: one byte that seeds the piece sizes, then
 * the message. */
#include <string.h>

#include "core/proto/frame.h"
#include "fuzz/fuzz.h"

/* What a decoder said about one message. */
struct outcome {
  struct tmesh_frame_header header;
  unsigned header_count;
  unsigned end_count;
  size_t payload_len_bytes;
  uint8_t code;
  uint8_t scope;
};

/* Feeds one piece; payload must be the message's own bytes, in order and without gaps. */
static struct tmesh_status feed(struct tmesh_frame_decoder* d, const uint8_t* message, const uint8_t* in,
                                size_t len, struct outcome* o) {
  for (;;) {
    struct tmesh_frame_event e;
    size_t used = 0;
    struct tmesh_status st = tmesh_frame_decode(d, in, len, &used, &e);
    if (!tmesh_is_ok(st)) return st;
    FUZZ_CHECK(used <= len);
    in += used;
    len -= used;
    switch (e.kind) {
      case TMESH_FRAME_EVENT_NONE:
        FUZZ_CHECK(len == 0);
        return st;
      case TMESH_FRAME_EVENT_HEADER:
        FUZZ_CHECK(o->payload_len_bytes == 0 && o->end_count == 0);
        o->header_count++;
        o->header = d->header;
        break;
      case TMESH_FRAME_EVENT_PAYLOAD:
        FUZZ_CHECK(e.len_bytes > 0 && o->header_count == 1 && o->end_count == 0);
        FUZZ_CHECK(e.data == message + TMESH_FRAME_HEADER_BYTES + o->payload_len_bytes);
        o->payload_len_bytes += e.len_bytes;
        break;
      case TMESH_FRAME_EVENT_END:
        o->end_count++;
        break;
    }
  }
}

/* piece_seed 0 = the whole message at once. */
static struct outcome decode(const uint8_t* message, size_t size, unsigned piece_seed) {
  struct outcome o;
  struct tmesh_frame_decoder d;
  struct tmesh_status st = tmesh_ok();
  uint32_t random = piece_seed;
  memset(&o, 0, sizeof o);
  tmesh_frame_decoder_begin(&d);
  for (size_t at = 0; at < size && tmesh_is_ok(st);) {
    size_t len = size - at;
    random = random * 1664525u + 1013904223u;
    size_t piece = 1 + (random >> 24) % 23;
    if (piece_seed != 0 && piece < len) len = piece;
    st = feed(&d, message, message + at, len, &o);
    at += len;
  }
  if (tmesh_is_ok(st)) st = tmesh_frame_decoder_finish(&d);
  o.code = st.code;
  o.scope = st.scope;
  return o;
}

/* Member by member: the bytes between them hold anything. */
static bool is_same_header(const struct tmesh_frame_header* a, const struct tmesh_frame_header* b) {
  return a->type == b->type && a->flags == b->flags && a->stream_id == b->stream_id &&
         a->length_bytes == b->length_bytes && a->window_bytes == b->window_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t* message = data + 1;
  size--;
  struct outcome whole = decode(message, size, 0);
  struct outcome pieces = decode(message, size, 1u + data[0]);
  FUZZ_CHECK(whole.code == pieces.code && whole.scope == pieces.scope);
  FUZZ_CHECK(whole.header_count == pieces.header_count && whole.end_count == pieces.end_count);
  FUZZ_CHECK(whole.payload_len_bytes == pieces.payload_len_bytes);
  FUZZ_CHECK(is_same_header(&whole.header, &pieces.header));

  FUZZ_CHECK(whole.code == TMESH_OK || whole.scope == TMESH_SCOPE_SESSION);
  FUZZ_CHECK((whole.code == TMESH_OK) == (whole.end_count == 1));
  if (whole.code != TMESH_OK) return 0;
  FUZZ_CHECK(whole.payload_len_bytes == whole.header.length_bytes);
  FUZZ_CHECK(whole.header.length_bytes <= tmesh_frame_payload_max(whole.header.type));

  uint8_t again[TMESH_FRAME_HEADER_BYTES];
  struct tmesh_status st = tmesh_frame_header_encode(again, &whole.header);
  FUZZ_CHECK(tmesh_is_ok(st) || st.code == TMESH_E_WINDOW_ZERO);
  if (tmesh_is_ok(st)) FUZZ_CHECK(memcmp(again, message, sizeof again) == 0);
  return 0;
}
