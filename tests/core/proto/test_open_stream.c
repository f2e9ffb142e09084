#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/open_stream.h"

static struct tmesh_open_stream minimal(void) {
  struct tmesh_open_stream o;
  memset(&o, 0, sizeof o);
  strcpy(o.target_host, "example.com");
  o.target_port = 443;
  return o;
}

static void assert_encodes(const struct tmesh_open_stream* o, const char* want) {
  char out[TMESH_OPEN_STREAM_MAX_BYTES + 1];
  size_t n = 0;
  assert_int_equal(tmesh_open_stream_encode(o, out, TMESH_OPEN_STREAM_MAX_BYTES, &n).code, TMESH_OK);
  out[n] = '\0';
  assert_string_equal(out, want);
}

static void assert_invalid(const struct tmesh_open_stream* o) {
  char out[TMESH_OPEN_STREAM_MAX_BYTES];
  size_t n = 0;
  struct tmesh_status st = tmesh_open_stream_encode(o, out, sizeof out, &n);
  assert_int_equal(st.code, TMESH_E_INVALID);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
}

static struct tmesh_open_stream assert_decodes(const char* text) {
  struct tmesh_open_stream o;
  struct tmesh_status st = tmesh_open_stream_decode(&o, text, strlen(text));
  if (st.code != TMESH_OK) printf("refused: %s\n", text);
  assert_int_equal(st.code, TMESH_OK);
  return o;
}

static void assert_refused(const char* text) {
  struct tmesh_open_stream o;
  struct tmesh_status st = tmesh_open_stream_decode(&o, text, strlen(text));
  if (st.code != TMESH_E_FRAME_PAYLOAD) printf("not refused: %s\n", text);
  assert_int_equal(st.code, TMESH_E_FRAME_PAYLOAD);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
}

/* --- encoding --------------------------------------------------------------------- */

static void empty_optional_keys_are_omitted(void** state) {
  (void)state;
  struct tmesh_open_stream o = minimal();
  assert_encodes(&o, "{\"protocol\":\"tcp\",\"target_host\":\"example.com\",\"target_port\":443}");
}

static void every_key_is_written_in_order(void** state) {
  (void)state;
  struct tmesh_open_stream o = minimal();
  strcpy(o.agent_id, "agent-1");
  o.protocol = TMESH_OPEN_HTTP;
  o.is_target_https = true;
  strcpy(o.host_header, "h:8080");
  strcpy(o.tls_server_name, "sni");
  memcpy(o.metadata, "\x00\xFFz", 3);
  o.metadata_len_bytes = 3;
  o.has_relay = true;
  strcpy(o.relay.ingress_node_id, "node-a");
  strcpy(o.relay.target_connection_id, "c1");
  o.relay.target_connection_epoch = INT64_MAX;
  strcpy(o.relay.token_id, "t");
  strcpy(o.relay.owner_user_id, "u");
  assert_encodes(
      &o,
      "{\"agent_id\":\"agent-1\",\"protocol\":\"http\",\"target_host\":\"example.com\",\"target_port\":443,"
      "\"target_scheme\":\"https\",\"host_header\":\"h:8080\",\"tls_server_name\":\"sni\","
      "\"metadata\":\"AP96\",\"relay\":{\"ingress_node_id\":\"node-a\",\"target_connection_id\":\"c1\","
      "\"target_connection_epoch\":9223372036854775807,\"token_id\":\"t\",\"owner_user_id\":\"u\"}}");
}

static void quotes_and_backslashes_are_escaped(void** state) {
  (void)state;
  struct tmesh_open_stream o = minimal();
  strcpy(o.target_host, "a\"\\b\xC3\xA9");
  assert_encodes(&o, "{\"protocol\":\"tcp\",\"target_host\":\"a\\\"\\\\b\xC3\xA9\",\"target_port\":443}");
}

