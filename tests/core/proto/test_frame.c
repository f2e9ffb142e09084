#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/frame.h"

/* --- golden vectors, written by hand from the protocol description ---------------- */

struct golden {
  const char* hex; /* header, then payload */
  struct tmesh_frame_header header;
  const char* payload; /* of header.length_bytes bytes */
};

static const struct golden vectors[] = {
    /* version 01, type 01, flags 0004 STRICT_OPEN, stream 1, 54 bytes, window 262144 */
    {"01 01 0004 00000001 00000036 00040000"
     "7b 2270726f746f636f6c22 3a 2274637022 2c 227461726765745f686f737422 3a 22612e6222 2c"
     "227461726765745f706f727422 3a 34 7d",
     {TMESH_FRAME_OPEN_STREAM, TMESH_FLAG_STRICT_OPEN, 1, 54, 262144},
     "{\"protocol\":\"tcp\",\"target_host\":\"a.b\",\"target_port\":4}"},
    {"01 02 0000 00000001 00000003 00000000 000102", {TMESH_FRAME_DATA, 0, 1, 3, 0}, "\x00\x01\x02"},
    {"01 03 0000 00000007 00000000 00000000", {TMESH_FRAME_HALF_CLOSE, 0, 7, 0, 0}, ""},
    {"01 04 0000 ffffffff 0000000f 00000000 73747265616d2072656a6563746564",
     {TMESH_FRAME_RESET, 0, UINT32_MAX, 15, 0},
     "stream rejected"},
    {"01 05 0000 00000102 00000000 00020000", {TMESH_FRAME_WINDOW_UPDATE, 0, 258, 0, 131072}, ""},
    {"01 06 0000 00000000 00000012 00000000 6f70656e206c696d69742072656163686564",
     {TMESH_FRAME_GOAWAY, 0, 0, 18, 0},
     "open limit reached"},
    {"01 07 0000 00000000 00000008 00000000 0000000000000005",
     {TMESH_FRAME_PING, 0, 0, 8, 0},
     "\x00\x00\x00\x00\x00\x00\x00\x05"},
    {"01 08 0000 00000000 00000000 00000000", {TMESH_FRAME_PONG, 0, 0, 0, 0}, ""},
    {"01 09 0000 00000000 00000010 00000000 7b226167656e745f6964223a2261227d",
     {TMESH_FRAME_AGENT_HELLO, 0, 0, 16, 0},
     "{\"agent_id\":\"a\"}"},
    {"01 0a 0000 00000000 0000000e 00000000 7b227265766973696f6e223a327d",
     {TMESH_FRAME_AGENT_METADATA_UPDATE, 0, 0, 14, 0},
     "{\"revision\":2}"},
    {"01 0b 0000 00000000 00000011 00000000 7b226163636570746564223a747275657d",
     {TMESH_FRAME_AGENT_METADATA_ACK, 0, 0, 17, 0},
     "{\"accepted\":true}"},
    {"01 0c 0000 00000000 0000000f 00000000 7b2274726163654964223a2274227d",
     {TMESH_FRAME_TRACE_START, 0, 0, 15, 0},
     "{\"traceId\":\"t\"}"},
    {"01 0d 0000 00000000 00000009 00000000 7b22686f70223a317d",
     {TMESH_FRAME_TRACE_HOP, 0, 0, 9, 0},
     "{\"hop\":1}"},
    {"01 0e 0000 00000000 0000000b 00000000 7b22686f7073223a5b5d7d",
     {TMESH_FRAME_TRACE_END, 0, 0, 11, 0},
     "{\"hops\":[]}"},
    {"01 0f 0000 00000001 00000032 00000000"
     "7b226163636570746564223a747275652c227374616765223a22636f6e6e656374222c22636f6465223a226f6b22 7d 202020",
     {TMESH_FRAME_OPEN_RESULT, 0, 1, 50, 0},
     "{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\"}   "},
    {"01 10 0000 00000000 00000013 00000000 7b22696e7374616e63655f6964223a2263227d",
     {TMESH_FRAME_CLIENT_HELLO, 0, 0, 19, 0},
     "{\"instance_id\":\"c\"}"},
    {"01 11 0000 00000000 00000002 00000000 7b7d", {TMESH_FRAME_CLIENT_METADATA_UPDATE, 0, 0, 2, 0}, "{}"},
    {"01 12 0003 00000000 00000002 00000000 7b7d",
     {TMESH_FRAME_CLIENT_METADATA_ACK, TMESH_FLAG_FIN | TMESH_FLAG_ACK, 0, 2, 0},
     "{}"},
};
enum { VECTOR_COUNT = sizeof vectors / sizeof vectors[0] };

