#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/open_result.h"

static const char* const stages[] = {"authorization", "selection", "relay",  "queue",
                                     "dns",           "connect",   "policy", "protocol"};
static const char* const codes[] = {"ok",
                                    "forbidden",
                                    "agent_offline",
                                    "queue_full",
                                    "timeout",
                                    "network_unreachable",
                                    "host_unreachable",
                                    "connection_refused",
                                    "unsupported_capability",
                                    "internal_error"};

static struct tmesh_status decode(struct tmesh_open_result* r, const char* text) {
  return tmesh_open_result_decode(r, text, strlen(text));
}

static void assert_refused(const char* text) {
  struct tmesh_open_result r = {false, 99, 99, false, 99};
  struct tmesh_status st = decode(&r, text);
  if (st.code != TMESH_E_FRAME_PAYLOAD) printf("not refused: %s\n", text);
  assert_int_equal(st.code, TMESH_E_FRAME_PAYLOAD);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
  assert_int_equal(r.stage, 99); /* untouched */
}

static struct tmesh_open_result assert_decodes(const char* text) {
  struct tmesh_open_result r;
  struct tmesh_status st = decode(&r, text);
  if (st.code != TMESH_OK) printf("refused: %s\n", text);
  assert_int_equal(st.code, TMESH_OK);
  return r;
}

static void all_five_keys_in_order_without_spaces(void** state) {
  (void)state;
  struct tmesh_open_result r = tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
  char out[256];
  size_t n = 0;
  r.retry_after_ms = UINT32_MAX;
  assert_int_equal(tmesh_open_result_encode(&r, out, sizeof out, &n).code, TMESH_OK);
  const char* want =
      "{\"accepted\":false,\"stage\":\"queue\",\"code\":\"queue_full\",\"retryable\":true,"
      "\"retry_after_ms\":4294967295}";
  assert_int_equal(n, strlen(want));
  assert_memory_equal(out, want, n);

  r = tmesh_open_accept();
  assert_int_equal(tmesh_open_result_encode(&r, out, sizeof out, &n).code, TMESH_OK);
  want = "{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\",\"retryable\":false,\"retry_after_ms\":0}";
  assert_int_equal(n, strlen(want));
  assert_memory_equal(out, want, n);
}

static void every_stage_and_code_has_its_wire_name_and_round_trips(void** state) {
  (void)state;
  assert_int_equal(sizeof stages / sizeof stages[0], TMESH_STAGE_COUNT);
  assert_int_equal(sizeof codes / sizeof codes[0], TMESH_OPEN_CODE_COUNT);
  for (unsigned s = 0; s < TMESH_STAGE_COUNT; s++) {
    assert_string_equal(tmesh_open_stage_name(s), stages[s]);
    for (unsigned c = 0; c < TMESH_OPEN_CODE_COUNT; c++) {
      struct tmesh_open_result r = {c == 0, (uint8_t)s, (uint8_t)c, c % 2 == 1, c * 1000};
      char out[TMESH_OPEN_RESULT_MAX_BYTES];
      size_t n = 0;
      assert_string_equal(tmesh_open_code_name(c), codes[c]);
      assert_int_equal(tmesh_open_result_encode(&r, out, sizeof out, &n).code, TMESH_OK);
      struct tmesh_open_result back;
      assert_int_equal(tmesh_open_result_decode(&back, out, n).code, TMESH_OK);
      assert_int_equal(back.accepted, r.accepted);
      assert_int_equal(back.stage, s);
      assert_int_equal(back.code, c);
      assert_int_equal(back.retryable, r.retryable);
      assert_int_equal(back.retry_after_ms, r.retry_after_ms);
    }
  }
  assert_string_equal(tmesh_open_stage_name(TMESH_STAGE_COUNT), "unknown");
  assert_string_equal(tmesh_open_code_name(TMESH_OPEN_CODE_COUNT), "unknown");
}

static void the_enums_are_closed_when_encoding(void** state) {
  (void)state;
  static const struct tmesh_open_result bad[] = {
      {false, TMESH_STAGE_COUNT, TMESH_OPEN_TIMEOUT, false, 0},
      {false, TMESH_STAGE_DNS, TMESH_OPEN_CODE_COUNT, false, 0},
      {true, TMESH_STAGE_DNS, TMESH_OPEN_TIMEOUT, false, 0},
      {false, TMESH_STAGE_CONNECT, TMESH_OPEN_OK, false, 0},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char out[256];
    size_t n = 0;
    assert_int_equal(tmesh_open_result_encode(&bad[i], out, sizeof out, &n).code, TMESH_E_INVALID);
  }
}

