/* SHA-256 of the FIPS 180-4 examples. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "core/wire/digest.h"

static void expect(const void* data, size_t n, const char* want) {
  uint8_t out[TMESH_SHA256_BYTES];
  char hex[2 * TMESH_SHA256_BYTES + 1];
  tmesh_sha256(out, data, n);
  for (size_t i = 0; i < sizeof out; i++) snprintf(hex + 2 * i, 3, "%02x", out[i]);
  assert_string_equal(hex, want);
}

static void test_sha256_is_the_standards_examples(void** state) {
  (void)state;
  expect("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sha256_is_the_standards_examples)};
  return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