static void encode_refuses_what_decode_would_refuse(void** state) {
  (void)state;
  struct tmesh_open_stream o = minimal();
  o.target_host[0] = '\0';
  assert_invalid(&o);
  o = minimal();
  o.target_port = 0;
  assert_invalid(&o);
  o = minimal();
  o.protocol = TMESH_OPEN_PROTOCOL_OTHER;
  assert_invalid(&o);
  o = minimal();
  o.is_target_https = true; /* only with protocol http */
  assert_invalid(&o);
  o = minimal();
  strcpy(o.target_host, "a\nb");
  assert_invalid(&o);
  o = minimal();
  strcpy(o.agent_id, "\x7F");
  assert_invalid(&o);
  o = minimal();
  strcpy(o.host_header, "\xFF");
  assert_invalid(&o);
  o = minimal();
  memset(o.tls_server_name, 'a', sizeof o.tls_server_name); /* no terminator */
  assert_invalid(&o);
  o = minimal();
  o.metadata_len_bytes = TMESH_OPEN_METADATA_MAX_BYTES + 1;
  assert_invalid(&o);
  o = minimal();
  o.has_relay = true;
  o.relay.target_connection_epoch = -1;
  assert_invalid(&o);
}

static void the_largest_value_fits_the_payload_limit(void** state) {
  (void)state;
  struct tmesh_open_stream o = minimal();
  char out[TMESH_OPEN_STREAM_MAX_BYTES];
  size_t n = 0;
  o.protocol = TMESH_OPEN_HTTP;
  o.is_target_https = true;
  o.target_port = 65535;
  memset(o.agent_id, '"', TMESH_AGENT_ID_MAX_BYTES); /* the longest escape there is: two bytes for one */
  memset(o.target_host, '\\', TMESH_HOST_MAX_BYTES);
  memset(o.host_header, '"', TMESH_HOST_MAX_BYTES);
  memset(o.tls_server_name, '"', TMESH_HOST_MAX_BYTES);
  o.metadata_len_bytes = TMESH_OPEN_METADATA_MAX_BYTES;
  o.has_relay = true;
  memset(o.relay.ingress_node_id, '"', TMESH_RELAY_ID_MAX_BYTES);
  memset(o.relay.target_connection_id, '"', TMESH_RELAY_ID_MAX_BYTES);
  memset(o.relay.token_id, '"', TMESH_RELAY_ID_MAX_BYTES);
  memset(o.relay.owner_user_id, '"', TMESH_RELAY_ID_MAX_BYTES);
  o.relay.target_connection_epoch = INT64_MAX;
  assert_int_equal(tmesh_open_stream_encode(&o, out, sizeof out, &n).code, TMESH_OK);
  struct tmesh_open_stream back;
  assert_int_equal(tmesh_open_stream_decode(&back, out, n).code, TMESH_OK);
  assert_memory_equal(&back.relay, &o.relay, sizeof o.relay);
  assert_string_equal(back.target_host, o.target_host);
  size_t less = 0;
  assert_int_equal(tmesh_open_stream_encode(&o, out, n - 1, &less).code, TMESH_E_TOO_LARGE);
}

/* --- decoding ---------------------------------------------------------------------- */

static void every_key_is_read(void** state) {
  (void)state;
  struct tmesh_open_stream o = assert_decodes(
      "{\"agent_id\":\"a1\",\"protocol\":\"http\",\"target_host\":\"10.0.0.1\",\"target_port\":65535,"
      "\"target_scheme\":\"https\",\"host_header\":\"h\",\"tls_server_name\":\"s\",\"metadata\":\"AP96\"}");
  assert_string_equal(o.agent_id, "a1");
  assert_int_equal(o.protocol, TMESH_OPEN_HTTP);
  assert_string_equal(o.target_host, "10.0.0.1");
  assert_int_equal(o.target_port, 65535);
  assert_true(o.is_target_https);
  assert_string_equal(o.host_header, "h");
  assert_string_equal(o.tls_server_name, "s");
  assert_int_equal(o.metadata_len_bytes, 3);
  assert_memory_equal(o.metadata, "\x00\xFFz", 3);
  assert_false(o.has_relay);
}

static void optional_keys_may_be_absent_or_null(void** state) {
  (void)state;
  struct tmesh_open_stream o = assert_decodes(
      "{\"agent_id\":null,\"protocol\":\"udp\",\"target_host\":\"::1\",\"target_port\":1,\"target_scheme\":"
      "null,"
      "\"host_header\":null,\"tls_server_name\":null,\"metadata\":null,\"relay\":null}");
  assert_string_equal(o.agent_id, "");
  assert_int_equal(o.protocol, TMESH_OPEN_UDP);
  assert_false(o.is_target_https);
  assert_int_equal(o.metadata_len_bytes, 0);
  assert_false(o.has_relay);
}