static int nibble(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

static size_t unhex(const char* hex, uint8_t* out) {
  size_t n = 0;
  for (; *hex != '\0'; hex += 2) {
    while (*hex == ' ') hex++;
    if (*hex == '\0') break;
    out[n++] = (uint8_t)(nibble(hex[0]) << 4 | nibble(hex[1]));
  }
  return n;
}

static void assert_same_header(const struct tmesh_frame_header* a, const struct tmesh_frame_header* b) {
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->flags, b->flags);
  assert_int_equal(a->stream_id, b->stream_id);
  assert_int_equal(a->length_bytes, b->length_bytes);
  assert_int_equal(a->window_bytes, b->window_bytes);
}

static void a_golden_vector_exists_for_every_type(void** state) {
  (void)state;
  assert_int_equal(VECTOR_COUNT, TMESH_FRAME_TYPE_MAX);
  for (unsigned i = 0; i < VECTOR_COUNT; i++) assert_int_equal(vectors[i].header.type, i + 1);
}

static void golden_vectors_decode(void** state) {
  (void)state;
  for (size_t i = 0; i < VECTOR_COUNT; i++) {
    uint8_t bytes[256];
    struct tmesh_frame_header h;
    size_t n = unhex(vectors[i].hex, bytes);
    assert_int_equal(n, TMESH_FRAME_HEADER_BYTES + vectors[i].header.length_bytes);
    assert_int_equal(tmesh_frame_header_decode(&h, bytes).code, TMESH_OK);
    assert_same_header(&h, &vectors[i].header);
    assert_memory_equal(bytes + TMESH_FRAME_HEADER_BYTES, vectors[i].payload, h.length_bytes);
  }
}

static void golden_vectors_encode(void** state) {
  (void)state;
  for (size_t i = 0; i < VECTOR_COUNT; i++) {
    uint8_t bytes[256];
    uint8_t out[TMESH_FRAME_HEADER_BYTES];
    unhex(vectors[i].hex, bytes);
    assert_int_equal(tmesh_frame_header_encode(out, &vectors[i].header).code, TMESH_OK);
    assert_memory_equal(out, bytes, sizeof out);
  }
}

/* --- rules of the header --------------------------------------------------------- */

static void payload_limits_per_type(void** state) {
  (void)state;
  for (unsigned type = 1; type <= 18; type++) {
    uint32_t want = 1048576;
    if ((type >= 9 && type <= 14) || type >= 16) want = 32768;
    if (type == 15) want = 1024;
    assert_int_equal(tmesh_frame_payload_max(type), want);
    struct tmesh_frame_header h = {(uint8_t)type, 0, 1, want, 1};
    uint8_t bytes[TMESH_FRAME_HEADER_BYTES];
    struct tmesh_frame_header back;
    assert_int_equal(tmesh_frame_header_encode(bytes, &h).code, TMESH_OK);
    assert_int_equal(tmesh_frame_header_decode(&back, bytes).code, TMESH_OK);
    h.length_bytes = want + 1;
    assert_int_equal(tmesh_frame_header_encode(bytes, &h).code, TMESH_E_FRAME_LENGTH);
    bytes[8] = (uint8_t)((want + 1) >> 24);
    bytes[9] = (uint8_t)((want + 1) >> 16);
    bytes[10] = (uint8_t)((want + 1) >> 8);
    bytes[11] = (uint8_t)(want + 1);
    struct tmesh_status st = tmesh_frame_header_decode(&back, bytes);
    assert_int_equal(st.code, TMESH_E_FRAME_LENGTH);
    assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  }
  assert_int_equal(tmesh_frame_payload_max(0), 0);
  assert_int_equal(tmesh_frame_payload_max(19), 0);
  assert_int_equal(tmesh_frame_payload_max(UINT32_MAX), 0);
}

