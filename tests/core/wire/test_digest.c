/* SHA-256 of the FIPS 180-4 examples, HMAC of those of RFC 4231. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#include "core/wire/digest.h"

static void expect_digest(const uint8_t digest[TMESH_SHA256_BYTES], const char* want) {
  char hex[2 * TMESH_SHA256_BYTES + 1];
  for (size_t i = 0; i < TMESH_SHA256_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
  assert_string_equal(hex, want);
}

static void expect(const void* data, size_t n, const char* want) {
  uint8_t out[TMESH_SHA256_BYTES];
  tmesh_sha256(out, data, n);
  expect_digest(out, want);
}

static void expect_hmac(const void* key, size_t key_bytes, const char* data, const char* want) {
  uint8_t out[TMESH_SHA256_BYTES];
  tmesh_hmac_sha256(out, key, key_bytes, data, data == NULL ? 0 : strlen(data));
  expect_digest(out, want);
}

static void test_sha256_is_the_standards_examples(void** state) {
  (void)state;
  expect("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void test_hmac_sha256_is_the_standards_examples(void** state) {
  uint8_t key[131];
  (void)state;
  memset(key, 0x0b, 20);
  expect_hmac(key, 20, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  expect_hmac("Jefe", 4, "what do ya want for nothing?",
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  memset(key, 0xaa, sizeof key);
  expect_hmac(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First",
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* Not of the RFC: of two other implementations. */
static void test_hmac_sha256_takes_nothing_as_key_or_text(void** state) {
  (void)state;
  expect_hmac(NULL, 0, NULL, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sha256_is_the_standards_examples),
                                     cmocka_unit_test(test_hmac_sha256_is_the_standards_examples),
                                     cmocka_unit_test(test_hmac_sha256_takes_nothing_as_key_or_text)};
  return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
