/* The WebSocket codec against RFC 6455 and the rules of ws.h. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/core/wire/ws_transcript.h"

#define ROOM (TMESH_WS_MESSAGE_MAX_BYTES)

static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};

static size_t one_byte(void* context) {
  (void)context;
  return 1;
}

/* Decodes bytes whole and byte by byte; both must say `expected`. */
static void expect(enum tmesh_ws_role role, const void* bytes, size_t n, const char* expected) {
  const ws_transcript_chunk chunks[] = {NULL, one_byte};
  for (size_t i = 0; i < 2; i++) {
    struct ws_transcript t;
    ws_transcript_init(&t);
    ws_transcript_run(&t, role, ROOM, bytes, n, chunks[i], NULL);
    assert_string_equal(t.text, expected);
    ws_transcript_free(&t);
  }
}
#define EXPECT(role, expected, ...)                \
  do {                                             \
    const uint8_t bytes_[] = {__VA_ARGS__};        \
    expect(role, bytes_, sizeof bytes_, expected); \
  } while (0)
#define CLIENT TMESH_WS_CLIENT
#define SERVER TMESH_WS_SERVER

/* --- encoder ------------------------------------------------------------------ */

static void expect_header(uint64_t len, bool is_masked, const void* expected, size_t n) {
  uint8_t out[TMESH_WS_HEADER_MAX_BYTES];
  assert_int_equal(tmesh_ws_header_encode(out, TMESH_WS_OP_BINARY, len, is_masked, key), n);
  assert_memory_equal(out, expected, n);
}

static void test_header_uses_the_shortest_length_form(void** state) {
  (void)state;
  expect_header(0, false, "\x82\x00", 2);
  expect_header(125, false, "\x82\x7d", 2);
  expect_header(126, false, "\x82\x7e\x00\x7e", 4);
  expect_header(65535, false, "\x82\x7e\xff\xff", 4);
  expect_header(65536, false, "\x82\x7f\0\0\0\0\0\1\0\0", 10);
  expect_header(INT64_MAX, false, "\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", 10);
  expect_header(5, true, "\x82\x85\x37\xfa\x21\x3d", 6);
  expect_header(65536, true, "\x82\xff\0\0\0\0\0\1\0\0\x37\xfa\x21\x3d", 14);
}

static void test_control_encode_writes_the_rfc_pong(void** state) {
  static const uint8_t masked[] = {0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58};
  static const uint8_t ping[] = {0x89, 0x05, 'H', 'e', 'l', 'l', 'o'};
  uint8_t out[TMESH_WS_CONTROL_FRAME_MAX_BYTES];
  (void)state;
  assert_int_equal(tmesh_ws_control_encode(out, TMESH_WS_OP_PONG, (const uint8_t*)"Hello", 5, true, key), 11);
  assert_memory_equal(out, masked, sizeof masked);
  assert_int_equal(tmesh_ws_control_encode(out, TMESH_WS_OP_PING, (const uint8_t*)"Hello", 5, false, NULL),
                   7);
  assert_memory_equal(out, ping, sizeof ping);
  assert_int_equal(tmesh_ws_control_encode(out, TMESH_WS_OP_PING, NULL, 0, false, NULL), 2);
}

static void test_close_encode_writes_a_code_or_nothing(void** state) {
  uint8_t out[TMESH_WS_CONTROL_FRAME_MAX_BYTES];
  (void)state;
  assert_int_equal(tmesh_ws_close_encode(out, 1000, false, NULL), 4);
  assert_memory_equal(out, "\x88\x02\x03\xe8", 4);
  assert_int_equal(tmesh_ws_close_encode(out, TMESH_WS_CLOSE_NO_STATUS, false, NULL), 2);
  assert_memory_equal(out, "\x88\x00", 2);
  assert_int_equal(tmesh_ws_close_encode(out, 1009, true, key), 8);
  EXPECT(SERVER, "{1009:}", out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7]);
}

