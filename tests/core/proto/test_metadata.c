#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/metadata.h"

/* As a deployed agent writes it. */
static const char golden[] =
    "{\"agent_id\":\"a1\",\"instance_id\":\"agent-0f\",\"connection_id\":\"c-1\",\"node_id\":\"n1\","
    "\"epoch\":3,"
    "\"revision\":18446744073709551615,\"reported_at\":\"2026-09-21T14:13:20.12Z\","
    "\"items\":[{\"name\":\"region\",\"source\":\"env\",\"value\":\"eu\"},{\"name\":\"rack\",\"source\":"
    "\"file\"}],"
    "\"errors\":[{\"name\":\"x\",\"code\":\"collection_error\",\"message\":\"m\"}],"
    "\"capabilities\":[\"stream_open_result.v1\",\"stream_early_data.v1\"]}";

static struct tmesh_agent_metadata sample(void) {
  struct tmesh_agent_metadata m = {.agent_id = "a1",
                                   .instance_id = "agent-0f",
                                   .connection_id = "c-1",
                                   .node_id = "n1",
                                   .epoch = 3,
                                   .revision = UINT64_MAX,
                                   .reported_at = {1790000000, 120000000},
                                   .capabilities = TMESH_CAP_OPEN_RESULT | TMESH_CAP_EARLY_DATA,
                                   .item_count = 2,
                                   .error_count = 1};
  m.items[0] = (struct tmesh_metadata_item){"region", "env", "eu", false};
  m.items[1] = (struct tmesh_metadata_item){"rack", "file", "", false};
  m.errors[0] = (struct tmesh_metadata_error){"x", "collection_error", "m"};
  return m;
}

static void agent_metadata_encodes_to_the_golden_text(void** state) {
  (void)state;
  struct tmesh_agent_metadata m = sample();
  char out[2048];
  size_t n = 0;
  assert_int_equal(tmesh_agent_metadata_encode(&m, out, sizeof out, &n).code, TMESH_OK);
  assert_int_equal(n, sizeof golden - 1);
  assert_memory_equal(out, golden, n);
}

static void agent_metadata_decodes_from_the_golden_text(void** state) {
  (void)state;
  struct tmesh_agent_metadata m;
  struct tmesh_metadata_error why;
  assert_int_equal(tmesh_agent_metadata_decode(&m, golden, sizeof golden - 1).code, TMESH_OK);
  assert_string_equal(m.agent_id, "a1");
  assert_string_equal(m.instance_id, "agent-0f");
  assert_string_equal(m.connection_id, "c-1");
  assert_string_equal(m.node_id, "n1");
  assert_true(m.epoch == 3 && m.revision == UINT64_MAX);
  assert_true(m.reported_at.unix_s == 1790000000 && m.reported_at.nanos == 120000000);
  assert_int_equal(m.item_count, 2);
  assert_string_equal(m.items[0].name, "region");
  assert_string_equal(m.items[0].source, "env");
  assert_string_equal(m.items[0].value, "eu");
  assert_string_equal(m.items[1].value, "");
  assert_int_equal(m.error_count, 1);
  assert_string_equal(m.errors[0].code, "collection_error");
  assert_int_equal(m.capabilities, TMESH_CAP_OPEN_RESULT | TMESH_CAP_EARLY_DATA);
  assert_true(tmesh_agent_metadata_check(&m, &why));
  tmesh_agent_metadata_free(&m);
  assert_null(m.storage);
  tmesh_agent_metadata_free(&m); /* harmless */
}

