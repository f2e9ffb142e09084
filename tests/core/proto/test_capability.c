#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/capability.h"

#define BOTH (TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL)

static const char metadata[] = "tunnelmesh.v1.open-result.flow-control.metadata";
static const char flow[] = "tunnelmesh.v1.open-result.flow-control";
static const char strict[] = "tunnelmesh.v1.open-result";
static const char plain[] = "tunnelmesh.v1";

static void every_capability_has_its_wire_name(void** state) {
  (void)state;
  static const struct {
    uint32_t bit;
    const char* name;
  } rows[] = {
      {TMESH_CAP_OPEN_RESULT, "stream_open_result.v1"},
      {TMESH_CAP_FLOW_CONTROL, "stream_flow_control.v1"},
      {TMESH_CAP_FAIR_WRITER, "stream_fair_writer.v1"},
      {TMESH_CAP_ICMP_ECHO, "stream_icmp_echo.v1"},
      {TMESH_CAP_EARLY_DATA, "stream_early_data.v1"},
      {TMESH_CAP_WINDOW_GROWTH, "stream_window_growth.v1"},
      {TMESH_CAP_TCP, "tcp"},
      {TMESH_CAP_UDP, "udp"},
      {TMESH_CAP_HTTP, "http"},
  };
  assert_int_equal(sizeof rows / sizeof rows[0], TMESH_CAP_COUNT);
  for (size_t i = 0; i < TMESH_CAP_COUNT; i++) {
    assert_string_equal(tmesh_capability_name(rows[i].bit), rows[i].name);
    assert_int_equal(tmesh_capability_from_name(rows[i].name, strlen(rows[i].name)), rows[i].bit);
  }
}

static void unknown_names_and_bits_are_nothing(void** state) {
  (void)state;
  static const char* const names[] = {"",
                                      "stream_open_result.v2",
                                      "stream_open_result.v",
                                      "STREAM_OPEN_RESULT.V1",
                                      "stream_open_result.v1 ",
                                      "tcp4"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    assert_int_equal(tmesh_capability_from_name(names[i], strlen(names[i])), 0);
  }
  assert_string_equal(tmesh_capability_name(0), "unknown");
  assert_string_equal(tmesh_capability_name(1u << TMESH_CAP_COUNT), "unknown");
  assert_string_equal(tmesh_capability_name(3), "unknown");
}

static void names_of_a_set_come_in_bit_order(void** state) {
  (void)state;
  const char* names[TMESH_CAP_COUNT];
  assert_int_equal(tmesh_capability_names(0, names), 0);
  assert_int_equal(tmesh_capability_names(TMESH_CAP_EARLY_DATA | TMESH_CAP_OPEN_RESULT, names), 2);
  assert_string_equal(names[0], "stream_open_result.v1");
  assert_string_equal(names[1], "stream_early_data.v1");
  assert_int_equal(tmesh_capability_names(UINT32_MAX, names), TMESH_CAP_COUNT);
}

static void only_what_both_ends_named_remains(void** state) {
  (void)state;
  assert_int_equal(tmesh_capability_intersect(BOTH, TMESH_CAP_OPEN_RESULT | TMESH_CAP_TCP),
                   TMESH_CAP_OPEN_RESULT);
}

static void an_agent_gets_windows_for_either_of_two_capabilities(void** state) {
  (void)state;
  assert_true(tmesh_capability_agent_has_windows(TMESH_CAP_OPEN_RESULT));
  assert_true(tmesh_capability_agent_has_windows(TMESH_CAP_FLOW_CONTROL));
  assert_false(tmesh_capability_agent_has_windows(TMESH_CAP_FAIR_WRITER | TMESH_CAP_PROTOCOLS));
}

static void every_subprotocol_has_its_name_and_meaning(void** state) {
  (void)state;
  static const struct {
    enum tmesh_subprotocol s;
    const char* name;
    bool is_strict, has_windows, has_hello;
  } rows[] = {
      {TMESH_SUBPROTOCOL_NONE, "", false, false, false},
      {TMESH_SUBPROTOCOL_V1, plain, false, false, false},
      {TMESH_SUBPROTOCOL_OPEN_RESULT, strict, true, false, false},
      {TMESH_SUBPROTOCOL_FLOW_CONTROL, flow, true, true, false},
      {TMESH_SUBPROTOCOL_METADATA, metadata, true, true, true},
  };
  assert_int_equal(sizeof rows / sizeof rows[0], TMESH_SUBPROTOCOL_COUNT);
  for (size_t i = 0; i < TMESH_SUBPROTOCOL_COUNT; i++) {
    assert_string_equal(tmesh_subprotocol_name(rows[i].s), rows[i].name);
    assert_int_equal(tmesh_subprotocol_from_name(rows[i].name, strlen(rows[i].name)), rows[i].s);
    assert_int_equal(tmesh_subprotocol_is_strict(rows[i].s), rows[i].is_strict);
    assert_int_equal(tmesh_subprotocol_has_windows(rows[i].s), rows[i].has_windows);
    assert_int_equal(tmesh_subprotocol_has_hello(rows[i].s), rows[i].has_hello);
  }
  assert_string_equal(tmesh_subprotocol_name(TMESH_SUBPROTOCOL_COUNT), "");
  assert_int_equal(tmesh_subprotocol_from_name("tunnelmesh.v2", 13), TMESH_SUBPROTOCOL_NONE);
  assert_int_equal(tmesh_subprotocol_from_name("Tunnelmesh.v1", 13), TMESH_SUBPROTOCOL_NONE);
}

