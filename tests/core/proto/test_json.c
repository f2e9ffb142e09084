#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/json.h"

static bool parses(const char* text) {
  struct tmesh_json root;
  return tmesh_json_parse(&root, text, strlen(text), 4096);
}

static void assert_all(const char* const* texts, bool want) {
  for (; *texts != NULL; texts++) {
    if (parses(*texts) != want) printf("%s: <%s>\n", want ? "refused" : "accepted", *texts);
    assert_int_equal(parses(*texts), want);
  }
}

static void documents_of_the_grammar_are_accepted(void** state) {
  (void)state;
  static const char* const texts[] = {"{}",
                                      "[]",
                                      " \t\r\n{ } ",
                                      "null",
                                      "true",
                                      "false",
                                      "0",
                                      "-0",
                                      "12",
                                      "-1.5",
                                      "1e5",
                                      "1E+5",
                                      "0.1e-2",
                                      "\"\"",
                                      "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                      "\"\\u00e9\\uD83D\\uDE00\"",
                                      "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"",
                                      "[1,2,[3],{\"a\":[]}]",
                                      "{\"a\":1,\"b\":{\"c\":[null]},\"\":0}",
                                      "\"\x7F\"",
                                      "[ 1 , 2 ]",
                                      "{ \"a\" : 1 , \"b\" : 2 }",
                                      "[[[[[[[[]]]]]]]]",
                                      "\"\xEF\xBF\xBF\xF4\x8F\xBF\xBF\"",
                                      NULL};
  assert_all(texts, true);
}

static void everything_else_is_refused(void** state) {
  (void)state;
  static const char* const texts[] = {"",
                                      " ",
                                      "{",
                                      "}",
                                      "[",
                                      "]",
                                      "[1",
                                      "[1,",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{\"a\":1 \"b\":2}",
                                      "{a:1}",
                                      "{1:1}",
                                      "{\"a\":1]",
                                      "[1}",
                                      "[]]",
                                      "{}{}",
                                      "{} x",
                                      "01",
                                      "+1",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "1e+",
                                      "--1",
                                      "-",
                                      "0x1",
                                      "NaN",
                                      "Infinity",
                                      "nul",
                                      "nulll",
                                      "True",
                                      "'a'",
                                      "\"",
                                      "\"a",
                                      "\"\\\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12G4\"",
                                      "\"a\nb\"",
                                      "\"\x1F\"",
                                      "/**/1",
                                      "\xEF\xBB\xBF{}",
                                      "\xC2\xA0{}",
                                      "[1]\v",
                                      NULL};
  assert_all(texts, false);
}

static void invalid_utf8_is_refused(void** state) {
  (void)state;
  static const char* const texts[] = {"\"\x80\"",
                                      "\"\xC3\"",
                                      "\"\xC0\xAF\"",
                                      "\"\xC1\xBF\"",
                                      "\"\xE0\x9F\xBF\"",
                                      "\"\xE2\x82\"",
                                      "\"\xED\xA0\x80\"",
                                      "\"\xF0\x8F\xBF\xBF\"",
                                      "\"\xF4\x90\x80\x80\"",
                                      "\"\xF5\x80\x80\x80\"",
                                      "\"\xFF\"",
                                      "{\"\xC3\":1}",
                                      NULL};
  assert_all(texts, false);
}

/* Strings are looked at eight bytes at a time where that is possible. */
static void every_byte_counts_at_every_place_of_a_string(void** state) {
  (void)state;
  struct tmesh_json root;
  for (size_t at = 0; at < 20; at++) {
    for (unsigned byte = 0; byte < 256; byte++) {
      char text[23] = "\"abcdefghijklmnopqrst\"";
      text[1 + at] = (char)byte;
      const bool is_plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
      const bool is_escape = byte == '\\' && strchr("bfnrt", at < 19 ? text[2 + at] : '-') != NULL;
      assert_int_equal(tmesh_json_parse(&root, text, 22, 4096), is_plain || is_escape);
    }
  }
}

static void nul_and_lone_surrogates_are_refused(void** state) {
  (void)state;
  static const char* const texts[] = {
      "\"\\u0000\"",        "{\"\\u0000\":1}", "[\"a\\u0000b\"]", "\"\\uD800\"",        "\"\\uDC00\"",
      "\"\\uD800\\uD800\"", "\"\\uD800x\"",    "\"\\uD800\\n\"",  "\"\\uDBFF\\uE000\"", NULL};
  struct tmesh_json root;
  assert_all(texts, false);
  assert_false(tmesh_json_parse(&root, "\"a\0b\"", 5, 100));
  assert_false(tmesh_json_parse(&root, "{}\0", 3, 100));
}

static void depth_and_size_are_bounded(void** state) {
  (void)state;
  struct tmesh_json root;
  assert_true(parses("[[[[[[[[1]]]]]]]]"));
  assert_false(parses("[[[[[[[[[]]]]]]]]]"));
  assert_false(parses("[{\"a\":[{\"a\":[{\"a\":[{\"a\":[]}]}]}]}]"));
  assert_true(parses("[[],[],[[[[[[[]]]]]]],[]]")); /* siblings do not add up */
  assert_true(tmesh_json_parse(&root, "[1]", 3, 3));
  assert_false(tmesh_json_parse(&root, "[1]", 3, 2));
}

static void the_input_needs_no_terminator(void** state) {
  (void)state;
  struct tmesh_json root;
  int64_t v = 0;
  assert_true(tmesh_json_parse(&root, "1234", 2, 10));
  assert_true(tmesh_json_i64(&root, &v));
  assert_int_equal(v, 12);
  assert_false(tmesh_json_parse(&root, "true", 3, 10));
  assert_false(tmesh_json_parse(&root, "\"\\u0041\"", 6, 10));
}

static void a_walk_yields_members_in_source_order(void** state) {
  (void)state;
  static const char text[] =
      " { \"a\" : [1, {\"x\":\"]\"}] , \"b\":\"q\\\"}\", \"c\":-3 ,\"d\" : null,\"e\":{},\"f\":true } ";
  static const struct {
    const char* key;
    const char* value;
    enum tmesh_json_kind kind;
  } want[] = {
      {"\"a\"", "[1, {\"x\":\"]\"}]", TMESH_JSON_ARRAY},
      {"\"b\"", "\"q\\\"}\"", TMESH_JSON_STRING},
      {"\"c\"", "-3", TMESH_JSON_NUMBER},
      {"\"d\"", "null", TMESH_JSON_NULL},
      {"\"e\"", "{}", TMESH_JSON_OBJECT},
      {"\"f\"", "true", TMESH_JSON_BOOL},
  };
  struct tmesh_json root, key, value;
  assert_true(tmesh_json_parse(&root, text, sizeof text - 1, 4096));
  assert_int_equal(root.kind, TMESH_JSON_OBJECT);
  struct tmesh_json_iter it = tmesh_json_iter_init(&root);
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    assert_true(tmesh_json_next(&it, &key, &value));
    assert_int_equal(key.len_bytes, strlen(want[i].key));
    assert_memory_equal(key.text, want[i].key, key.len_bytes);
    assert_int_equal(value.len_bytes, strlen(want[i].value));
    assert_memory_equal(value.text, want[i].value, value.len_bytes);
    assert_int_equal(value.kind, want[i].kind);
  }
  assert_false(tmesh_json_next(&it, &key, &value));
  assert_false(tmesh_json_next(&it, &key, &value));
}