static void stream_id_zero_is_legal_exactly_for_link_types(void** state) {
  (void)state;
  for (unsigned type = 1; type <= 18; type++) {
    int is_stream = type <= 5 || type == 15;
    struct tmesh_frame_header h = {(uint8_t)type, 0, 0, 0, 1};
    uint8_t bytes[TMESH_FRAME_HEADER_BYTES] = {1, (uint8_t)type, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    assert_int_equal(tmesh_frame_is_stream_scoped(type), is_stream);
    struct tmesh_status st = tmesh_frame_header_decode(&h, bytes);
    assert_int_equal(st.code, is_stream ? TMESH_E_FRAME_STREAM_ID : TMESH_OK);
    assert_int_equal(st.scope, is_stream ? TMESH_SCOPE_SESSION : TMESH_SCOPE_NONE);
    assert_int_equal(tmesh_frame_header_encode(bytes, &h).code, st.code);
    bytes[7] = 9; /* and a link type may carry a stream id */
    assert_int_equal(tmesh_frame_header_decode(&h, bytes).code, TMESH_OK);
    assert_int_equal(h.stream_id, 9);
  }
  assert_false(tmesh_frame_is_stream_scoped(0));
  assert_false(tmesh_frame_is_stream_scoped(19));
}

static void type_names_are_complete(void** state) {
  (void)state;
  assert_string_equal(tmesh_frame_type_name(1), "OPEN_STREAM");
  assert_string_equal(tmesh_frame_type_name(15), "OPEN_RESULT");
  assert_string_equal(tmesh_frame_type_name(18), "CLIENT_METADATA_ACK");
  assert_string_equal(tmesh_frame_type_name(0), "UNKNOWN");
  assert_string_equal(tmesh_frame_type_name(19), "UNKNOWN");
  for (unsigned i = 1; i <= 18; i++) {
    for (unsigned k = 1; k < i; k++)
      assert_string_not_equal(tmesh_frame_type_name(i), tmesh_frame_type_name(k));
  }
}

/* One header with everything wrong, mended step by step: each step uncovers the next check. */
static void checks_run_in_order_version_type_length_id_window(void** state) {
  (void)state;
  struct tmesh_frame_header h;
  uint8_t b[TMESH_FRAME_HEADER_BYTES] = {2, 99, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0};
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_E_FRAME_VERSION);
  b[0] = 0;
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_E_FRAME_VERSION);
  b[0] = 1;
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_E_FRAME_TYPE);
  b[1] = 0;
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_E_FRAME_TYPE);
  b[1] = 19;
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_E_FRAME_TYPE);
  b[1] = TMESH_FRAME_WINDOW_UPDATE;
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_E_FRAME_LENGTH);
  memset(b + 8, 0, 4);
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_E_FRAME_STREAM_ID);
  b[7] = 3;
  struct tmesh_status st = tmesh_frame_header_decode(&h, b);
  assert_int_equal(st.code, TMESH_E_WINDOW_ZERO);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
  assert_int_equal(h.type, TMESH_FRAME_WINDOW_UPDATE); /* filled, so that the stream can be reset */
  assert_int_equal(h.stream_id, 3);
  b[15] = 1;
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_OK);
}

static void unknown_flag_bits_are_kept(void** state) {
  (void)state;
  struct tmesh_frame_header h = {TMESH_FRAME_DATA, 0xFFFF, 1, 0, 0};
  uint8_t b[TMESH_FRAME_HEADER_BYTES];
  assert_int_equal(tmesh_frame_header_encode(b, &h).code, TMESH_OK);
  h.flags = 0;
  assert_int_equal(tmesh_frame_header_decode(&h, b).code, TMESH_OK);
  assert_int_equal(h.flags, 0xFFFF);
}

static void encode_refuses_what_decode_would_refuse(void** state) {
  (void)state;
  uint8_t b[TMESH_FRAME_HEADER_BYTES];
  struct tmesh_frame_header unknown = {19, 0, 1, 0, 0};
  struct tmesh_frame_header zero_window = {TMESH_FRAME_WINDOW_UPDATE, 0, 1, 0, 0};
  assert_int_equal(tmesh_frame_header_encode(b, &unknown).code, TMESH_E_FRAME_TYPE);
  assert_int_equal(tmesh_frame_header_encode(b, &zero_window).code, TMESH_E_WINDOW_ZERO);
}

