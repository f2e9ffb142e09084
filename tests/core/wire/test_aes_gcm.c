/* AES-GCM against the examples of the GCM specification (test cases 2, 8 and 14), and
 * everything that must not open. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#include "core/wire/aes_gcm.h"

enum { TEXT_BYTES = 16, SEALED_BYTES = TEXT_BYTES + TMESH_GCM_TAG_BYTES };

static const uint8_t zeros[32] = {0};
static const uint8_t nonce[TMESH_GCM_NONCE_BYTES] = {0};

static void to_hex(char* out, const uint8_t* bytes, size_t n) {
  for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void seal_zeros(uint8_t sealed[SEALED_BYTES], size_t key_bytes) {
  struct tmesh_gcm_key key = {zeros, key_bytes};
  assert_int_equal(tmesh_gcm_seal(sealed, key, nonce, zeros, TEXT_BYTES), TMESH_OK);
}

static void expect_sealed(size_t key_bytes, const char* want) {
  uint8_t sealed[SEALED_BYTES];
  char hex[2 * SEALED_BYTES + 1];
  seal_zeros(sealed, key_bytes);
  to_hex(hex, sealed, sizeof sealed);
  assert_string_equal(hex, want);
}

static void test_seal_is_the_specifications_examples(void** state) {
  (void)state;
  expect_sealed(16, "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf");
  expect_sealed(24, "98e7247c07f0fe411c267e4384b0f6002ff58d80033927ab8ef4d4587514f0fb");
  expect_sealed(32, "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
}

static void test_open_gives_back_what_was_sealed(void** state) {
  (void)state;
  for (size_t key_bytes = 16; key_bytes <= 32; key_bytes += 8) {
    uint8_t sealed[SEALED_BYTES], text[TEXT_BYTES];
    struct tmesh_gcm_key key = {zeros, key_bytes};
    memset(text, 0xff, sizeof text);
    seal_zeros(sealed, key_bytes);
    assert_int_equal(tmesh_gcm_open(text, key, nonce, sealed, sizeof sealed), TMESH_OK);
    assert_memory_equal(text, zeros, sizeof text);
  }
}

static void test_the_empty_text_is_a_tag(void** state) {
  (void)state;
  uint8_t sealed[TMESH_GCM_TAG_BYTES], text[1];
  char hex[2 * TMESH_GCM_TAG_BYTES + 1];
  struct tmesh_gcm_key key = {zeros, 16};
  assert_int_equal(tmesh_gcm_seal(sealed, key, nonce, NULL, 0), TMESH_OK);
  to_hex(hex, sealed, sizeof sealed);
  assert_string_equal(hex, "58e2fccefa7e3061367f1d57a4e7455a");
  assert_int_equal(tmesh_gcm_open(text, key, nonce, sealed, sizeof sealed), TMESH_OK);
}

/* Every bit counts, and nothing of a text that fails is left behind. */
static void test_a_changed_bit_does_not_open(void** state) {
  (void)state;
  struct tmesh_gcm_key key = {zeros, 32};
  for (size_t bit = 0; bit < (size_t)SEALED_BYTES * 8; bit++) {
    uint8_t sealed[SEALED_BYTES], text[TEXT_BYTES];
    seal_zeros(sealed, 32);
    sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    memset(text, 0xff, sizeof text);
    assert_int_equal(tmesh_gcm_open(text, key, nonce, sealed, sizeof sealed), TMESH_E_INVALID);
    assert_memory_equal(text, zeros, sizeof text);
  }
}

static void test_another_key_nonce_or_length_does_not_open(void** state) {
  (void)state;
  uint8_t sealed[SEALED_BYTES], text[SEALED_BYTES];
  uint8_t other[32] = {1};
  struct tmesh_gcm_key key = {zeros, 32}, other_key = {other, 32}, short_key = {zeros, 16};
  seal_zeros(sealed, 32);
  assert_int_equal(tmesh_gcm_open(text, other_key, nonce, sealed, sizeof sealed), TMESH_E_INVALID);
  assert_int_equal(tmesh_gcm_open(text, short_key, nonce, sealed, sizeof sealed), TMESH_E_INVALID);
  assert_int_equal(tmesh_gcm_open(text, key, other, sealed, sizeof sealed), TMESH_E_INVALID);
  assert_int_equal(tmesh_gcm_open(text, key, nonce, sealed, sizeof sealed - 1), TMESH_E_INVALID);
  assert_int_equal(tmesh_gcm_open(text, key, nonce, sealed, TMESH_GCM_TAG_BYTES - 1), TMESH_E_INVALID);
}

static void test_a_key_of_another_length_is_invalid(void** state) {
  (void)state;
  uint8_t sealed[SEALED_BYTES], text[SEALED_BYTES];
  for (size_t key_bytes = 0; key_bytes <= 32; key_bytes++) {
    struct tmesh_gcm_key key = {zeros, key_bytes};
    if (key_bytes == 16 || key_bytes == 24 || key_bytes == 32) continue;
    assert_int_equal(tmesh_gcm_seal(sealed, key, nonce, zeros, TEXT_BYTES), TMESH_E_INVALID);
    seal_zeros(sealed, 32);
    assert_int_equal(tmesh_gcm_open(text, key, nonce, sealed, sizeof sealed), TMESH_E_INVALID);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_seal_is_the_specifications_examples),
      cmocka_unit_test(test_open_gives_back_what_was_sealed),
      cmocka_unit_test(test_the_empty_text_is_a_tag),
      cmocka_unit_test(test_a_changed_bit_does_not_open),
      cmocka_unit_test(test_another_key_nonce_or_length_does_not_open),
      cmocka_unit_test(test_a_key_of_another_length_is_invalid),
  };
  return cmocka_run_group_tests_name("aes_gcm", tests, NULL, NULL);
}
