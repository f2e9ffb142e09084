/* The HTTP upgrade: request, answers, keys and header lists. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/ws_upgrade.h"

/* RFC 6455 section 1.3: "the sample nonce", its key and the accept it gives. */
static const uint8_t nonce[] = "the sample nonce";
#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

static const char* const offers[] = {"tunnelmesh.v1.open-result", "tunnelmesh.v1"};

/* --- request ---------------------------------------------------------------------- */

static struct tmesh_ws_request plain_request(void) {
  struct tmesh_ws_request r = {
      .path = "/ws/client",
      .host = "hub.example:8443",
      .origin = "https://hub.example:8443",
      .token = "tm_secret",
      .key = nonce,
      .protocols = offers,
      .protocol_count = 2,
  };
  return r;
}

static void test_request_is_the_golden_text(void** state) {
  static const struct tmesh_ws_field extra[] = {{"X-TunnelMesh-Node-Id", "server 1"}};
  static const char golden[] =
      "GET /ws/client HTTP/1.1\r\n"
      "Host: hub.example:8443\r\n"
      "Upgrade: websocket\r\n"
      "Connection: Upgrade\r\n"
      "Sec-WebSocket-Key: " KEY
      "\r\n"
      "Origin: https://hub.example:8443\r\n"
      "Sec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Protocol: tunnelmesh.v1.open-result, tunnelmesh.v1\r\n"
      "Authorization: Bearer tm_secret\r\n"
      "X-TunnelMesh-Node-Id: server 1\r\n"
      "\r\n";
  struct tmesh_ws_request r = plain_request();
  char out[1024];
  size_t n;
  (void)state;
  r.extra = extra;
  r.extra_count = 1;
  assert_true(tmesh_is_ok(tmesh_ws_request_build(&r, out, sizeof out, &n)));
  assert_int_equal(n, sizeof golden - 1);
  assert_memory_equal(out, golden, n);
}

static void test_request_without_offers_and_token_has_no_such_lines(void** state) {
  struct tmesh_ws_request r = plain_request();
  char out[1024];
  size_t n;
  (void)state;
  r.token = NULL;
  r.protocols = NULL;
  r.protocol_count = 0;
  assert_true(tmesh_is_ok(tmesh_ws_request_build(&r, out, sizeof out - 1, &n)));
  out[n] = '\0';
  assert_null(strstr(out, "Authorization"));
  assert_null(strstr(out, "Protocol"));
  assert_null(strstr(out, "Extensions"));
}

static void test_request_that_does_not_fit_is_too_large(void** state) {
  struct tmesh_ws_request r = plain_request();
  char out[1024];
  size_t n, full;
  (void)state;
  assert_true(tmesh_is_ok(tmesh_ws_request_build(&r, out, sizeof out, &full)));
  for (size_t cap = 0; cap < full; cap++) {
    struct tmesh_status st = tmesh_ws_request_build(&r, out, cap, &n);
    assert_int_equal(st.code, TMESH_E_TOO_LARGE);
    assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
    assert_int_equal(n, 0);
  }
  assert_true(tmesh_is_ok(tmesh_ws_request_build(&r, out, full, &n)));
}

static void test_request_refuses_bytes_that_end_a_field(void** state) {
  static const char* const bad_words[] = {"a\r\nX: y", "a\nb", "a b", "a\tb", "\x7f", "caf\xc3\xa9", ""};
  static const char* const bad_paths[] = {"ws", "", "/a b", "/a\r\n", "/a#b", "/\xc3\xa9"};
  static const struct tmesh_ws_field bad_fields[] = {
      {"X-A", "v\r\nX-B: w"}, {"X-A", "\x01"}, {"X A", "v"}, {"X-A:", "v"}, {"", "v"}};
  char out[1024];
  size_t n;
  (void)state;
  for (size_t i = 0; i < sizeof bad_words / sizeof *bad_words; i++) {
    for (int field = 0; field < 4; field++) {
      struct tmesh_ws_request r = plain_request();
      if (field == 0) r.host = bad_words[i];
      if (field == 1) r.origin = bad_words[i];
      if (field == 2) r.token = bad_words[i];
      if (field == 3) r.protocols = &bad_words[i], r.protocol_count = 1;
      assert_int_equal(tmesh_ws_request_build(&r, out, sizeof out, &n).code, TMESH_E_INVALID);
    }
  }
  for (size_t i = 0; i < sizeof bad_paths / sizeof *bad_paths; i++) {
    struct tmesh_ws_request r = plain_request();
    r.path = bad_paths[i];
    assert_int_equal(tmesh_ws_request_build(&r, out, sizeof out, &n).code, TMESH_E_INVALID);
  }
  for (size_t i = 0; i < sizeof bad_fields / sizeof *bad_fields; i++) {
    struct tmesh_ws_request r = plain_request();
    r.extra = &bad_fields[i];
    r.extra_count = 1;
    assert_int_equal(tmesh_ws_request_build(&r, out, sizeof out, &n).code, TMESH_E_INVALID);
  }
}