/* --- incremental decoding ---------------------------------------------------------- */

/* What a decoder said about one message fed in pieces. */
struct outcome {
  struct tmesh_frame_header header;
  int header_count;
  int end_count;
  uint8_t payload[512];
  size_t payload_len;
  struct tmesh_status st;
};

static struct outcome decode_pieces(const uint8_t* bytes, size_t n, size_t piece) {
  struct outcome o;
  struct tmesh_frame_decoder d;
  memset(&o, 0, sizeof o);
  tmesh_frame_decoder_begin(&d);
  for (size_t at = 0; at < n; at += piece) {
    size_t len = n - at < piece ? n - at : piece;
    const uint8_t* in = bytes + at;
    for (;;) {
      struct tmesh_frame_event e;
      size_t used = 0;
      o.st = tmesh_frame_decode(&d, in, len, &used, &e);
      if (!tmesh_is_ok(o.st)) return o;
      assert_true(used <= len);
      if (e.kind == TMESH_FRAME_EVENT_HEADER) {
        o.header_count++;
        o.header = d.header;
      }
      if (e.kind == TMESH_FRAME_EVENT_PAYLOAD) {
        assert_ptr_equal(e.data, in);
        assert_true(e.len_bytes > 0);
        assert_int_equal(e.len_bytes, used);
        assert_int_equal(o.end_count, 0);
        memcpy(o.payload + o.payload_len, e.data, e.len_bytes);
        o.payload_len += e.len_bytes;
      }
      if (e.kind == TMESH_FRAME_EVENT_END) o.end_count++;
      in += used;
      len -= used;
      if (e.kind == TMESH_FRAME_EVENT_NONE) {
        assert_int_equal(len, 0);
        break;
      }
    }
  }
  o.st = tmesh_frame_decoder_finish(&d);
  return o;
}

static void every_piece_size_decodes_like_the_whole(void** state) {
  (void)state;
  for (size_t i = 0; i < VECTOR_COUNT; i++) {
    uint8_t bytes[256];
    size_t n = unhex(vectors[i].hex, bytes);
    for (size_t piece = 1; piece <= n; piece++) {
      struct outcome o = decode_pieces(bytes, n, piece);
      assert_int_equal(o.st.code, TMESH_OK);
      assert_int_equal(o.header_count, 1);
      assert_int_equal(o.end_count, 1);
      assert_same_header(&o.header, &vectors[i].header);
      assert_int_equal(o.payload_len, vectors[i].header.length_bytes);
      assert_memory_equal(o.payload, vectors[i].payload, o.payload_len);
    }
  }
}

static void bytes_after_the_frame_are_ignored(void** state) {
  (void)state;
  uint8_t bytes[256];
  size_t n = unhex(vectors[1].hex, bytes);
  memset(bytes + n, 0xEE, 20);
  for (size_t piece = 1; piece <= n + 20; piece++) {
    struct outcome o = decode_pieces(bytes, n + 20, piece);
    assert_int_equal(o.st.code, TMESH_OK);
    assert_int_equal(o.end_count, 1);
    assert_int_equal(o.payload_len, 3);
    assert_memory_equal(o.payload, vectors[1].payload, 3);
  }
}

static void every_truncation_is_truncated_with_session_scope(void** state) {
  (void)state;
  for (size_t i = 0; i < VECTOR_COUNT; i++) {
    uint8_t bytes[256];
    size_t n = unhex(vectors[i].hex, bytes);
    for (size_t cut = 0; cut < n; cut++) {
      struct outcome o = decode_pieces(bytes, cut, 5);
      assert_int_equal(o.st.code, TMESH_E_TRUNCATED);
      assert_int_equal(o.st.scope, TMESH_SCOPE_SESSION);
      assert_int_equal(o.end_count, 0);
    }
  }
}