static void other_protocols_are_kept_as_other(void** state) {
  (void)state;
  static const char* const names[] = {"icmp-echo", "ws", "TCP", "", "tcp "};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char text[128];
    snprintf(text, sizeof text, "{\"protocol\":\"%s\",\"target_host\":\"h\",\"target_port\":1}", names[i]);
    assert_int_equal(assert_decodes(text).protocol, TMESH_OPEN_PROTOCOL_OTHER);
  }
  assert_int_equal(assert_decodes("{\"target_host\":\"h\",\"target_port\":1}").protocol,
                   TMESH_OPEN_PROTOCOL_OTHER);
  assert_string_equal(tmesh_open_protocol_name(TMESH_OPEN_TCP), "tcp");
  assert_string_equal(tmesh_open_protocol_name(TMESH_OPEN_UDP), "udp");
  assert_string_equal(tmesh_open_protocol_name(TMESH_OPEN_HTTP), "http");
  assert_string_equal(tmesh_open_protocol_name(TMESH_OPEN_PROTOCOL_OTHER), "other");
}

static void https_counts_only_with_protocol_http_wherever_it_stands(void** state) {
  (void)state;
  assert_true(
      assert_decodes(
          "{\"target_scheme\":\"https\",\"protocol\":\"http\",\"target_host\":\"h\",\"target_port\":1}")
          .is_target_https);
  assert_false(
      assert_decodes(
          "{\"target_scheme\":\"https\",\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1}")
          .is_target_https);
  assert_false(
      assert_decodes(
          "{\"target_scheme\":\"http\",\"protocol\":\"http\",\"target_host\":\"h\",\"target_port\":1}")
          .is_target_https);
}

static void the_host_must_be_there(void** state) {
  (void)state;
  assert_refused("{}");
  assert_refused("{\"protocol\":\"tcp\",\"target_port\":1}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"\",\"target_port\":1}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":null,\"target_port\":1}");
}

static void the_port_is_an_integer_from_1_to_65535(void** state) {
  (void)state;
  static const char* const bad[] = {"0",         "65536", "-1",   "1.0",  "1e2",
                                    "\"80\"",    "true",  "null", "[80]", "18446744073709551617",
                                    "4294967376"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char text[128];
    snprintf(text, sizeof text, "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":%s}", bad[i]);
    assert_refused(text);
  }
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\"}");
}

static void wrong_types_are_refused(void** state) {
  (void)state;
  assert_refused("[]");
  assert_refused("{\"agent_id\":1,\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1}");
  assert_refused("{\"protocol\":6,\"target_host\":\"h\",\"target_port\":1}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":[\"h\"],\"target_port\":1}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"target_scheme\":true}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"host_header\":{}}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"tls_server_name\":0}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"metadata\":[1,2]}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"metadata\":\"A\"}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"metadata\":\"A-==\"}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"relay\":[]}");
  assert_refused(
      "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"relay\":{\"target_connection_epoch\":"
      "1.5}}");
  assert_refused(
      "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"relay\":{\"target_connection_epoch\":-"
      "1}}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"relay\":{\"token_id\":7}}");
}

static void control_characters_are_refused(void** state) {
  (void)state;
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"a\\u000ab\",\"target_port\":1}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"a\\tb\",\"target_port\":1}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"a\x7F\",\"target_port\":1}");
  assert_refused("{\"protocol\":\"tcp\",\"target_host\":\"a\\u0000b\",\"target_port\":1}");
  assert_refused(
      "{\"protocol\":\"http\",\"target_host\":\"a\",\"target_port\":1,\"host_header\":\"a\\r\\nX: y\"}");
}

static void strings_are_bounded(void** state) {
  (void)state;
  static const char* const keys[] = {"agent_id", "target_host", "host_header", "tls_server_name"};
  for (size_t k = 0; k < 4; k++) {
    for (int len = 255; len <= 256; len++) {
      char text[512];
      snprintf(text, sizeof text,
               "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"%s\":\"%0*d\"}", keys[k], len,
               0);
      if (len == 255) {
        assert_decodes(text);
      } else {
        assert_refused(text);
      }
    }
  }
}