static void the_client_offers_the_best_first(void** state) {
  (void)state;
  char text[TMESH_SUBPROTOCOL_OFFER_SIZE];
  size_t n = tmesh_subprotocol_offer_text(BOTH | TMESH_CAP_FAIR_WRITER, text);
  assert_string_equal(
      text,
      "tunnelmesh.v1.open-result.flow-control.metadata, tunnelmesh.v1.open-result.flow-control, "
      "tunnelmesh.v1.open-result, tunnelmesh.v1");
  assert_int_equal(n, strlen(text));
  tmesh_subprotocol_offer_text(TMESH_CAP_OPEN_RESULT, text);
  assert_string_equal(text, "tunnelmesh.v1.open-result, tunnelmesh.v1");
  tmesh_subprotocol_offer_text(TMESH_CAP_FLOW_CONTROL, text); /* windows need strict open */
  assert_string_equal(text, "tunnelmesh.v1");
  tmesh_subprotocol_offer_text(0, text);
  assert_string_equal(text, "tunnelmesh.v1");
}

static uint32_t offered(const char* line) {
  return tmesh_subprotocol_offered(0, line, strlen(line));
}

static void offers_come_as_comma_lists_and_several_lines(void** state) {
  (void)state;
  uint32_t both = 1u << TMESH_SUBPROTOCOL_V1 | 1u << TMESH_SUBPROTOCOL_OPEN_RESULT;
  assert_int_equal(offered("tunnelmesh.v1,tunnelmesh.v1.open-result"), both);
  assert_int_equal(offered(" tunnelmesh.v1\t, ,, tunnelmesh.v1.open-result ,"), both);
  assert_int_equal(offered("chat, tunnelmesh.v1.open-result, superchat, tunnelmesh.v1"), both);
  uint32_t set = offered("tunnelmesh.v1");
  set = tmesh_subprotocol_offered(set, "tunnelmesh.v1.open-result", strlen(strict));
  assert_int_equal(set, both);
  assert_int_equal(offered(""), 0);
  assert_int_equal(offered("tunnelmesh.v1 tunnelmesh.v1.open-result"), 0); /* one odd name, not two */
  assert_int_equal(offered("tunnelmesh.v11"), 0);
}

/* Every set of offers times every set of switched-on capabilities, against the rule
 * written down again: scan the preference list, take the first that was offered. */
static void the_server_takes_the_best_offered_that_is_switched_on(void** state) {
  (void)state;
  for (uint32_t bits = 0; bits < 16; bits++) {
    for (uint32_t enabled = 0; enabled < 4; enabled++) {
      enum tmesh_subprotocol want = TMESH_SUBPROTOCOL_NONE;
      bool can_strict = (enabled & TMESH_CAP_OPEN_RESULT) != 0;
      bool can_flow = can_strict && (enabled & TMESH_CAP_FLOW_CONTROL) != 0;
      if (bits & 1) want = TMESH_SUBPROTOCOL_V1;
      if ((bits & 2) && can_strict) want = TMESH_SUBPROTOCOL_OPEN_RESULT;
      if ((bits & 4) && can_flow) want = TMESH_SUBPROTOCOL_FLOW_CONTROL;
      if ((bits & 8) && can_flow) want = TMESH_SUBPROTOCOL_METADATA;
      enum tmesh_subprotocol got = tmesh_subprotocol_choose(bits << 1, enabled);
      assert_int_equal(got, want);
      if (got != TMESH_SUBPROTOCOL_NONE) assert_true((bits << 1 & 1u << got) != 0);
    }
  }
}

static void the_client_accepts_only_what_it_offered(void** state) {
  (void)state;
  assert_true(tmesh_subprotocol_was_offered(TMESH_SUBPROTOCOL_METADATA, BOTH));
  assert_false(tmesh_subprotocol_was_offered(TMESH_SUBPROTOCOL_METADATA, TMESH_CAP_OPEN_RESULT));
  assert_true(tmesh_subprotocol_was_offered(TMESH_SUBPROTOCOL_V1, 0));
  assert_false(tmesh_subprotocol_was_offered(TMESH_SUBPROTOCOL_NONE, BOTH));
  assert_false(tmesh_subprotocol_was_offered(TMESH_SUBPROTOCOL_COUNT, BOTH));
}

static void each_switch_leaves_its_capability_on(void** state) {
  (void)state;
  for (unsigned bits = 0; bits < 32; bits++) {
    uint32_t want = 0;
    if (bits & 1) want |= TMESH_CAP_OPEN_RESULT;
    if (bits & 2) want |= TMESH_CAP_FLOW_CONTROL;
    if (bits & 4) want |= TMESH_CAP_FAIR_WRITER;
    if ((bits & 8) && (bits & 1)) want |= TMESH_CAP_EARLY_DATA;
    if ((bits & 16) && (bits & 2)) want |= TMESH_CAP_WINDOW_GROWTH;
    assert_int_equal(tmesh_capability_enabled(bits & 1, bits & 2, bits & 4, bits & 8, bits & 16), want);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_switch_leaves_its_capability_on),
      cmocka_unit_test(every_capability_has_its_wire_name),
      cmocka_unit_test(unknown_names_and_bits_are_nothing),
      cmocka_unit_test(names_of_a_set_come_in_bit_order),
      cmocka_unit_test(only_what_both_ends_named_remains),
      cmocka_unit_test(an_agent_gets_windows_for_either_of_two_capabilities),
      cmocka_unit_test(every_subprotocol_has_its_name_and_meaning),
      cmocka_unit_test(the_client_offers_the_best_first),
      cmocka_unit_test(offers_come_as_comma_lists_and_several_lines),
      cmocka_unit_test(the_server_takes_the_best_offered_that_is_switched_on),
      cmocka_unit_test(the_client_accepts_only_what_it_offered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