static size_t count_elements(const char* text) {
  struct tmesh_json root, value;
  size_t count = 0;
  assert_true(tmesh_json_parse(&root, text, strlen(text), 4096));
  struct tmesh_json_iter it = tmesh_json_iter_init(&root);
  while (tmesh_json_next(&it, NULL, &value)) count++;
  return count;
}

static void a_walk_counts_elements_and_scalars_have_none(void** state) {
  (void)state;
  assert_int_equal(count_elements("[]"), 0);
  assert_int_equal(count_elements("[ ]"), 0);
  assert_int_equal(count_elements("[[],[],[1,2]]"), 3);
  assert_int_equal(count_elements("[ 1 ,2, \"a,b\" ]"), 3);
  assert_int_equal(count_elements("{\"a\":1,\"a\":2}"), 2);
  assert_int_equal(count_elements("{ }"), 0);
  assert_int_equal(count_elements("5"), 0);
  assert_int_equal(count_elements("\"[1,2]\""), 0);
}

static bool key_is(const char* quoted, const char* name) {
  struct tmesh_json key;
  assert_true(tmesh_json_parse(&key, quoted, strlen(quoted), 4096));
  return tmesh_json_key_is(&key, name);
}

static void names_match_without_ascii_case_after_escapes(void** state) {
  (void)state;
  assert_true(key_is("\"agent_id\"", "agent_id"));
  assert_true(key_is("\"AGENT_ID\"", "agent_id"));
  assert_true(key_is("\"agentid\"", "agentId"));
  assert_true(key_is("\"\\u0061gent\\u005fid\"", "agent_id"));
  assert_true(key_is("\"\"", ""));
  assert_false(key_is("\"agent_i\"", "agent_id"));
  assert_false(key_is("\"agent_idx\"", "agent_id"));
  assert_false(key_is("\"\"", "a"));
  assert_false(key_is("\"\\u0161gent\"", "agent"));  /* its low byte is an a */
  assert_false(key_is("\"`\"", "@"));                /* the bit that differs in letters differs here too */
  assert_false(key_is("\"\xC5\xBFtage\"", "stage")); /* long s folds to s elsewhere */
}

static bool as_i64(const char* text, int64_t* v) {
  struct tmesh_json root;
  return tmesh_json_parse(&root, text, strlen(text), 4096) && tmesh_json_i64(&root, v);
}