static void a_payload_over_16384_bytes_is_too_large_for_its_stream(void** state) {
  (void)state;
  static const char text[] = "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1}";
  char* padded = malloc(16385);
  struct tmesh_open_stream o;
  assert_non_null(padded);
  memset(padded, ' ', 16385);
  memcpy(padded, text, sizeof text - 1);
  assert_int_equal(tmesh_open_stream_decode(&o, padded, 16384).code, TMESH_OK);
  struct tmesh_status st = tmesh_open_stream_decode(&o, padded, 16385);
  assert_int_equal(st.code, TMESH_E_TOO_LARGE);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
  free(padded);
}

static void the_last_duplicate_wins_and_is_what_goes_on(void** state) {
  (void)state;
  struct tmesh_open_stream o = assert_decodes(
      "{\"protocol\":\"tcp\",\"target_host\":\"allowed\",\"target_port\":80,\"TARGET_HOST\":\"real\","
      "\"target_port\":22}");
  assert_encodes(&o, "{\"protocol\":\"tcp\",\"target_host\":\"real\",\"target_port\":22}");
  o = assert_decodes(
      "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"metadata\":\"AP96\",\"metadata\":"
      "\"\"}");
  assert_int_equal(o.metadata_len_bytes, 0);
  o = assert_decodes(
      "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"relay\":{\"token_id\":\"a\"},"
      "\"relay\":{}}");
  assert_true(o.has_relay);
  assert_string_equal(o.relay.token_id, "");
}

static void unknown_keys_and_deep_nesting(void** state) {
  (void)state;
  assert_decodes("{\"x\":[[[[[[[]]]]]]],\"target_host\":\"h\",\"target_port\":1}");
  assert_refused("{\"x\":[[[[[[[[]]]]]]]],\"target_host\":\"h\",\"target_port\":1}");
  assert_refused("{\"target_host\":\"h\",\"target_port\":1} trailing");
  assert_refused("{\"target_host\":\"\xC3\",\"target_port\":1}");
}

static void the_relay_object_round_trips(void** state) {
  (void)state;
  struct tmesh_open_stream o = assert_decodes(
      "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"relay\":{\"ingress_node_id\":\"n\","
      "\"later\":true,"
      "\"target_connection_id\":\"c\",\"target_connection_epoch\":9007199254740993,\"token_id\":\"t\","
      "\"owner_user_id\":\"u\"}}");
  assert_true(o.has_relay);
  assert_true(o.relay.target_connection_epoch == INT64_C(9007199254740993));
  assert_encodes(
      &o,
      "{\"protocol\":\"tcp\",\"target_host\":\"h\",\"target_port\":1,\"relay\":{\"ingress_node_id\":\"n\","
      "\"target_connection_id\":\"c\",\"target_connection_epoch\":9007199254740993,\"token_id\":\"t\","
      "\"owner_user_id\":\"u\"}}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty_optional_keys_are_omitted),
      cmocka_unit_test(every_key_is_written_in_order),
      cmocka_unit_test(quotes_and_backslashes_are_escaped),
      cmocka_unit_test(encode_refuses_what_decode_would_refuse),
      cmocka_unit_test(the_largest_value_fits_the_payload_limit),
      cmocka_unit_test(every_key_is_read),
      cmocka_unit_test(optional_keys_may_be_absent_or_null),
      cmocka_unit_test(other_protocols_are_kept_as_other),
      cmocka_unit_test(https_counts_only_with_protocol_http_wherever_it_stands),
      cmocka_unit_test(the_host_must_be_there),
      cmocka_unit_test(the_port_is_an_integer_from_1_to_65535),
      cmocka_unit_test(wrong_types_are_refused),
      cmocka_unit_test(control_characters_are_refused),
      cmocka_unit_test(strings_are_bounded),
      cmocka_unit_test(a_payload_over_16384_bytes_is_too_large_for_its_stream),
      cmocka_unit_test(the_last_duplicate_wins_and_is_what_goes_on),
      cmocka_unit_test(unknown_keys_and_deep_nesting),
      cmocka_unit_test(the_relay_object_round_trips),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
