#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/base64.h"

static void vectors_of_rfc_4648(void** state) {
  (void)state;
  static const char* const rows[][2] = {{"", ""},
                                        {"f", "Zg=="},
                                        {"fo", "Zm8="},
                                        {"foo", "Zm9v"},
                                        {"foob", "Zm9vYg=="},
                                        {"fooba", "Zm9vYmE="},
                                        {"foobar", "Zm9vYmFy"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[16];
    uint8_t back[8];
    size_t n = 99;
    size_t len = strlen(rows[i][0]);
    tmesh_base64_encode(text, (const uint8_t*)rows[i][0], len);
    assert_string_equal(text, rows[i][1]);
    assert_int_equal(strlen(text), TMESH_BASE64_LEN(len));
    assert_true(tmesh_base64_decode(back, sizeof back, &n, text, strlen(text)));
    assert_int_equal(n, len);
    assert_memory_equal(back, rows[i][0], len);
  }
}

static void all_bytes_round_trip(void** state) {
  (void)state;
  uint8_t in[256];
  uint8_t back[256];
  char text[TMESH_BASE64_SIZE(256)];
  for (size_t i = 0; i < 256; i++) in[i] = (uint8_t)(255 - i);
  for (size_t n = 0; n <= 256; n++) {
    size_t len = 0;
    tmesh_base64_encode(text, in, n);
    assert_true(tmesh_base64_decode(back, n, &len, text, strlen(text)));
    assert_int_equal(len, n);
    assert_memory_equal(back, in, n);
  }
}

static void anything_but_the_one_text_is_refused(void** state) {
  (void)state;
  static const char* const bad[] = {
      "Z",     "Zg",       "Zg=",  "Zg===", "=",    "====", "Zh==", "Zm9=",   "Zm9v\n",
      "Zm 9v", "Zg==Zg==", "Z===", "Zm9-",  "Zm9_", "=m9v", "Zm=v", "\xFFm9v"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    uint8_t out[16];
    size_t n = 0;
    assert_false(tmesh_base64_decode(out, sizeof out, &n, bad[i], strlen(bad[i])));
  }
}

static void decode_stays_within_its_capacity(void** state) {
  (void)state;
  uint8_t out[4] = {9, 9, 9, 9};
  size_t n = 0;
  assert_false(tmesh_base64_decode(out, 2, &n, "Zm9v", 4));
  assert_int_equal(out[0], 9);
  assert_true(tmesh_base64_decode(out, 3, &n, "Zm9v", 4));
  assert_false(tmesh_base64_decode(out, 3, &n, "Zm9vYg==", 8));
  assert_true(tmesh_base64_decode(out, 4, &n, "Zm9vYg==", 8));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_of_rfc_4648),
      cmocka_unit_test(all_bytes_round_trip),
      cmocka_unit_test(anything_but_the_one_text_is_refused),
      cmocka_unit_test(decode_stays_within_its_capacity),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