/* --- response ---------------------------------------------------------------------- */

struct outcome {
  struct tmesh_status st;
  size_t used;
  enum tmesh_ws_upgrade_error error;
  int status;
  int protocol;
};

static struct outcome feed(const char* text, size_t n, size_t chunk) {
  struct tmesh_ws_response* r = tmesh_ws_response_new(nonce, offers, 2);
  struct outcome o = {0};
  assert_non_null(r);
  o.st = tmesh_again();
  while (o.st.code == TMESH_E_AGAIN && o.used < n) {
    size_t size = n - o.used < chunk ? n - o.used : chunk, used;
    uint8_t* copy = malloc(size);
    memcpy(copy, text + o.used, size);
    o.st = tmesh_ws_response_feed(r, copy, size, &used);
    free(copy);
    assert_true(used <= size);
    if (o.st.code == TMESH_E_AGAIN) assert_int_equal(used, size);
    o.used += used;
  }
  o.error = tmesh_ws_response_error(r);
  o.status = tmesh_ws_response_http_status(r);
  o.protocol = tmesh_ws_response_protocol(r);
  if (o.st.code != TMESH_E_AGAIN) {
    size_t used = 1; /* the end is sticky */
    assert_int_equal(tmesh_ws_response_feed(r, (const uint8_t*)"x", 1, &used).code, o.st.code);
    assert_int_equal(used, 0);
  }
  tmesh_ws_response_free(r);
  return o;
}

/* Whole, and in pieces of one and of seven bytes. */
static struct outcome feed_all(const char* text, size_t n) {
  struct outcome whole = feed(text, n, n);
  const size_t chunks[] = {1, 7};
  for (size_t i = 0; i < 2; i++) {
    struct outcome o = feed(text, n, chunks[i]);
    assert_int_equal(o.st.code, whole.st.code);
    assert_int_equal(o.error, whole.error);
    assert_int_equal(o.status, whole.status);
    assert_int_equal(o.protocol, whole.protocol);
    if (tmesh_is_ok(o.st)) assert_int_equal(o.used, whole.used);
  }
  return whole;
}

static void expect_error(const char* text, enum tmesh_ws_upgrade_error error, int status) {
  struct outcome o = feed_all(text, strlen(text));
  assert_int_equal(o.st.code, error == TMESH_WS_UPGRADE_TOO_LARGE ? TMESH_E_TOO_LARGE : TMESH_E_HTTP);
  assert_int_equal(o.st.scope, TMESH_SCOPE_SESSION);
  assert_int_equal(o.error, error);
  assert_int_equal(o.status, status);
}

#define HEAD "HTTP/1.1 101 Switching Protocols\r\n"
#define UPGRADE "Upgrade: websocket\r\n"
#define CONNECTION "Connection: Upgrade\r\n"
#define GOOD_ACCEPT "Sec-WebSocket-Accept: " ACCEPT "\r\n"
#define GOOD HEAD UPGRADE CONNECTION GOOD_ACCEPT

static void expect_good(const char* text, int protocol) {
  struct outcome o = feed_all(text, strlen(text));
  assert_true(tmesh_is_ok(o.st));
  assert_int_equal(o.used, strlen(text));
  assert_int_equal(o.error, TMESH_WS_UPGRADE_OK);
  assert_int_equal(o.status, 101);
  assert_int_equal(o.protocol, protocol);
}

static void test_response_101_is_accepted(void** state) {
  (void)state;
  expect_good(GOOD "\r\n", -1);
  expect_good(GOOD "Sec-WebSocket-Protocol: tunnelmesh.v1\r\n\r\n", 1);
  expect_good(GOOD "sec-websocket-protocol:  tunnelmesh.v1.open-result \r\n\r\n", 0);
}

