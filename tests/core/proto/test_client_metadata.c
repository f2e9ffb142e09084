#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/metadata.h"

static const char golden[] =
    "{\"instance_id\":\"client-0f\",\"connection_slot\":2,\"agent_ids\":[\"a1\",\"a2\"],\"version\":\"1.0\","
    "\"commit\":\"abc\",\"platform\":\"linux/"
    "amd64\",\"hostname\":\"h\",\"process_start_at\":\"0001-01-01T00:00:00Z\","
    "\"reported_at\":\"2026-09-21T14:13:20Z\",\"revision\":7,"
    "\"listeners\":[{\"protocol\":\"socks5\",\"listenAddress\":\"127.0.0.1:1080\",\"agentId\":\"a1\","
    "\"enabled\":true}],"
    "\"items\":[{\"name\":\"k\",\"source\":\"env\",\"value\":\"v\",\"redacted\":true}],"
    "\"capabilities\":[\"stream_early_data.v1\",\"stream_window_growth.v1\"],"
    "\"errors\":[{\"name\":\"n\",\"code\":\"c\",\"message\":\"m\"}]}";

static void the_golden_text_round_trips(void** state) {
  (void)state;
  struct tmesh_client_metadata m;
  struct tmesh_metadata_error why;
  char out[2048];
  size_t n = 0;
  assert_int_equal(tmesh_client_metadata_decode(&m, golden, sizeof golden - 1).code, TMESH_OK);
  assert_string_equal(m.instance_id, "client-0f");
  assert_int_equal(m.connection_slot, 2);
  assert_int_equal(m.agent_id_count, 2);
  assert_string_equal(m.agent_ids[1], "a2");
  assert_string_equal(m.platform, "linux/amd64");
  assert_true(tmesh_time_is_zero(m.process_start_at));
  assert_true(m.reported_at.unix_s == 1790000000);
  assert_int_equal(m.listener_count, 1);
  assert_string_equal(m.listeners[0].listen_address, "127.0.0.1:1080");
  assert_string_equal(m.listeners[0].agent_id, "a1");
  assert_true(m.listeners[0].is_enabled);
  assert_true(m.items[0].is_redacted);
  assert_int_equal(m.capabilities, TMESH_CAP_EARLY_DATA | TMESH_CAP_WINDOW_GROWTH);
  assert_true(tmesh_client_metadata_check(&m, &why));
  assert_int_equal(tmesh_client_metadata_encode(&m, out, sizeof out, &n).code, TMESH_OK);
  assert_int_equal(n, sizeof golden - 1);
  assert_memory_equal(out, golden, n);
  tmesh_client_metadata_free(&m);
  assert_null(m.storage);
}

static void times_are_written_even_when_zero_and_the_rest_omitted(void** state) {
  (void)state;
  struct tmesh_client_metadata m = {.instance_id = "c"};
  char out[512];
  size_t n = 0;
  m.process_start_at.unix_s = TMESH_TIME_ZERO_UNIX_S;
  assert_int_equal(tmesh_client_metadata_encode(&m, out, sizeof out - 1, &n).code, TMESH_OK);
  out[n] = '\0';
  assert_string_equal(out,
                      "{\"instance_id\":\"c\",\"process_start_at\":\"0001-01-01T00:00:00Z\","
                      "\"reported_at\":\"1970-01-01T00:00:00Z\",\"revision\":0}");
}

static void absent_times_are_the_zero_time(void** state) {
  (void)state;
  struct tmesh_client_metadata m;
  assert_int_equal(tmesh_client_metadata_decode(&m, "{}", 2).code, TMESH_OK);
  assert_true(tmesh_time_is_zero(m.process_start_at));
  assert_true(tmesh_time_is_zero(m.reported_at));
  assert_string_equal(m.hostname, "");
  tmesh_client_metadata_free(&m);
}

static void wrong_types_are_refused(void** state) {
  (void)state;
  static const char* const bad[] = {"[]",
                                    "{\"instance_id\":{}}",
                                    "{\"connection_slot\":-1}",
                                    "{\"connection_slot\":4294967296}",
                                    "{\"agent_ids\":[1]}",
                                    "{\"agent_ids\":\"a\"}",
                                    "{\"process_start_at\":\"\"}",
                                    "{\"listeners\":[[]]}",
                                    "{\"listeners\":[{\"enabled\":1}]}",
                                    "{\"items\":[{\"redacted\":\"x\"}]}"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct tmesh_client_metadata m;
    struct tmesh_status st = tmesh_client_metadata_decode(&m, bad[i], strlen(bad[i]));
    if (st.code != TMESH_E_FRAME_PAYLOAD) printf("not refused: %s\n", bad[i]);
    assert_int_equal(st.code, TMESH_E_FRAME_PAYLOAD);
    assert_null(m.storage);
  }
}

