#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/cursor.h"

static void units_are_read_big_endian(void** state) {
  (void)state;
  const uint8_t in[] = {0x01, 0x23, 0x45, 0x89, 0xAB, 0xCD, 0xEF, 'x', 'y'};
  struct tmesh_reader r = tmesh_reader_init(in, sizeof in);
  assert_int_equal(tmesh_reader_u8(&r), 0x01);
  assert_int_equal(tmesh_reader_u16(&r), 0x2345);
  assert_int_equal(tmesh_reader_u32(&r), 0x89ABCDEF);
  assert_memory_equal(tmesh_reader_take(&r, 2), "xy", 2);
  assert_int_equal(r.left_bytes, 0);
  assert_false(r.failed);
}

static void a_read_that_does_not_fit_fails_and_gives_zero(void** state) {
  (void)state;
  const uint8_t in[] = {0xFF, 0xFF, 0xFF};
  struct tmesh_reader r = tmesh_reader_init(in, sizeof in);
  assert_int_equal(tmesh_reader_u32(&r), 0);
  assert_true(r.failed);
  assert_int_equal(r.left_bytes, 3);
}

static void every_read_after_a_failure_fails(void** state) {
  (void)state;
  const uint8_t in[] = {0xFF, 0xFF, 0xFF};
  struct tmesh_reader r = tmesh_reader_init(in, sizeof in);
  assert_null(tmesh_reader_take(&r, 4));
  assert_int_equal(tmesh_reader_u8(&r), 0);
  assert_int_equal(tmesh_reader_u16(&r), 0);
  assert_null(tmesh_reader_take(&r, 0));
  assert_true(r.failed);
  assert_ptr_equal(r.at, in);
}

static void a_huge_length_does_not_wrap(void** state) {
  (void)state;
  const uint8_t in[] = {1, 2};
  struct tmesh_reader r = tmesh_reader_init(in, sizeof in);
  assert_int_equal(tmesh_reader_u8(&r), 1);
  assert_null(tmesh_reader_take(&r, SIZE_MAX));
  uint8_t out[2] = {0};
  struct tmesh_writer w = tmesh_writer_init(out, sizeof out);
  tmesh_writer_u8(&w, 9);
  tmesh_writer_bytes(&w, in, SIZE_MAX);
  assert_true(w.failed);
  assert_int_equal(out[1], 0);
}

static void units_are_written_big_endian(void** state) {
  (void)state;
  uint8_t out[9];
  const uint8_t want[] = {0x01, 0x23, 0x45, 0x89, 0xAB, 0xCD, 0xEF, 'x', 'y'};
  struct tmesh_writer w = tmesh_writer_init(out, sizeof out);
  tmesh_writer_u8(&w, 0x01);
  tmesh_writer_u16(&w, 0x2345);
  tmesh_writer_u32(&w, 0x89ABCDEF);
  tmesh_writer_bytes(&w, "xy", 2);
  assert_false(w.failed);
  assert_int_equal(w.left_bytes, 0);
  assert_memory_equal(out, want, sizeof want);
}

static void a_write_that_does_not_fit_writes_nothing_and_sticks(void** state) {
  (void)state;
  uint8_t out[4] = {0};
  const uint8_t want[4] = {7, 0, 0, 0};
  struct tmesh_writer w = tmesh_writer_init(out, sizeof out);
  tmesh_writer_u8(&w, 7);
  tmesh_writer_u32(&w, UINT32_MAX);
  tmesh_writer_u8(&w, 8);
  assert_true(w.failed);
  assert_int_equal(w.left_bytes, 3);
  assert_memory_equal(out, want, sizeof want);
}

static void nothing_may_be_written_from_a_null_pointer(void** state) {
  (void)state;
  uint8_t out[1];
  struct tmesh_writer w = tmesh_writer_init(out, sizeof out);
  tmesh_writer_bytes(&w, NULL, 0);
  assert_false(w.failed);
  assert_int_equal(w.left_bytes, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(units_are_read_big_endian),
      cmocka_unit_test(a_read_that_does_not_fit_fails_and_gives_zero),
      cmocka_unit_test(every_read_after_a_failure_fails),
      cmocka_unit_test(a_huge_length_does_not_wrap),
      cmocka_unit_test(units_are_written_big_endian),
      cmocka_unit_test(a_write_that_does_not_fit_writes_nothing_and_sticks),
      cmocka_unit_test(nothing_may_be_written_from_a_null_pointer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