static void test_mask_copy_equals_the_naive_loop_at_every_alignment(void** state) {
  enum { SPAN = 96 };
  uint8_t src[SPAN + 16], dst[SPAN + 16], same[SPAN + 16];
  (void)state;
  for (size_t i = 0; i < sizeof src; i++) src[i] = (uint8_t)(i * 37 + 11);
  for (size_t s = 0; s < 8; s++) {
    for (size_t d = 0; d < 8; d++) {
      for (size_t offset = 0; offset < 5; offset++) {
        for (size_t n = 0; n <= SPAN; n++) {
          memset(dst, 0xEE, sizeof dst);
          memcpy(same, src, sizeof same);
          tmesh_ws_mask_copy(dst + d, src + s, n, key, offset);
          tmesh_ws_mask_copy(same + s, same + s, n, key, offset);
          for (size_t i = 0; i < n; i++) {
            const uint8_t want = (uint8_t)(src[s + i] ^ key[(offset + i) % 4]);
            if (dst[d + i] != want || same[s + i] != want)
              fail_msg("s %zu d %zu o %zu n %zu i %zu", s, d, offset, n, i);
          }
          if (dst[d + n] != 0xEE || (d > 0 && dst[d - 1] != 0xEE))
            fail_msg("wrote outside: d %zu n %zu", d, n);
          assert_int_equal(same[s + n], src[s + n]);
        }
      }
    }
  }
}

/* --- RFC 6455 section 5.7, with the binary opcode where it shows text ------------ */

static void test_rfc_single_unmasked_frame(void** state) {
  (void)state;
  EXPECT(CLIENT, "(48656c6c6f)", 0x82, 0x05, 'H', 'e', 'l', 'l', 'o');
  EXPECT(CLIENT, "!ws_text", 0x81, 0x05, 'H', 'e', 'l', 'l', 'o');
}

static void test_rfc_single_masked_frame(void** state) {
  (void)state;
  EXPECT(SERVER, "(48656c6c6f)", 0x82, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58);
  EXPECT(SERVER, "!ws_text", 0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58);
}

static void test_rfc_fragmented_message(void** state) {
  (void)state;
  EXPECT(CLIENT, "(48656c6c6f)", 0x02, 0x03, 'H', 'e', 'l', 0x80, 0x02, 'l', 'o');
}

static void test_rfc_ping_and_masked_pong(void** state) {
  (void)state;
  EXPECT(CLIENT, "<48656c6c6f>", 0x89, 0x05, 'H', 'e', 'l', 'l', 'o');
  EXPECT(SERVER, "[48656c6c6f]", 0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58);
}

/* A frame of n bytes 0, 1, 2 ... and its transcript. */
static void expect_long(const uint8_t* header, size_t header_bytes, size_t n) {
  uint8_t* frame = malloc(header_bytes + n);
  struct ws_transcript want;
  ws_transcript_init(&want);
  memcpy(frame, header, header_bytes);
  for (size_t i = 0; i < n; i++) frame[header_bytes + i] = (uint8_t)i;
  ws_transcript_puts(&want, "(");
  ws_transcript_hex(&want, frame + header_bytes, n);
  ws_transcript_puts(&want, ")");
  expect(CLIENT, frame, header_bytes + n, want.text);
  ws_transcript_free(&want);
  free(frame);
}

static void test_rfc_256_bytes_and_64_kib(void** state) {
  (void)state;
  expect_long((const uint8_t*)"\x82\x7e\x01\x00", 4, 256);
  expect_long((const uint8_t*)"\x82\x7f\0\0\0\0\0\1\0\0", 10, 65536);
}

/* --- decoder: legal streams -------------------------------------------------------- */

static void test_empty_message_is_begin_and_end(void** state) {
  (void)state;
  EXPECT(CLIENT, "()", 0x82, 0x00);
  EXPECT(SERVER, "()", 0x82, 0x80, 1, 2, 3, 4);
  EXPECT(CLIENT, "()", 0x02, 0x00, 0x00, 0x00, 0x80, 0x00);
  EXPECT(CLIENT, "(41)()", 0x02, 0x01, 'A', 0x80, 0x00, 0x82, 0x00);
}

static void test_control_frames_may_interleave_with_fragments(void** state) {
  (void)state;
  EXPECT(CLIENT, "(41<68>[]42)<>", 0x02, 0x01, 'A', 0x89, 0x01, 'h', 0x8a, 0x00, 0x80, 0x01, 'B', 0x89, 0x00);
}

static void test_mask_phase_continues_over_chunks_and_restarts_per_frame(void** state) {
  (void)state;
  /* Two fragments with different masks; EXPECT also feeds single bytes. */
  EXPECT(SERVER, "(4142434445)", 0x02, 0x83, 1, 2, 3, 4, 'A' ^ 1, 'B' ^ 2, 'C' ^ 3, 0x80, 0x82, 9, 8, 7, 6,
         'D' ^ 9, 'E' ^ 8);
}

