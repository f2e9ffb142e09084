#include "core/proto/json_scan.h"

#include <string.h>

#include "core/proto/json.h"

static void skip_space(struct tmesh_json_scanner* s) {
  while (s->at < s->end && tmesh_json_is_space(*s->at)) s->at++;
}

/* The next byte, or 0 at the end: no grammar rule wants a NUL, so it fails by itself. */
static uint8_t look(const struct tmesh_json_scanner* s) {
  return s->at < s->end ? *s->at : 0;
}

static bool take(struct tmesh_json_scanner* s, uint8_t c) {
  if (look(s) != c || c == 0) return false;
  s->at++;
  return true;
}

static bool take_word(struct tmesh_json_scanner* s, const char* word) {
  size_t n = strlen(word);
  if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0) return false;
  s->at += n;
  return true;
}

static int hex_digit(uint8_t c) {
  if (tmesh_json_is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Four hex digits, or -1. */
static int32_t take_hex4(struct tmesh_json_scanner* s) {
  if (s->end - s->at < 4) return -1;
  int32_t unit = 0;
  for (int i = 0; i < 4; i++) {
    int d = hex_digit(s->at[i]);
    if (d < 0) return -1;
    unit = unit * 16 + d;
  }
  s->at += 4;
  return unit;
}

/* What follows "\u": a code point, or -1 for bad digits and lone surrogates. */
static int32_t take_unicode(struct tmesh_json_scanner* s) {
  int32_t unit = take_hex4(s);
  if (unit < 0xD800 || unit > 0xDFFF) return unit;
  if (unit > 0xDBFF || !take(s, '\\') || !take(s, 'u')) return -1;
  int32_t low = take_hex4(s);
  if (low < 0xDC00 || low > 0xDFFF) return -1;
  return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
}

int32_t tmesh_json_scan_escape(struct tmesh_json_scanner* s) {
  uint8_t c = look(s);
  if (c != 0) s->at++;
  switch (c) {
    case '"':
    case '\\':
    case '/':
      return c;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'u':
      return take_unicode(s);
    default:
      return -1;
  }
}

/* Length of the well-formed UTF-8 sequence at the front (RFC 3629), or 0. */
static size_t utf8_len(const uint8_t* p, size_t left) {
  uint8_t c = p[0];
  if (c < 0x80) return 1;
  size_t n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
  if (c < 0xC2 || c > 0xF4 || left < n) return 0;
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0;
  }
  if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F)) return 0;
  if ((c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F)) return 0;
  return n;
}

/* None of eight bytes is a control byte, a quote, a backslash or beyond ASCII: a subtraction sets
 * the high bit of the lowest byte that is (and perhaps of others, which costs nothing but time). */
static bool are_plain(const uint8_t* at) {
  const uint64_t each = UINT64_C(0x0101010101010101);
  uint64_t v;
  memcpy(&v, at, sizeof v);
  const uint64_t found = v | (v - each * 0x20) | ((v ^ each * '"') - each) | ((v ^ each * '\\') - each);
  return (found & each * 0x80) == 0;
}

static void skip_plain(struct tmesh_json_scanner* s) {
  const uint8_t* at = s->at;
  while (s->end - at >= 8 && are_plain(at)) at += 8;
  while (at < s->end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') at++;
  s->at = at;
}

static bool check_string(struct tmesh_json_scanner* s) {
  if (!take(s, '"')) return false;
  for (;;) {
    skip_plain(s);
    uint8_t c = look(s);
    if (c == '"') {
      s->at++;
      return true;
    }
    if (c < 0x20) return false;
    if (c == '\\') {
      s->at++;
      if (tmesh_json_scan_escape(s) <= 0) return false; /* 0 is \u0000: it would end a C string */
      continue;
    }
    size_t n = utf8_len(s->at, (size_t)(s->end - s->at));
    if (n == 0) return false;
    s->at += n;
  }
}

static bool check_digits(struct tmesh_json_scanner* s) {
  if (!tmesh_json_is_digit(look(s))) return false;
  while (tmesh_json_is_digit(look(s))) s->at++;
  return true;
}

static bool check_number(struct tmesh_json_scanner* s) {
  take(s, '-');
  if (!take(s, '0') && !check_digits(s)) return false;
  if (take(s, '.') && !check_digits(s)) return false;
  if (take(s, 'e') || take(s, 'E')) {
    if (!take(s, '+')) take(s, '-');
    if (!check_digits(s)) return false;
  }
  return true;
}

static bool check_scalar(struct tmesh_json_scanner* s) {
  switch (look(s)) {
    case '"':
      return check_string(s);
    case 't':
      return take_word(s, "true");
    case 'f':
      return take_word(s, "false");
    case 'n':
      return take_word(s, "null");
    default:
      return check_number(s);
  }
}

static bool check_member_name(struct tmesh_json_scanner* s) {
  skip_space(s);
  if (!check_string(s)) return false;
  skip_space(s);
  return take(s, ':');
}

/* Without recursion: the open brackets are a small stack of their closing bytes. */
bool tmesh_json_scan_document(struct tmesh_json_scanner* s) {
  uint8_t closing[TMESH_JSON_DEPTH_MAX];
  size_t depth = 0;
  for (;;) {
    skip_space(s);
    uint8_t c = look(s);
    if (c == '{' || c == '[') {
      if (depth == TMESH_JSON_DEPTH_MAX) return false;
      uint8_t close = c == '{' ? '}' : ']';
      s->at++;
      skip_space(s);
      if (!take(s, close)) {
        closing[depth++] = close;
        if (close == '}' && !check_member_name(s)) return false;
        continue;
      }
    } else if (!check_scalar(s)) {
      return false;
    }
    skip_space(s);
    while (depth > 0 && take(s, closing[depth - 1])) {
      depth--;
      skip_space(s);
    }
    if (depth == 0) return s->at == s->end;
    if (!take(s, ',')) return false;
    if (closing[depth - 1] == '}' && !check_member_name(s)) return false;
  }
}
