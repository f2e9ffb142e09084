#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/status.h"

static void every_code_has_a_distinct_lower_case_name(void** state) {
  (void)state;
  for (unsigned i = 0; i < TMESH_CODE_COUNT; i++) {
    const char* name = tmesh_code_name(i);
    assert_non_null(name);
    assert_int_not_equal(strlen(name), 0);
    assert_string_not_equal(name, "unknown");
    assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
    for (unsigned k = 0; k < i; k++) assert_string_not_equal(name, tmesh_code_name(k));
  }
}

static void a_value_outside_the_enum_is_unknown(void** state) {
  (void)state;
  assert_string_equal(tmesh_code_name(TMESH_CODE_COUNT), "unknown");
  assert_string_equal(tmesh_code_name(UINT32_MAX), "unknown");
}

static void names_are_stable(void** state) {
  (void)state;
  assert_string_equal(tmesh_code_name(TMESH_OK), "ok");
  assert_string_equal(tmesh_code_name(TMESH_E_WINDOW_EXCEEDED), "window_exceeded");
  assert_string_equal(tmesh_code_name(TMESH_E_UNSUPPORTED), "unsupported");
}

static void scope_is_none_exactly_for_ok_and_again(void** state) {
  (void)state;
  assert_int_equal(tmesh_ok().scope, TMESH_SCOPE_NONE);
  assert_int_equal(tmesh_again().scope, TMESH_SCOPE_NONE);
  assert_int_equal(tmesh_err_stream(TMESH_E_RESET).scope, TMESH_SCOPE_STREAM);
  assert_int_equal(tmesh_err_session(TMESH_E_IO).scope, TMESH_SCOPE_SESSION);
  assert_int_equal(tmesh_err_session(TMESH_E_IO).code, TMESH_E_IO);
  assert_true(tmesh_is_ok(tmesh_ok()));
  assert_false(tmesh_is_ok(tmesh_again()));
  assert_false(tmesh_is_ok(tmesh_err_stream(TMESH_E_RESET)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_has_a_distinct_lower_case_name),
      cmocka_unit_test(a_value_outside_the_enum_is_unknown),
      cmocka_unit_test(names_are_stable),
      cmocka_unit_test(scope_is_none_exactly_for_ok_and_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