static void test_close_carries_its_code_and_reason(void** state) {
  (void)state;
  EXPECT(CLIENT, "{1005:}", 0x88, 0x00);
  EXPECT(CLIENT, "{1000:}", 0x88, 0x02, 0x03, 0xe8);
  EXPECT(CLIENT, "{4999:6279}", 0x88, 0x04, 0x13, 0x87, 'b', 'y');
  EXPECT(SERVER, "{1001:}", 0x88, 0x82, 1, 2, 3, 4, 0x03 ^ 1, 0xe9 ^ 2);
}

static void test_longest_control_payload(void** state) {
  uint8_t frame[2 + 125] = {0x89, 125};
  struct ws_transcript want;
  (void)state;
  memset(frame + 2, 'z', 125);
  ws_transcript_init(&want);
  ws_transcript_puts(&want, "<");
  ws_transcript_hex(&want, frame + 2, 125);
  ws_transcript_puts(&want, ">");
  expect(CLIENT, frame, sizeof frame, want.text);
  ws_transcript_free(&want);
}

static void test_data_points_into_the_callers_buffer(void** state) {
  uint8_t buf[] = {0x82, 0x83, 1, 2, 3, 4, 'a' ^ 1, 'b' ^ 2, 'c' ^ 3, 0xAA};
  struct tmesh_ws_decoder d;
  struct tmesh_ws_event ev;
  size_t used;
  (void)state;
  tmesh_ws_decoder_init(&d, SERVER, ROOM);
  assert_true(tmesh_is_ok(tmesh_ws_decode(&d, buf, 9, &used, &ev)));
  assert_int_equal(ev.kind, TMESH_WS_MESSAGE_BEGIN);
  assert_int_equal(used, 6);
  assert_true(tmesh_is_ok(tmesh_ws_decode(&d, buf + 6, 3, &used, &ev)));
  assert_int_equal(ev.kind, TMESH_WS_MESSAGE_DATA);
  assert_int_equal(used, 3);
  assert_ptr_equal(ev.data, buf + 6);
  assert_memory_equal(ev.data, "abc", 3);
  assert_true(tmesh_is_ok(tmesh_ws_decode(&d, NULL, 0, &used, &ev)));
  assert_int_equal(ev.kind, TMESH_WS_MESSAGE_END);
  assert_true(tmesh_is_ok(tmesh_ws_decode(&d, NULL, 0, &used, &ev)));
  assert_int_equal(ev.kind, TMESH_WS_NONE);
}

/* --- decoder: what is refused ------------------------------------------------------- */

static void test_rsv_bits_are_refused(void** state) {
  (void)state;
  EXPECT(CLIENT, "!ws_protocol", 0xC2, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0xA2, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0x92, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0xC1, 0x00); /* a compressed text is first of all not legal */
  EXPECT(CLIENT, "!ws_protocol", 0xC9, 0x00);
}

static void test_reserved_opcodes_are_refused(void** state) {
  (void)state;
  for (unsigned op = 0; op < 16; op++) {
    if (op <= 2 || (op >= 8 && op <= 10)) continue;
    EXPECT(CLIENT, "!ws_protocol", (uint8_t)(0x80 | op), 0x00);
    EXPECT(CLIENT, "!ws_protocol", (uint8_t)op, 0x00);
  }
}

static void test_stray_and_missing_continuations_are_refused(void** state) {
  (void)state;
  EXPECT(CLIENT, "!ws_protocol", 0x80, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0x00, 0x00);
  EXPECT(CLIENT, "()!ws_protocol", 0x82, 0x00, 0x80, 0x00);
  EXPECT(CLIENT, "(41!ws_protocol", 0x02, 0x01, 'A', 0x82, 0x00);
  EXPECT(CLIENT, "(41!ws_protocol", 0x02, 0x01, 'A', 0x02, 0x00);
  EXPECT(CLIENT, "(41!ws_protocol", 0x02, 0x01, 'A', 0x81, 0x00);
}

