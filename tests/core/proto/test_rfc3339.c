#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/proto/rfc3339.h"

static const struct {
  int64_t unix_s;
  uint32_t nanos;
  const char* text;
} rows[] = {
    {0, 0, "1970-01-01T00:00:00Z"},
    {1, 500000000, "1970-01-01T00:00:01.5Z"},
    {-1, 999999999, "1969-12-31T23:59:59.999999999Z"},
    {951782399, 0, "2000-02-28T23:59:59Z"},
    {951782400, 0, "2000-02-29T00:00:00Z"},
    {951868800, 0, "2000-03-01T00:00:00Z"},
    {1709164800, 1000, "2024-02-29T00:00:00.000001Z"},
    {1790000000, 120000000, "2026-09-21T14:13:20.12Z"},
    {4107542399, 0, "2100-02-28T23:59:59Z"},
    {4107542400, 0, "2100-03-01T00:00:00Z"}, /* 2100 is no leap year */
    {TMESH_TIME_ZERO_UNIX_S, 0, "0001-01-01T00:00:00Z"},
    {TMESH_TIME_ZERO_UNIX_S + 86400 * 365, 0, "0002-01-01T00:00:00Z"},
    {-12219292800, 0, "1582-10-15T00:00:00Z"},
    {TMESH_TIME_MAX_UNIX_S, 999999999, "9999-12-31T23:59:59.999999999Z"},
};

static void known_times_format_and_parse(void** state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char out[TMESH_TIME_SIZE];
    struct tmesh_time t = {rows[i].unix_s, rows[i].nanos};
    struct tmesh_time back = {0, 0};
    tmesh_time_format(out, t);
    assert_string_equal(out, rows[i].text);
    assert_true(tmesh_time_parse(&back, out, strlen(out)));
    assert_true(back.unix_s == t.unix_s);
    assert_int_equal(back.nanos, t.nanos);
  }
}

static void every_day_of_four_centuries_round_trips(void** state) {
  (void)state;
  for (int64_t day = -146097; day < 146097; day++) {
    char out[TMESH_TIME_SIZE];
    struct tmesh_time t = {day * 86400 + 43200, 0};
    struct tmesh_time back = {0, 0};
    tmesh_time_format(out, t);
    if (!tmesh_time_parse(&back, out, strlen(out)) || back.unix_s != t.unix_s) {
      printf("%s\n", out);
      fail();
    }
  }
}

static void times_outside_the_years_1_to_9999_are_clamped(void** state) {
  (void)state;
  char out[TMESH_TIME_SIZE];
  tmesh_time_format(out, (struct tmesh_time){INT64_MIN, 5});
  assert_string_equal(out, "0001-01-01T00:00:00Z");
  tmesh_time_format(out, (struct tmesh_time){INT64_MAX, 5});
  assert_string_equal(out, "9999-12-31T23:59:59.999999999Z");
  tmesh_time_format(out, (struct tmesh_time){0, UINT32_MAX});
  assert_string_equal(out, "1970-01-01T00:00:00.999999999Z");
}

static void offsets_and_long_fractions_are_read(void** state) {
  (void)state;
  static const struct {
    const char* text;
    int64_t unix_s;
    uint32_t nanos;
  } forms[] = {
      {"1970-01-01T08:00:00+08:00", 0, 0},      {"1969-12-31T18:30:00-05:30", 0, 0},
      {"1970-01-01t00:00:00z", 0, 0},           {"1970-01-01T00:00:00.1234567899999Z", 0, 123456789},
      {"1970-01-01T00:00:00.000000000Z", 0, 0},
  };
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    struct tmesh_time t = {9, 9};
    assert_true(tmesh_time_parse(&t, forms[i].text, strlen(forms[i].text)));
    assert_true(t.unix_s == forms[i].unix_s);
    assert_int_equal(t.nanos, forms[i].nanos);
  }
}

static void anything_else_is_refused(void** state) {
  (void)state;
  static const char* const bad[] = {"",
                                    "1970-01-01",
                                    "1970-01-01T00:00:00",
                                    "1970-01-01 00:00:00Z",
                                    "1970-1-01T00:00:00Z",
                                    "1970-13-01T00:00:00Z",
                                    "1970-00-01T00:00:00Z",
                                    "1970-01-00T00:00:00Z",
                                    "1970-01-32T00:00:00Z",
                                    "1970-02-29T00:00:00Z",
                                    "2100-02-29T00:00:00Z",
                                    "0000-01-01T00:00:00Z",
                                    "1970-01-01T24:00:00Z",
                                    "1970-01-01T00:60:00Z",
                                    "1970-01-01T00:00:60Z",
                                    "1970-01-01T00:00:00.Z",
                                    "1970-01-01T00:00:00+0800",
                                    "1970-01-01T00:00:00+24:00",
                                    "1970-01-01T00:00:00+00:60",
                                    "1970-01-01T00:00:00Zx",
                                    "+970-01-01T00:00:00Z",
                                    "1970-01-01T00:00:0-Z",
                                    "1970-01-01T00:00:00,5Z",
                                    "1970-01-01T00:00:00.5"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct tmesh_time t = {0, 0};
    if (tmesh_time_parse(&t, bad[i], strlen(bad[i]))) printf("accepted: %s\n", bad[i]);
    assert_false(tmesh_time_parse(&t, bad[i], strlen(bad[i])));
  }
}

static void the_zero_time_is_year_one(void** state) {
  (void)state;
  struct tmesh_time t = {9, 9};
  assert_true(tmesh_time_parse(&t, "0001-01-01T00:00:00Z", 20));
  assert_true(tmesh_time_is_zero(t));
  assert_false(tmesh_time_is_zero((struct tmesh_time){0, 0}));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_times_format_and_parse),
      cmocka_unit_test(every_day_of_four_centuries_round_trips),
      cmocka_unit_test(times_outside_the_years_1_to_9999_are_clamped),
      cmocka_unit_test(offsets_and_long_fractions_are_read),
      cmocka_unit_test(anything_else_is_refused),
      cmocka_unit_test(the_zero_time_is_year_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