static void test_response_fields_match_as_http_says(void** state) {
  (void)state;
  expect_good(HEAD "UPGRADE: WebSocket\r\nconnection: keep-alive, upgrade\r\n" GOOD_ACCEPT "\r\n", -1);
  expect_good(
      HEAD
      "Upgrade: h2c\r\nUpgrade: websocket\r\nConnection: keep-alive\r\nConnection: Upgrade\r\n" GOOD_ACCEPT
      "\r\n",
      -1);
  expect_good(GOOD "Sec-WebSocket-Extensions: \r\n\r\n", -1);
  expect_good(GOOD "Content-Length: 7\r\n\r\n", -1);
  expect_good(GOOD "A-Name-That-Is-Longer-Than-Any-Of-The-Names-We-Know: 1\r\n\r\n", -1);
}

static void test_response_keeps_the_frames_behind_it(void** state) {
  static const char text[] = GOOD "\r\n\x82\x05Hello\x89\x00";
  const size_t head = sizeof GOOD "\r\n" - 1;
  (void)state;
  for (size_t chunk = 1; chunk <= sizeof text; chunk++) {
    struct outcome o = feed(text, sizeof text - 1, chunk);
    assert_true(tmesh_is_ok(o.st));
    assert_int_equal(o.used, head);
  }
}