static void absent_texts_are_empty_and_empty_lists_legal(void** state) {
  (void)state;
  static const char* const texts[] = {
      "{\"agent_id\":\"a\",\"node_id\":\"n\",\"epoch\":1,\"revision\":1,\"reported_at\":\"2026-01-01T00:00:"
      "00Z\",\"items\":[]}",
      "{\"agent_id\":\"a\",\"node_id\":\"n\",\"epoch\":1,\"revision\":1,\"reported_at\":\"2026-01-01T00:00:"
      "00Z\","
      "\"items\":null,\"errors\":null,\"capabilities\":null,\"instance_id\":null,\"unknown\":[{}]}"};
  for (size_t i = 0; i < 2; i++) {
    struct tmesh_agent_metadata m;
    assert_int_equal(tmesh_agent_metadata_decode(&m, texts[i], strlen(texts[i])).code, TMESH_OK);
    assert_string_equal(m.instance_id, "");
    assert_string_equal(m.connection_id, "");
    assert_int_equal(m.item_count, 0);
    assert_int_equal(m.capabilities, 0);
    tmesh_agent_metadata_free(&m);
  }
  struct tmesh_agent_metadata none = {.agent_id = "a"};
  char out[256];
  size_t n = 0;
  assert_int_equal(tmesh_agent_metadata_encode(&none, out, sizeof out - 1, &n).code, TMESH_OK);
  out[n] = '\0';
  assert_string_equal(out,
                      "{\"agent_id\":\"a\",\"node_id\":\"\",\"epoch\":0,\"revision\":0,"
                      "\"reported_at\":\"1970-01-01T00:00:00Z\",\"items\":[]}");
}

static void unknown_capabilities_are_ignored(void** state) {
  (void)state;
  static const char text[] =
      "{\"capabilities\":[\"tcp\",\"later.v9\",\"stream_open_result.v1\",\"\","
      "\"a name that is longer than every name of a capability there is by far\"]}";
  struct tmesh_agent_metadata m;
  assert_int_equal(tmesh_agent_metadata_decode(&m, text, sizeof text - 1).code, TMESH_OK);
  assert_int_equal(m.capabilities, TMESH_CAP_TCP | TMESH_CAP_OPEN_RESULT);
  tmesh_agent_metadata_free(&m);
}

static void the_last_duplicate_list_wins(void** state) {
  (void)state;
  static const char text[] =
      "{\"items\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"capabilities\":[\"tcp\"],\"Items\":[{\"NAME\":\"c\","
      "\"name\":\"d\"}],"
      "\"capabilities\":[\"udp\"]}";
  struct tmesh_agent_metadata m;
  assert_int_equal(tmesh_agent_metadata_decode(&m, text, sizeof text - 1).code, TMESH_OK);
  assert_int_equal(m.item_count, 1);
  assert_string_equal(m.items[0].name, "d");
  assert_string_equal(m.items[0].source, "");
  assert_int_equal(m.capabilities, TMESH_CAP_UDP);
  tmesh_agent_metadata_free(&m);
}

static void wrong_types_are_refused_and_leave_nothing_to_free(void** state) {
  (void)state;
  static const char* const bad[] = {"",
                                    "[]",
                                    "{\"agent_id\":1}",
                                    "{\"epoch\":1.5}",
                                    "{\"epoch\":\"1\"}",
                                    "{\"epoch\":9223372036854775808}",
                                    "{\"revision\":-1}",
                                    "{\"reported_at\":0}",
                                    "{\"reported_at\":\"yesterday\"}",
                                    "{\"items\":{}}",
                                    "{\"items\":[1]}",
                                    "{\"items\":[null]}",
                                    "{\"items\":[{\"name\":[]}]}",
                                    "{\"errors\":[[]]}",
                                    "{\"capabilities\":[1]}",
                                    "{\"capabilities\":\"tcp\"}",
                                    "{\"agent_id\":\"\\u0000\"}",
                                    "{\"agent_id\":\"a\"}x",
                                    "{\"agent_id\":\"a\",\"agent_id\":2}"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct tmesh_agent_metadata m;
    struct tmesh_status st = tmesh_agent_metadata_decode(&m, bad[i], strlen(bad[i]));
    if (st.code != TMESH_E_FRAME_PAYLOAD) printf("not refused: %s\n", bad[i]);
    assert_int_equal(st.code, TMESH_E_FRAME_PAYLOAD);
    assert_int_equal(st.scope, TMESH_SCOPE_STREAM); /* never ends the link */
    assert_null(m.storage);
  }
}

