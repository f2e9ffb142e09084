#include "core/proto/rfc3339.h"

#include <string.h>

enum { DAY_S = 86400 };

/* Days since 1970-01-01 of a proleptic Gregorian date, counted in years that start
 * in March, so that the leap day is a year's last. */
static int64_t days_from_civil(int64_t year, int month, int day) {
  if (month <= 2) year--;
  int64_t era = year / 400; /* years are positive here */
  int64_t year_of_era = year - era * 400;
  int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

static bool is_leap(int year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in_month(int year, int month) {
  static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

static char* put_digits(char* at, int64_t v, int width) {
  for (int i = width - 1; i >= 0; i--) {
    at[i] = (char)('0' + v % 10);
    v /= 10;
  }
  return at + width;
}

static struct tmesh_time clamp(struct tmesh_time t) {
  struct tmesh_time first = {TMESH_TIME_ZERO_UNIX_S, 0};
  struct tmesh_time last = {TMESH_TIME_MAX_UNIX_S, 999999999};
  if (t.unix_s < TMESH_TIME_ZERO_UNIX_S) return first;
  if (t.unix_s > TMESH_TIME_MAX_UNIX_S) return last;
  if (t.nanos > 999999999) t.nanos = 999999999;
  return t;
}

static char* put_date(char* at, int64_t days) {
  int64_t year = 1970 + days / 366; /* never past the right year for days >= 0 */
  if (days < 0) year = 1970 + (days - 365) / 365;
  if (year < 1) year = 1;
  while (days_from_civil(year + 1, 1, 1) <= days) year++;
  int month = 1;
  while (month < 12 && days_from_civil(year, month + 1, 1) <= days) month++;
  at = put_digits(at, year, 4);
  *at++ = '-';
  at = put_digits(at, month, 2);
  *at++ = '-';
  return put_digits(at, days - days_from_civil(year, month, 1) + 1, 2);
}

void tmesh_time_format(char out[TMESH_TIME_SIZE], struct tmesh_time t) {
  t = clamp(t);
  int64_t since = t.unix_s - TMESH_TIME_ZERO_UNIX_S;
  int64_t second = since % DAY_S;
  char* at = put_date(out, since / DAY_S + TMESH_TIME_ZERO_UNIX_S / DAY_S);
  *at++ = 'T';
  at = put_digits(at, second / 3600, 2);
  *at++ = ':';
  at = put_digits(at, second / 60 % 60, 2);
  *at++ = ':';
  at = put_digits(at, second % 60, 2);
  if (t.nanos > 0) {
    *at++ = '.';
    at = put_digits(at, t.nanos, 9);
    while (at[-1] == '0') at--;
  }
  *at++ = 'Z';
  *at = '\0';
}

/* Exactly width digits, or -1. */
static int take_digits(const char** at, const char* end, int width) {
  int v = 0;
  if (end - *at < width) return -1;
  for (int i = 0; i < width; i++) {
    char c = (*at)[i];
    if (c < '0' || c > '9') return -1;
    v = v * 10 + (c - '0');
  }
  *at += width;
  return v;
}

static bool take_char(const char** at, const char* end, char c) {
  if (*at == end || **at != c) return false;
  ++*at;
  return true;
}

static bool take_fraction(const char** at, const char* end, uint32_t* nanos) {
  uint32_t scale = 100000000;
  const char* begin = *at;
  for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
    *nanos += (uint32_t)(**at - '0') * scale;
    scale /= 10;
  }
  return *at > begin;
}

static bool take_offset(const char** at, const char* end, int* offset_s) {
  *offset_s = 0;
  if (take_char(at, end, 'Z') || take_char(at, end, 'z')) return true;
  int sign = take_char(at, end, '+') ? 1 : -1;
  if (sign < 0 && !take_char(at, end, '-')) return false;
  int hours = take_digits(at, end, 2);
  if (!take_char(at, end, ':')) return false;
  int minutes = take_digits(at, end, 2);
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return false;
  *offset_s = sign * (hours * 3600 + minutes * 60);
  return true;
}

bool tmesh_time_parse(struct tmesh_time* t, const char* text, size_t len_bytes) {
  const char* at = text;
  const char* end = text + len_bytes;
  int year = take_digits(&at, end, 4);
  if (!take_char(&at, end, '-')) return false;
  int month = take_digits(&at, end, 2);
  if (!take_char(&at, end, '-')) return false;
  int day = take_digits(&at, end, 2);
  if (!take_char(&at, end, 'T') && !take_char(&at, end, 't')) return false;
  int hour = take_digits(&at, end, 2);
  if (!take_char(&at, end, ':')) return false;
  int minute = take_digits(&at, end, 2);
  if (!take_char(&at, end, ':')) return false;
  int second = take_digits(&at, end, 2);
  uint32_t nanos = 0;
  int offset_s = 0;
  if (take_char(&at, end, '.') && !take_fraction(&at, end, &nanos)) return false;
  if (!take_offset(&at, end, &offset_s) || at != end) return false;
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month)) return false;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return false;
  t->unix_s = days_from_civil(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset_s;
  t->nanos = nanos;
  return true;
}