static void assert_list_limit(const char* key, const char* element, size_t max) {
  char* text = malloc(TMESH_METADATA_MAX_BYTES);
  struct tmesh_client_metadata m;
  assert_non_null(text);
  for (size_t count = max; count <= max + 1; count++) {
    size_t n = (size_t)snprintf(text, TMESH_METADATA_MAX_BYTES, "{\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
      n += (size_t)snprintf(text + n, TMESH_METADATA_MAX_BYTES - n, "%s%s", i > 0 ? "," : "", element);
    }
    n += (size_t)snprintf(text + n, TMESH_METADATA_MAX_BYTES - n, "]}");
    assert_int_equal(tmesh_client_metadata_decode(&m, text, n).code, count == max ? TMESH_OK : TMESH_E_LIMIT);
    tmesh_client_metadata_free(&m);
  }
  free(text);
}

static void every_list_is_bounded(void** state) {
  (void)state;
  assert_list_limit("items", "{}", TMESH_METADATA_ITEMS_MAX);
  assert_list_limit("errors", "{}", TMESH_METADATA_ERRORS_MAX);
  assert_list_limit("listeners", "{}", TMESH_METADATA_LISTENERS_MAX);
  assert_list_limit("agent_ids", "\"\"", TMESH_METADATA_AGENTS_MAX);
}

static void the_check_wants_an_instance_id(void** state) {
  (void)state;
  static const char* const bad[] = {"", "   ", "a\tb"};
  struct tmesh_metadata_error why;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct tmesh_client_metadata m = {.instance_id = bad[i]};
    assert_false(tmesh_client_metadata_check(&m, &why));
    assert_string_equal(why.name, "client_metadata");
    assert_string_equal(why.code, "invalid_payload");
  }
}

static void the_ack_round_trips_with_our_capabilities_key(void** state) {
  (void)state;
  static const char text[] =
      "{\"client_instance_id\":\"client-0f\",\"instance_id\":\"server-1\",\"connection_id\":\"client_2\","
      "\"revision\":7,"
      "\"accepted\":true,\"idempotent\":true,\"errors\":[{\"name\":\"client_hello\",\"code\":\"invalid_"
      "frame\","
      "\"message\":\"\"}],\"capabilities\":[\"stream_window_growth.v1\"]}";
  struct tmesh_client_metadata_ack a;
  char out[1024];
  size_t n = 0;
  assert_int_equal(tmesh_client_metadata_ack_decode(&a, text, sizeof text - 1).code, TMESH_OK);
  assert_string_equal(a.client_instance_id, "client-0f");
  assert_string_equal(a.instance_id, "server-1");
  assert_string_equal(a.connection_id, "client_2");
  assert_true(a.revision == 7 && a.is_accepted && a.is_idempotent);
  assert_int_equal(a.capabilities, TMESH_CAP_WINDOW_GROWTH);
  assert_int_equal(tmesh_client_metadata_ack_encode(&a, out, sizeof out, &n).code, TMESH_OK);
  assert_int_equal(n, sizeof text - 1);
  assert_memory_equal(out, text, n);
  tmesh_client_metadata_ack_free(&a);
}

static void an_ack_without_our_key_allows_nothing_extra(void** state) {
  (void)state;
  static const char text[] =
      "{\"client_instance_id\":\"c\",\"instance_id\":\"s\",\"connection_id\":\"x\",\"revision\":1,"
      "\"accepted\":true}";
  struct tmesh_client_metadata_ack a;
  char out[256];
  size_t n = 0;
  assert_int_equal(tmesh_client_metadata_ack_decode(&a, text, sizeof text - 1).code, TMESH_OK);
  assert_int_equal(a.capabilities, 0);
  assert_int_equal(tmesh_client_metadata_ack_encode(&a, out, sizeof out, &n).code, TMESH_OK);
  assert_memory_equal(out, text, n);
  tmesh_client_metadata_ack_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_golden_text_round_trips),
      cmocka_unit_test(times_are_written_even_when_zero_and_the_rest_omitted),
      cmocka_unit_test(absent_times_are_the_zero_time),
      cmocka_unit_test(wrong_types_are_refused),
      cmocka_unit_test(every_list_is_bounded),
      cmocka_unit_test(the_check_wants_an_instance_id),
      cmocka_unit_test(the_ack_round_trips_with_our_capabilities_key),
      cmocka_unit_test(an_ack_without_our_key_allows_nothing_extra),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