static void lists_and_payload_are_bounded(void** state) {
  (void)state;
  struct tmesh_agent_metadata m;
  char text[TMESH_METADATA_MAX_BYTES + 1];
  for (int count = 32; count <= 33; count++) {
    size_t n = (size_t)snprintf(text, sizeof text, "{\"items\":[");
    for (int i = 0; i < count; i++)
      n += (size_t)snprintf(text + n, sizeof text - n, "%s{}", i > 0 ? "," : "");
    n += (size_t)snprintf(text + n, sizeof text - n, "]}");
    assert_int_equal(tmesh_agent_metadata_decode(&m, text, n).code, count == 32 ? TMESH_OK : TMESH_E_LIMIT);
    if (count == 32) assert_int_equal(m.item_count, 32);
    tmesh_agent_metadata_free(&m);
  }
  memset(text, ' ', sizeof text);
  memcpy(text, "{}", 2);
  assert_int_equal(tmesh_agent_metadata_decode(&m, text, TMESH_METADATA_MAX_BYTES).code, TMESH_OK);
  tmesh_agent_metadata_free(&m);
  assert_int_equal(tmesh_agent_metadata_decode(&m, text, TMESH_METADATA_MAX_BYTES + 1).code,
                   TMESH_E_TOO_LARGE);
}

static void encode_reports_what_it_cannot_write(void** state) {
  (void)state;
  struct tmesh_agent_metadata m = sample();
  char out[TMESH_METADATA_MAX_BYTES * 2];
  size_t n = 0;
  assert_int_equal(tmesh_agent_metadata_encode(&m, out, sizeof golden - 2, &n).code, TMESH_E_TOO_LARGE);
  m.agent_id = "\xFF";
  assert_int_equal(tmesh_agent_metadata_encode(&m, out, sizeof out, &n).code, TMESH_E_INVALID);
  m = sample();
  m.item_count = TMESH_METADATA_ITEMS_MAX + 1;
  assert_int_equal(tmesh_agent_metadata_encode(&m, out, sizeof out, &n).code, TMESH_E_INVALID);
  m = sample();
  char big[4097];
  memset(big, 'v', 4096);
  big[4096] = '\0';
  m.item_count = 9;
  for (size_t i = 0; i < 9; i++) m.items[i] = (struct tmesh_metadata_item){"n", "env", big, false};
  assert_int_equal(tmesh_agent_metadata_encode(&m, out, sizeof out, &n).code,
                   TMESH_E_TOO_LARGE); /* over 32 KiB */
}

/* --- ack ----------------------------------------------------------------------------- */

static void the_agent_ack_round_trips_its_golden_text(void** state) {
  (void)state;
  static const char text[] =
      "{\"agent_id\":\"a1\",\"epoch\":9007199254740993,\"revision\":2,\"accepted\":false,\"idempotent\":true,"
      "\"connection_pool_supported\":true,\"max_connections_per_agent\":64,"
      "\"errors\":[{\"name\":\"revision\",\"code\":\"stale_revision\",\"message\":\"old\"}],"
      "\"capabilities\":[\"stream_open_result.v1\"]}";
  struct tmesh_agent_metadata_ack a;
  char out[1024];
  size_t n = 0;
  assert_int_equal(tmesh_agent_metadata_ack_decode(&a, text, sizeof text - 1).code, TMESH_OK);
  assert_string_equal(a.agent_id, "a1");
  assert_true(a.epoch == INT64_C(9007199254740993) && a.revision == 2);
  assert_true(!a.is_accepted && a.is_idempotent && a.has_connection_pool);
  assert_int_equal(a.connections_per_agent_max, 64);
  assert_int_equal(a.error_count, 1);
  assert_string_equal(a.errors[0].code, "stale_revision");
  assert_int_equal(a.capabilities, TMESH_CAP_OPEN_RESULT);
  assert_int_equal(tmesh_agent_metadata_ack_encode(&a, out, sizeof out, &n).code, TMESH_OK);
  assert_int_equal(n, sizeof text - 1);
  assert_memory_equal(out, text, n);
  tmesh_agent_metadata_ack_free(&a);
}

static void zero_members_of_an_ack_are_omitted(void** state) {
  (void)state;
  struct tmesh_agent_metadata_ack a = {.agent_id = "a", .epoch = 1, .revision = 1, .is_accepted = true};
  char out[256];
  size_t n = 0;
  assert_int_equal(tmesh_agent_metadata_ack_encode(&a, out, sizeof out - 1, &n).code, TMESH_OK);
  out[n] = '\0';
  assert_string_equal(out, "{\"agent_id\":\"a\",\"epoch\":1,\"revision\":1,\"accepted\":true}");
}