static void encode_needs_room_for_all_of_it(void** state) {
  (void)state;
  struct tmesh_open_result r = tmesh_open_accept();
  char out[256];
  size_t full = 0;
  size_t n = 0;
  assert_int_equal(tmesh_open_result_encode(&r, out, sizeof out, &full).code, TMESH_OK);
  assert_int_equal(tmesh_open_result_encode(&r, out, full, &n).code, TMESH_OK);
  for (size_t cap = 0; cap < full; cap++) {
    assert_int_equal(tmesh_open_result_encode(&r, out, cap, &n).code, TMESH_E_TOO_LARGE);
  }
}

static void keys_that_a_deployed_peer_omits_are_zero(void** state) {
  (void)state;
  struct tmesh_open_result r = assert_decodes("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\"}");
  assert_true(r.accepted);
  assert_false(r.retryable);
  assert_int_equal(r.retry_after_ms, 0);
}

static void unknown_stage_or_code_of_a_refusal_is_a_general_failure(void** state) {
  (void)state;
  static const char* const texts[] = {
      "{\"accepted\":false,\"stage\":\"dns\",\"code\":\"brand_new\",\"retryable\":true,\"retry_after_ms\":5}",
      "{\"accepted\":false,\"stage\":\"brand_new\",\"code\":\"forbidden\",\"retryable\":true,\"retry_after_"
      "ms\":5}",
      "{\"accepted\":false,\"stage\":\"\",\"code\":\"\",\"retryable\":true,\"retry_after_ms\":5}",
      "{\"accepted\":false,\"stage\":\"DNS\",\"code\":\"timeout\",\"retryable\":true,\"retry_after_ms\":5}",
      "{\"accepted\":false,\"stage\":\"a name that is longer than every name there is\",\"code\":\"timeout\","
      "\"retryable\":true,\"retry_after_ms\":5}",
      /* "ok" cannot become a success through the back door of an unknown stage */
      "{\"accepted\":false,\"stage\":\"brand_new\",\"code\":\"ok\",\"retryable\":true,\"retry_after_ms\":5}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct tmesh_open_result r = assert_decodes(texts[i]);
    assert_false(r.accepted);
    assert_int_equal(r.stage, TMESH_STAGE_PROTOCOL);
    assert_int_equal(r.code, TMESH_OPEN_INTERNAL_ERROR);
    assert_true(r.retryable);
    assert_int_equal(r.retry_after_ms, 5);
  }
}

static void accepted_must_equal_code_ok(void** state) {
  (void)state;
  for (unsigned c = 1; c < TMESH_OPEN_CODE_COUNT; c++) {
    char text[128];
    snprintf(text, sizeof text, "{\"accepted\":true,\"stage\":\"connect\",\"code\":\"%s\"}", codes[c]);
    assert_refused(text);
  }
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"brand_new\"}");
  assert_refused("{\"accepted\":true,\"stage\":\"brand_new\",\"code\":\"ok\"}");
  assert_refused("{\"accepted\":false,\"stage\":\"connect\",\"code\":\"ok\"}");
}

static void missing_and_null_required_keys_are_refused(void** state) {
  (void)state;
  assert_refused("{}");
  assert_refused("{\"stage\":\"connect\",\"code\":\"ok\"}");
  assert_refused("{\"accepted\":false,\"code\":\"timeout\"}");
  assert_refused("{\"accepted\":false,\"stage\":\"dns\"}");
  assert_refused("{\"accepted\":null,\"stage\":\"connect\",\"code\":\"ok\"}");
}

static void wrong_types_are_refused(void** state) {
  (void)state;
  assert_refused("[]");
  assert_refused("null");
  assert_refused("true");
  assert_refused("{\"accepted\":1,\"stage\":\"connect\",\"code\":\"ok\"}");
  assert_refused("{\"accepted\":\"true\",\"stage\":\"connect\",\"code\":\"ok\"}");
  assert_refused("{\"accepted\":true,\"stage\":5,\"code\":\"ok\"}");
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":[\"ok\"]}");
  assert_refused("{\"accepted\":false,\"stage\":\"dns\",\"code\":\"timeout\",\"retryable\":0}");
  assert_refused("{\"accepted\":false,\"stage\":\"dns\",\"code\":\"timeout\",\"retry_after_ms\":-1}");
  assert_refused("{\"accepted\":false,\"stage\":\"dns\",\"code\":\"timeout\",\"retry_after_ms\":1.0}");
  assert_refused("{\"accepted\":false,\"stage\":\"dns\",\"code\":\"timeout\",\"retry_after_ms\":1e3}");
  assert_refused("{\"accepted\":false,\"stage\":\"dns\",\"code\":\"timeout\",\"retry_after_ms\":\"1\"}");
  assert_refused("{\"accepted\":false,\"stage\":\"dns\",\"code\":\"timeout\",\"retry_after_ms\":4294967296}");
}