static void test_response_status_other_than_101_is_reported(void** state) {
  (void)state;
  expect_error("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", TMESH_WS_UPGRADE_STATUS, 200);
  expect_error("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", TMESH_WS_UPGRADE_STATUS, 400);
  expect_error("HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               TMESH_WS_UPGRADE_STATUS, 403);
  expect_error("HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
               TMESH_WS_UPGRADE_STATUS, 426);
  expect_error("HTTP/1.0 502 Bad Gateway\r\n\r\n", TMESH_WS_UPGRADE_STATUS, 502);
  expect_error("HTTP/1.1 204 No Content\r\n\r\n", TMESH_WS_UPGRADE_STATUS, 204);
}

static void test_response_missing_headers_are_named(void** state) {
  (void)state;
  expect_error(HEAD CONNECTION GOOD_ACCEPT "\r\n", TMESH_WS_UPGRADE_NO_UPGRADE, 101);
  expect_error(HEAD "Upgrade: h2c\r\n" CONNECTION GOOD_ACCEPT "\r\n", TMESH_WS_UPGRADE_NO_UPGRADE, 101);
  expect_error(HEAD UPGRADE GOOD_ACCEPT "\r\n", TMESH_WS_UPGRADE_NO_CONNECTION, 101);
  expect_error(HEAD UPGRADE "Connection: close\r\n" GOOD_ACCEPT "\r\n", TMESH_WS_UPGRADE_NO_CONNECTION, 101);
  expect_error(HEAD UPGRADE CONNECTION "\r\n", TMESH_WS_UPGRADE_NO_ACCEPT, 101);
  assert_non_null(strstr(tmesh_ws_upgrade_error_text(TMESH_WS_UPGRADE_NO_UPGRADE), "Upgrade: websocket"));
  assert_non_null(strstr(tmesh_ws_upgrade_error_text(TMESH_WS_UPGRADE_NO_CONNECTION), "Connection: Upgrade"));
  assert_non_null(strstr(tmesh_ws_upgrade_error_text(TMESH_WS_UPGRADE_NO_ACCEPT), "Sec-WebSocket-Accept"));
}

static void test_response_wrong_accept_is_refused(void** state) {
  (void)state;
  expect_error(HEAD UPGRADE CONNECTION "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\n\r\n",
               TMESH_WS_UPGRADE_BAD_ACCEPT, 101);
  expect_error(HEAD UPGRADE CONNECTION "Sec-WebSocket-Accept:\r\n\r\n", TMESH_WS_UPGRADE_BAD_ACCEPT, 101);
  expect_error(HEAD UPGRADE CONNECTION "Sec-WebSocket-Accept: S3PPLMBITXAQ9KYGZZHZRBK+XOO=\r\n\r\n",
               TMESH_WS_UPGRADE_BAD_ACCEPT, 101);
  expect_error(GOOD GOOD_ACCEPT "\r\n", TMESH_WS_UPGRADE_BAD_ACCEPT, 101);
  expect_error(HEAD UPGRADE CONNECTION "Sec-WebSocket-Accept: " ACCEPT ", " ACCEPT "\r\n\r\n",
               TMESH_WS_UPGRADE_BAD_ACCEPT, 101);
}

static void test_response_sub_protocol_must_be_one_that_was_offered(void** state) {
  (void)state;
  expect_error(GOOD "Sec-WebSocket-Protocol: chat\r\n\r\n", TMESH_WS_UPGRADE_BAD_PROTOCOL, 101);
  expect_error(GOOD "Sec-WebSocket-Protocol: tunnelmesh\r\n\r\n", TMESH_WS_UPGRADE_BAD_PROTOCOL, 101);
  expect_error(GOOD "Sec-WebSocket-Protocol: TunnelMesh.v1\r\n\r\n", TMESH_WS_UPGRADE_BAD_PROTOCOL, 101);
  expect_error(GOOD "Sec-WebSocket-Protocol:\r\n\r\n", TMESH_WS_UPGRADE_BAD_PROTOCOL, 101);
  expect_error(GOOD "Sec-WebSocket-Protocol: tunnelmesh.v1, tunnelmesh.v1\r\n\r\n",
               TMESH_WS_UPGRADE_BAD_PROTOCOL, 101);
  expect_error(GOOD "Sec-WebSocket-Protocol: tunnelmesh.v1\r\nSec-WebSocket-Protocol: tunnelmesh.v1\r\n\r\n",
               TMESH_WS_UPGRADE_BAD_PROTOCOL, 101);
}

static void test_response_extensions_are_refused(void** state) {
  (void)state;
  expect_error(GOOD "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", TMESH_WS_UPGRADE_EXTENSION, 101);
}

static void test_response_interim_answers_are_skipped(void** state) {
  (void)state;
  expect_good("HTTP/1.1 100 Continue\r\n\r\n" GOOD "\r\n", -1);
  expect_good("HTTP/1.1 103 Early Hints\r\nSec-WebSocket-Accept: wrong\r\n\r\n" GOOD "\r\n", -1);
  expect_error("HTTP/1.1 103 Early Hints\r\n" UPGRADE "\r\n" HEAD CONNECTION GOOD_ACCEPT "\r\n",
               TMESH_WS_UPGRADE_NO_UPGRADE, 101);
}

static void test_response_that_is_not_http_1_1_is_refused(void** state) {
  (void)state;
  expect_error("SSH-2.0-OpenSSH_9.2\r\n", TMESH_WS_UPGRADE_NOT_HTTP, 0);
  expect_error("\x15\x03\x03 a TLS alert", TMESH_WS_UPGRADE_NOT_HTTP, 0);
  expect_error("HTTP/1.0 101 Switching Protocols\r\n" UPGRADE CONNECTION GOOD_ACCEPT "\r\n",
               TMESH_WS_UPGRADE_NOT_HTTP, 101);
  expect_error("HTTP/1.1 101 X\r\nUpgrade websocket\r\n\r\n", TMESH_WS_UPGRADE_NOT_HTTP, 0);
  expect_error("HTTP/1.1 101 X\r\nUpgrade: web\x01socket\r\n\r\n", TMESH_WS_UPGRADE_NOT_HTTP, 0);
}

/* An answer whose header block is n bytes, padded by one field. */
static char* padded(size_t n) {
  char* text = malloc(n + 1);
  size_t head = (size_t)snprintf(text, n + 1, "%sX-Pad: ", GOOD);
  memset(text + head, 'p', n - head - 4);
  memcpy(text + n - 4, "\r\n\r\n", 5);
  return text;
}

static void test_response_header_over_16_kib_is_too_large(void** state) {
  char* fits = padded(TMESH_WS_UPGRADE_MAX_BYTES);
  char* over = padded(TMESH_WS_UPGRADE_MAX_BYTES + 1);
  (void)state;
  expect_good(fits, -1);
  expect_error(over, TMESH_WS_UPGRADE_TOO_LARGE, 0);
  free(fits);
  free(over);
}

static void test_response_interim_answers_count_towards_the_limit(void** state) {
  static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
  struct tmesh_ws_response* r = tmesh_ws_response_new(nonce, offers, 2);
  struct tmesh_status st = tmesh_again();
  int rounds = 0;
  size_t used;
  (void)state;
  for (; st.code == TMESH_E_AGAIN && rounds < 1000; rounds++) {
    st = tmesh_ws_response_feed(r, (const uint8_t*)interim, sizeof interim - 1, &used);
  }
  assert_int_equal(st.code, TMESH_E_TOO_LARGE);
  tmesh_ws_response_free(r);
}

static void test_every_error_has_a_text(void** state) {
  (void)state;
  for (unsigned e = 0; e < TMESH_WS_UPGRADE_ERROR_COUNT; e++) {
    assert_non_null(tmesh_ws_upgrade_error_text(e));
    assert_string_not_equal(tmesh_ws_upgrade_error_text(e), "unknown");
  }
  assert_string_equal(tmesh_ws_upgrade_error_text(TMESH_WS_UPGRADE_ERROR_COUNT), "unknown");
}

/* --- server ------------------------------------------------------------------------- */

static void test_accept_key_is_the_rfc_example(void** state) {
  char out[TMESH_WS_ACCEPT_TEXT_BYTES];
  (void)state;
  tmesh_ws_accept_key(KEY, strlen(KEY), out);
  assert_string_equal(out, ACCEPT);
}

static void test_key_is_base64_of_16_bytes(void** state) {
  static const char* const bad[] = {"",
                                    "dGhlIHNhbXBsZSBub25jZQ=",
                                    "dGhlIHNhbXBsZSBub25jZQ===",
                                    "dGhlIHNhbXBsZSBub25jZQAA",
                                    "dGhlIHNhbXBsZSBub25jZ===",
                                    "dGhlIHNhbXBsZSBub25jZQ= ",
                                    "dGhl IHNhbXBsZSBub25jZQ==",
                                    "dGhlIHNhbXBsZSBub25jZ-==",
                                    " GhlIHNhbXBsZSBub25jZQ==",
                                    "dGhlIHNhbXBsZSBub25j\xc3\xa9=="};
  (void)state;
  assert_true(tmesh_ws_key_valid(KEY, strlen(KEY)));
  assert_true(tmesh_ws_key_valid("AAAAAAAAAAAAAAAAAAAAAA==", 24));
  assert_true(tmesh_ws_key_valid("+/+/+/+/+/+/+/+/+/+/+w==", 24));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(tmesh_ws_key_valid(bad[i], strlen(bad[i])));
  assert_false(tmesh_ws_key_valid("AAAAAAAAAAAAAAAAAAAAA\0==", 24));
}

static void expect_items(const char* value, const char* joined) {
  struct tmesh_http_list l = tmesh_http_list_init(value, strlen(value));
  char got[128] = "";
  const char* item;
  size_t n;
  while (tmesh_http_list_next(&l, &item, &n)) {
    assert_true(n > 0);
    strncat(got, item, n);
    strcat(got, ";");
  }
  assert_string_equal(got, joined);
}

static void test_list_next_trims_and_skips_empty_items(void** state) {
  (void)state;
  expect_items("", "");
  expect_items(" , ,\t,", "");
  expect_items("a", "a;");
  expect_items("a,b", "a;b;");
  expect_items(" a\t,, b c ,d,", "a;b c;d;");
}

static void test_list_has_compares_whole_items_ignoring_case(void** state) {
  (void)state;
  assert_true(tmesh_http_list_has("keep-alive, UpGrade", 19, "upgrade"));
  assert_true(tmesh_http_list_has("WEBSOCKET", 9, "websocket"));
  assert_false(tmesh_http_list_has("websocket2, web", 15, "websocket"));
  assert_false(tmesh_http_list_has("", 0, "websocket"));
  assert_false(tmesh_http_list_has("a\0b", 3, "a"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_request_is_the_golden_text),
      cmocka_unit_test(test_request_without_offers_and_token_has_no_such_lines),
      cmocka_unit_test(test_request_that_does_not_fit_is_too_large),
      cmocka_unit_test(test_request_refuses_bytes_that_end_a_field),
      cmocka_unit_test(test_response_101_is_accepted),
      cmocka_unit_test(test_response_fields_match_as_http_says),
      cmocka_unit_test(test_response_keeps_the_frames_behind_it),
      cmocka_unit_test(test_response_status_other_than_101_is_reported),
      cmocka_unit_test(test_response_missing_headers_are_named),
      cmocka_unit_test(test_response_wrong_accept_is_refused),
      cmocka_unit_test(test_response_sub_protocol_must_be_one_that_was_offered),
      cmocka_unit_test(test_response_extensions_are_refused),
      cmocka_unit_test(test_response_interim_answers_are_skipped),
      cmocka_unit_test(test_response_that_is_not_http_1_1_is_refused),
      cmocka_unit_test(test_response_header_over_16_kib_is_too_large),
      cmocka_unit_test(test_response_interim_answers_count_towards_the_limit),
      cmocka_unit_test(test_every_error_has_a_text),
      cmocka_unit_test(test_accept_key_is_the_rfc_example),
      cmocka_unit_test(test_key_is_base64_of_16_bytes),
      cmocka_unit_test(test_list_next_trims_and_skips_empty_items),
      cmocka_unit_test(test_list_has_compares_whole_items_ignoring_case),
  };
  return cmocka_run_group_tests_name("ws_upgrade", tests, NULL, NULL);
}