static void test_fragmented_and_long_control_frames_are_refused(void** state) {
  (void)state;
  EXPECT(CLIENT, "!ws_protocol", 0x09, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0x0A, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0x08, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0x89, 0x7e, 0x00, 0x7e);
  EXPECT(CLIENT, "!ws_protocol", 0x8A, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0);
  EXPECT(CLIENT, "!ws_protocol", 0x88, 0x7e, 0x00, 0x7e);
}

static void test_masking_must_fit_the_role(void** state) {
  (void)state;
  EXPECT(SERVER, "!ws_protocol", 0x82, 0x00);
  EXPECT(SERVER, "!ws_protocol", 0x89, 0x00);
  EXPECT(SERVER, "!ws_protocol", 0x88, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0x82, 0x80, 1, 2, 3, 4);
  EXPECT(CLIENT, "!ws_protocol", 0x8A, 0x80, 1, 2, 3, 4);
}

static void test_lengths_must_be_minimal_and_below_2_to_63(void** state) {
  (void)state;
  EXPECT(CLIENT, "!ws_protocol", 0x82, 0x7e, 0x00, 0x7d);
  EXPECT(CLIENT, "!ws_protocol", 0x82, 0x7e, 0x00, 0x00);
  EXPECT(CLIENT, "!ws_protocol", 0x82, 0x7f, 0, 0, 0, 0, 0, 0, 0xff, 0xff);
  EXPECT(CLIENT, "!ws_protocol", 0x82, 0x7f, 0x80, 0, 0, 0, 0, 0, 0, 0);
  EXPECT(CLIENT, "!ws_protocol", 0x82, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
  EXPECT(CLIENT, "!too_large", 0x82, 0x7f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
}

static void test_close_payload_of_one_byte_is_refused(void** state) {
  (void)state;
  EXPECT(CLIENT, "!ws_protocol", 0x88, 0x01, 0x03);
  EXPECT(SERVER, "!ws_protocol", 0x88, 0x81, 1, 2, 3, 4, 5);
}

static void test_close_codes_that_may_not_be_sent_are_refused(void** state) {
  static const struct {
    unsigned from, to;
    bool is_valid;
  } ranges[] = {
      {0, 999, false},     {1000, 1003, true}, {1004, 1006, false},  {1007, 1014, true},
      {1015, 2999, false}, {3000, 4999, true}, {5000, 65535, false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    for (unsigned code = ranges[i].from; code <= ranges[i].to; code++) {
      struct ws_transcript t;
      uint8_t frame[4] = {0x88, 0x02, (uint8_t)(code >> 8), (uint8_t)code};
      ws_transcript_init(&t);
      ws_transcript_run(&t, CLIENT, ROOM, frame, sizeof frame, NULL, NULL);
      assert_int_equal(tmesh_ws_close_code_valid(code), ranges[i].is_valid);
      assert_int_equal(t.text[0], ranges[i].is_valid ? '{' : '!');
      ws_transcript_free(&t);
    }
  }
  assert_false(tmesh_ws_close_code_valid(65536 + 1000));
}

static void test_text_messages_are_refused_by_name(void** state) {
  (void)state;
  EXPECT(CLIENT, "!ws_text", 0x01, 0x00);
  EXPECT(SERVER, "!ws_text", 0x81, 0x80, 0, 0, 0, 0);
  EXPECT(CLIENT, "()!ws_text", 0x82, 0x00, 0x81, 0x00);
  /* not by name when the frame is illegal anyway */
  EXPECT(CLIENT, "!ws_protocol", 0x81, 0x7f, 0x80, 0, 0, 0, 0, 0, 0, 0);
  EXPECT(CLIENT, "!ws_text", 0x81, 0x7f, 0x7f, 0, 0, 0, 0, 0, 0, 0);
}

static void expect_at_max(uint64_t max, const void* bytes, size_t n, const char* expected) {
  struct ws_transcript t;
  ws_transcript_init(&t);
  ws_transcript_run(&t, CLIENT, max, bytes, n, one_byte, NULL);
  assert_string_equal(t.text, expected);
  ws_transcript_free(&t);
}

static void test_message_limit_counts_all_fragments_and_no_control(void** state) {
  (void)state;
  expect_at_max(4,
                "\x82\x04"
                "abcd",
                6, "(61626364)");
  expect_at_max(4,
                "\x82\x05"
                "abcde",
                7, "!too_large");
  expect_at_max(4,
                "\x02\x03"
                "abc"
                "\x80\x01"
                "d"
                "\x82\x04"
                "abcd",
                14, "(61626364)(61626364)");
  expect_at_max(4,
                "\x02\x03"
                "abc"
                "\x80\x02"
                "de",
                9, "(616263!too_large");
  expect_at_max(4,
                "\x02\x03"
                "abc"
                "\x89\x05"
                "hello"
                "\x80\x01"
                "d",
                15, "(616263<68656c6c6f>64)");
  /* an overflowing sum of lengths is too large, too */
  expect_at_max(4,
                "\x02\x03"
                "abc"
                "\x80\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
                15, "(616263!too_large");
}

static void test_errors_are_sticky(void** state) {
  struct tmesh_ws_decoder d;
  struct tmesh_ws_event ev;
  uint8_t bad[] = {0x80, 0x00}, good[] = {0x82, 0x00};
  size_t used;
  (void)state;
  tmesh_ws_decoder_init(&d, CLIENT, ROOM);
  assert_int_equal(tmesh_ws_decode(&d, bad, 2, &used, &ev).code, TMESH_E_WS_PROTOCOL);
  for (int i = 0; i < 3; i++) {
    struct tmesh_status st = tmesh_ws_decode(&d, good, 2, &used, &ev);
    assert_int_equal(st.code, TMESH_E_WS_PROTOCOL);
    assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
    assert_int_equal(used, 0);
    assert_int_equal(ev.kind, TMESH_WS_NONE);
  }
}

static void test_nothing_is_read_after_a_close(void** state) {
  struct tmesh_ws_decoder d;
  struct tmesh_ws_event ev;
  uint8_t bytes[] = {0x88, 0x00, 0x82, 0x00};
  size_t used;
  (void)state;
  tmesh_ws_decoder_init(&d, CLIENT, ROOM);
  assert_true(tmesh_is_ok(tmesh_ws_decode(&d, bytes, sizeof bytes, &used, &ev)));
  assert_int_equal(ev.kind, TMESH_WS_CLOSE);
  assert_int_equal(used, 2);
  for (int i = 0; i < 2; i++) {
    struct tmesh_status st = tmesh_ws_decode(&d, bytes + 2, i == 0 ? 2 : 0, &used, &ev);
    assert_int_equal(st.code, TMESH_E_CLOSED);
    assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
    assert_int_equal(used, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_header_uses_the_shortest_length_form),
      cmocka_unit_test(test_control_encode_writes_the_rfc_pong),
      cmocka_unit_test(test_close_encode_writes_a_code_or_nothing),
      cmocka_unit_test(test_mask_copy_equals_the_naive_loop_at_every_alignment),
      cmocka_unit_test(test_rfc_single_unmasked_frame),
      cmocka_unit_test(test_rfc_single_masked_frame),
      cmocka_unit_test(test_rfc_fragmented_message),
      cmocka_unit_test(test_rfc_ping_and_masked_pong),
      cmocka_unit_test(test_rfc_256_bytes_and_64_kib),
      cmocka_unit_test(test_empty_message_is_begin_and_end),
      cmocka_unit_test(test_control_frames_may_interleave_with_fragments),
      cmocka_unit_test(test_mask_phase_continues_over_chunks_and_restarts_per_frame),
      cmocka_unit_test(test_close_carries_its_code_and_reason),
      cmocka_unit_test(test_longest_control_payload),
      cmocka_unit_test(test_data_points_into_the_callers_buffer),
      cmocka_unit_test(test_rsv_bits_are_refused),
      cmocka_unit_test(test_reserved_opcodes_are_refused),
      cmocka_unit_test(test_stray_and_missing_continuations_are_refused),
      cmocka_unit_test(test_fragmented_and_long_control_frames_are_refused),
      cmocka_unit_test(test_masking_must_fit_the_role),
      cmocka_unit_test(test_lengths_must_be_minimal_and_below_2_to_63),
      cmocka_unit_test(test_close_payload_of_one_byte_is_refused),
      cmocka_unit_test(test_close_codes_that_may_not_be_sent_are_refused),
      cmocka_unit_test(test_text_messages_are_refused_by_name),
      cmocka_unit_test(test_message_limit_counts_all_fragments_and_no_control),
      cmocka_unit_test(test_errors_are_sticky),
      cmocka_unit_test(test_nothing_is_read_after_a_close),
  };
  return cmocka_run_group_tests_name("ws", tests, NULL, NULL);
}