/* --- rules ---------------------------------------------------------------------------- */

static void item_names_are_short_and_plain(void** state) {
  (void)state;
  char name[66];
  memset(name, 'a', 65);
  name[64] = '\0';
  assert_true(tmesh_metadata_name_is_valid(name));
  name[64] = 'a';
  name[65] = '\0';
  assert_false(tmesh_metadata_name_is_valid(name));
  assert_true(tmesh_metadata_name_is_valid("Region_1.a-b"));
  assert_false(tmesh_metadata_name_is_valid(""));
  assert_false(tmesh_metadata_name_is_valid("a b"));
  assert_false(tmesh_metadata_name_is_valid("a/b"));
  assert_false(tmesh_metadata_name_is_valid("\xC3\xA9"));
}

static void names_of_secrets_are_known(void** state) {
  (void)state;
  static const char* const bad[] = {"password",    "DB_PASSWORD",     "api.Token", "secret2",
                                    "private_key", "Private-Key.pem", "mysql_dsn", "xdsnx"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_true(tmesh_metadata_name_is_sensitive(bad[i]));
  assert_false(tmesh_metadata_name_is_sensitive("region"));
  assert_false(tmesh_metadata_name_is_sensitive("private.key"));
  assert_false(tmesh_metadata_name_is_sensitive(""));
  assert_false(tmesh_metadata_name_is_sensitive("passwor"));
}

static void assert_check_refuses(const struct tmesh_agent_metadata* m, const char* name, const char* code) {
  struct tmesh_metadata_error why;
  assert_false(tmesh_agent_metadata_check(m, &why));
  assert_string_equal(why.name, name);
  assert_string_equal(why.code, code);
}

static void the_check_names_the_rule_that_was_broken(void** state) {
  (void)state;
  struct tmesh_agent_metadata m = sample();
  char long_id[130];
  memset(long_id, 'x', 129);
  long_id[129] = '\0';
  m.agent_id = "";
  assert_check_refuses(&m, "agent_id", "invalid_metadata");
  m = sample();
  m.node_id = "  ";
  assert_check_refuses(&m, "node_id", "invalid_metadata");
  m = sample();
  m.connection_id = long_id;
  assert_check_refuses(&m, "connection_id", "invalid_metadata");
  m = sample();
  m.instance_id = "a\nb";
  assert_check_refuses(&m, "instance_id", "invalid_metadata");
  m = sample();
  m.epoch = 0;
  assert_check_refuses(&m, "epoch", "invalid_metadata");
  m = sample();
  m.revision = 0;
  assert_check_refuses(&m, "revision", "invalid_revision");
  m = sample();
  m.items[1].name = "bad name";
  assert_check_refuses(&m, "items", "invalid_metadata");
  m.items[1].name = "token";
  assert_check_refuses(&m, "items", "invalid_metadata");
  m = sample();
  m.items[1].source = "net";
  assert_check_refuses(&m, "items", "invalid_metadata");
  m = sample();
  char big[4098];
  memset(big, 'v', 4097);
  big[4097] = '\0';
  m.items[1].value = big;
  assert_check_refuses(&m, "items", "invalid_metadata");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(agent_metadata_encodes_to_the_golden_text),
      cmocka_unit_test(agent_metadata_decodes_from_the_golden_text),
      cmocka_unit_test(absent_texts_are_empty_and_empty_lists_legal),
      cmocka_unit_test(unknown_capabilities_are_ignored),
      cmocka_unit_test(the_last_duplicate_list_wins),
      cmocka_unit_test(wrong_types_are_refused_and_leave_nothing_to_free),
      cmocka_unit_test(lists_and_payload_are_bounded),
      cmocka_unit_test(encode_reports_what_it_cannot_write),
      cmocka_unit_test(the_agent_ack_round_trips_its_golden_text),
      cmocka_unit_test(zero_members_of_an_ack_are_omitted),
      cmocka_unit_test(item_names_are_short_and_plain),
      cmocka_unit_test(names_of_secrets_are_known),
      cmocka_unit_test(the_check_names_the_rule_that_was_broken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