static void header_errors_surface_with_any_split(void** state) {
  (void)state;
  const uint8_t bytes[20] = {1, 77, 0, 0, 0, 0, 0, 1};
  for (size_t piece = 1; piece <= sizeof bytes; piece++) {
    struct outcome o = decode_pieces(bytes, sizeof bytes, piece);
    assert_int_equal(o.st.code, TMESH_E_FRAME_TYPE);
    assert_int_equal(o.st.scope, TMESH_SCOPE_SESSION);
    assert_int_equal(o.header_count, 0);
  }
}

static void a_zero_window_update_still_yields_its_header(void** state) {
  (void)state;
  const uint8_t bytes[16] = {1, TMESH_FRAME_WINDOW_UPDATE, 0, 0, 0, 0, 0, 8};
  struct outcome o = decode_pieces(bytes, sizeof bytes, 16);
  assert_int_equal(o.st.code, TMESH_OK);
  assert_int_equal(o.header_count, 1);
  assert_int_equal(o.header.stream_id, 8);
  assert_int_equal(o.header.window_bytes, 0);
}

static void begin_starts_the_next_message_from_anywhere(void** state) {
  (void)state;
  struct tmesh_frame_decoder d;
  struct tmesh_frame_event e;
  size_t used = 0;
  uint8_t bytes[256];
  unhex(vectors[1].hex, bytes);
  tmesh_frame_decoder_begin(&d);
  assert_int_equal(tmesh_frame_decode(&d, bytes, 9, &used, &e).code, TMESH_OK);
  tmesh_frame_decoder_begin(&d);
  assert_int_equal(tmesh_frame_decode(&d, bytes, 19, &used, &e).code, TMESH_OK);
  assert_int_equal(e.kind, TMESH_FRAME_EVENT_HEADER);
  assert_int_equal(used, 16);
}

static void the_largest_payload_passes_without_a_buffer(void** state) {
  (void)state;
  struct tmesh_frame_header h = {TMESH_FRAME_DATA, 0, 1, TMESH_PAYLOAD_MAX_BYTES, 0};
  struct tmesh_frame_decoder d;
  struct tmesh_frame_event e;
  uint8_t* message = calloc(1, TMESH_MESSAGE_MAX_BYTES);
  size_t used = 0;
  assert_non_null(message);
  assert_int_equal(tmesh_frame_header_encode(message, &h).code, TMESH_OK);
  tmesh_frame_decoder_begin(&d);
  assert_int_equal(tmesh_frame_decode(&d, message, TMESH_MESSAGE_MAX_BYTES, &used, &e).code, TMESH_OK);
  assert_int_equal(used, 16);
  assert_int_equal(tmesh_frame_decode(&d, message + 16, TMESH_PAYLOAD_MAX_BYTES, &used, &e).code, TMESH_OK);
  assert_int_equal(e.kind, TMESH_FRAME_EVENT_PAYLOAD);
  assert_int_equal(e.len_bytes, TMESH_PAYLOAD_MAX_BYTES);
  assert_int_equal(tmesh_frame_decode(&d, NULL, 0, &used, &e).code, TMESH_OK);
  assert_int_equal(e.kind, TMESH_FRAME_EVENT_END);
  free(message);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_golden_vector_exists_for_every_type),
      cmocka_unit_test(golden_vectors_decode),
      cmocka_unit_test(golden_vectors_encode),
      cmocka_unit_test(payload_limits_per_type),
      cmocka_unit_test(stream_id_zero_is_legal_exactly_for_link_types),
      cmocka_unit_test(type_names_are_complete),
      cmocka_unit_test(checks_run_in_order_version_type_length_id_window),
      cmocka_unit_test(unknown_flag_bits_are_kept),
      cmocka_unit_test(encode_refuses_what_decode_would_refuse),
      cmocka_unit_test(every_piece_size_decodes_like_the_whole),
      cmocka_unit_test(bytes_after_the_frame_are_ignored),
      cmocka_unit_test(every_truncation_is_truncated_with_session_scope),
      cmocka_unit_test(header_errors_surface_with_any_split),
      cmocka_unit_test(a_zero_window_update_still_yields_its_header),
      cmocka_unit_test(begin_starts_the_next_message_from_anywhere),
      cmocka_unit_test(the_largest_payload_passes_without_a_buffer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