static void what_is_not_strict_json_is_refused(void** state) {
  (void)state;
  assert_refused("");
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\"");
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\"}x");
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\"}{}");
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\",}");
  assert_refused("{'accepted':true,\"stage\":\"connect\",\"code\":\"ok\"}");
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\",\"x\":\"\\u0000\"}");
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\",\"x\":\"\xFF\"}");
}

static void nesting_is_limited_to_eight(void** state) {
  (void)state;
  /* With the object itself: 1 + 7 = 8 is the limit. */
  struct tmesh_open_result r =
      assert_decodes("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\",\"x\":[[[[[[[]]]]]]]}");
  assert_true(r.accepted);
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\",\"x\":[[[[[[[[]]]]]]]]}");
}

static void more_than_1024_bytes_is_too_large(void** state) {
  (void)state;
  static const char text[] = "{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\"}";
  char padded[1025];
  struct tmesh_open_result r;
  memset(padded, ' ', sizeof padded);
  memcpy(padded, text, sizeof text - 1);
  assert_int_equal(tmesh_open_result_decode(&r, padded, 1024).code, TMESH_OK);
  struct tmesh_status st = tmesh_open_result_decode(&r, padded, 1025);
  assert_int_equal(st.code, TMESH_E_TOO_LARGE);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
}

static void the_last_duplicate_wins(void** state) {
  (void)state;
  struct tmesh_open_result r = assert_decodes(
      "{\"accepted\":false,\"stage\":\"dns\",\"code\":\"timeout\",\"accepted\":true,\"code\":\"ok\"}");
  assert_true(r.accepted);
  assert_int_equal(r.code, TMESH_OPEN_OK);
  assert_refused("{\"accepted\":true,\"stage\":\"connect\",\"code\":\"ok\",\"code\":\"timeout\"}");
}

static void keys_match_in_any_case_and_unknown_keys_are_ignored(void** state) {
  (void)state;
  struct tmesh_open_result r = assert_decodes(
      " { \"ACCEPTED\" : false , \"Stage\":\"policy\",\"cODE\":\"forbidden\", \"Retryable\":true,"
      "\"RETRY_AFTER_MS\":7, \"message\":{\"secret\":[1,2.5e-3,\"x\"]}, \"code2\":\"ok\" } ");
  assert_int_equal(r.stage, TMESH_STAGE_POLICY);
  assert_int_equal(r.code, TMESH_OPEN_FORBIDDEN);
  assert_true(r.retryable);
  assert_int_equal(r.retry_after_ms, 7);
}

static void escaped_names_and_values_are_the_same_names_and_values(void** state) {
  (void)state;
  struct tmesh_open_result r =
      assert_decodes("{\"\\u0061ccepted\":true,\"stage\":\"\\u0064ns\",\"c\\u006fde\":\"\\u006f\\u006b\"}");
  assert_true(r.accepted);
  assert_int_equal(r.stage, TMESH_STAGE_DNS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_five_keys_in_order_without_spaces),
      cmocka_unit_test(every_stage_and_code_has_its_wire_name_and_round_trips),
      cmocka_unit_test(the_enums_are_closed_when_encoding),
      cmocka_unit_test(encode_needs_room_for_all_of_it),
      cmocka_unit_test(keys_that_a_deployed_peer_omits_are_zero),
      cmocka_unit_test(unknown_stage_or_code_of_a_refusal_is_a_general_failure),
      cmocka_unit_test(accepted_must_equal_code_ok),
      cmocka_unit_test(missing_and_null_required_keys_are_refused),
      cmocka_unit_test(wrong_types_are_refused),
      cmocka_unit_test(what_is_not_strict_json_is_refused),
      cmocka_unit_test(nesting_is_limited_to_eight),
      cmocka_unit_test(more_than_1024_bytes_is_too_large),
      cmocka_unit_test(the_last_duplicate_wins),
      cmocka_unit_test(keys_match_in_any_case_and_unknown_keys_are_ignored),
      cmocka_unit_test(escaped_names_and_values_are_the_same_names_and_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