static bool as_u64(const char* text, uint64_t* v) {
  struct tmesh_json root;
  return tmesh_json_parse(&root, text, strlen(text), 4096) && tmesh_json_u64(&root, v);
}

static void integers_are_exact_over_64_bits(void** state) {
  (void)state;
  int64_t i = 0;
  uint64_t u = 0;
  assert_true(as_i64("9223372036854775807", &i) && i == INT64_MAX);
  assert_true(as_i64("-9223372036854775808", &i) && i == INT64_MIN);
  assert_true(as_i64("9007199254740993", &i) && i == INT64_C(9007199254740993)); /* 2^53 + 1 */
  assert_true(as_i64("-0", &i) && i == 0);
  assert_true(as_i64("-1", &i) && i == -1);
  assert_true(as_u64("18446744073709551615", &u) && u == UINT64_MAX);
  assert_true(as_u64("0", &u) && u == 0);
}

static void what_is_no_integer_in_range_is_refused(void** state) {
  (void)state;
  int64_t i = 77;
  uint64_t u = 77;
  assert_false(as_i64("9223372036854775808", &i));
  assert_false(as_i64("-9223372036854775809", &i));
  assert_false(as_i64("1.0", &i));
  assert_false(as_i64("1e2", &i));
  assert_false(as_i64("\"1\"", &i));
  assert_false(as_i64("true", &i));
  assert_false(as_u64("18446744073709551616", &u));
  assert_false(as_u64("99999999999999999999", &u));
  assert_false(as_u64("-1", &u));
  assert_false(as_u64("-0", &u));
  assert_false(as_u64("1.5", &u));
  assert_int_equal(i, 77);
  assert_int_equal(u, 77);
}

static void strings_are_decoded_and_terminated(void** state) {
  (void)state;
  static const char text[] = "\"a\\n\\u00e9\\u20AC\\uD83D\\uDE00\\/\xC3\xA9\\\"\"";
  static const char want[] = "a\n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80/\xC3\xA9\"";
  struct tmesh_json root;
  char out[32];
  size_t len = 0;
  assert_true(tmesh_json_parse(&root, text, sizeof text - 1, 4096));
  assert_int_equal(tmesh_json_string_len(&root), sizeof want - 1);
  assert_true(tmesh_json_string(&root, out, sizeof want, &len));
  assert_int_equal(len, sizeof want - 1);
  assert_string_equal(out, want);
  memset(out, 'x', sizeof out);
  assert_false(tmesh_json_string(&root, out, sizeof want - 1, &len));
  assert_false(tmesh_json_string(&root, out, 0, &len));
  assert_int_equal(out[0], 'x');
}

/* What has nothing to decode goes another way. */
static void strings_without_escapes_are_copied_and_terminated(void** state) {
  (void)state;
  static const char text[] = "\"caf\xC3\xA9\"";
  struct tmesh_json root;
  char out[7];
  size_t len = 0;
  memset(out, 'x', sizeof out);
  assert_true(tmesh_json_parse(&root, text, sizeof text - 1, 4096));
  assert_int_equal(tmesh_json_string_len(&root), 5);
  assert_false(tmesh_json_string(&root, out, 5, &len));
  assert_int_equal(out[0], 'x');
  assert_true(tmesh_json_string(&root, out, 6, &len));
  assert_int_equal(len, 5);
  assert_string_equal(out, "caf\xC3\xA9");
  assert_int_equal(out[6], 'x');
}

static void booleans_are_only_booleans(void** state) {
  (void)state;
  struct tmesh_json root;
  bool v = false;
  assert_true(tmesh_json_parse(&root, "true", 4, 10) && tmesh_json_bool(&root, &v) && v);
  assert_true(tmesh_json_parse(&root, "false", 5, 10) && tmesh_json_bool(&root, &v) && !v);
  assert_true(tmesh_json_parse(&root, "1", 1, 10) && !tmesh_json_bool(&root, &v));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(documents_of_the_grammar_are_accepted),
      cmocka_unit_test(everything_else_is_refused),
      cmocka_unit_test(invalid_utf8_is_refused),
      cmocka_unit_test(every_byte_counts_at_every_place_of_a_string),
      cmocka_unit_test(nul_and_lone_surrogates_are_refused),
      cmocka_unit_test(depth_and_size_are_bounded),
      cmocka_unit_test(the_input_needs_no_terminator),
      cmocka_unit_test(a_walk_yields_members_in_source_order),
      cmocka_unit_test(a_walk_counts_elements_and_scalars_have_none),
      cmocka_unit_test(names_match_without_ascii_case_after_escapes),
      cmocka_unit_test(integers_are_exact_over_64_bits),
      cmocka_unit_test(what_is_no_integer_in_range_is_refused),
      cmocka_unit_test(strings_are_decoded_and_terminated),
      cmocka_unit_test(strings_without_escapes_are_copied_and_terminated),
      cmocka_unit_test(booleans_are_only_booleans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
