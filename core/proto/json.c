#include "core/proto/json.h"

#include <string.h>

#include "core/base/check.h"
#include "core/proto/json_scan.h"

/* --- walking: over text that was checked ------------------------------------------- */

static enum tmesh_json_kind kind_of(char c) {
  switch (c) {
    case '{':
      return TMESH_JSON_OBJECT;
    case '[':
      return TMESH_JSON_ARRAY;
    case '"':
      return TMESH_JSON_STRING;
    case 't':
    case 'f':
      return TMESH_JSON_BOOL;
    case 'n':
      return TMESH_JSON_NULL;
    default:
      return TMESH_JSON_NUMBER;
  }
}

static const char* after_space(const char* at) {
  while (tmesh_json_is_space((uint8_t)*at)) at++;
  return at;
}

static const char* after_string(const char* at) {
  for (at++; *at != '"'; at++) {
    if (*at == '\\') at++;
  }
  return at + 1;
}

static const char* after_container(const char* at) {
  size_t depth = 0;
  for (;;) {
    char c = *at;
    if (c == '"') {
      at = after_string(at);
      continue;
    }
    if (c == '{' || c == '[') depth++;
    if (c == '}' || c == ']') depth--;
    at++;
    if (depth == 0) return at;
  }
}

/* A value inside a container: something always follows it. */
static const char* slice_value(const char* at, struct tmesh_json* value) {
  const char* end = at;
  value->kind = kind_of(*at);
  if (value->kind == TMESH_JSON_STRING) {
    end = after_string(at);
  } else if (value->kind == TMESH_JSON_OBJECT || value->kind == TMESH_JSON_ARRAY) {
    end = after_container(at);
  } else {
    while (*end != ',' && *end != '}' && *end != ']' && !tmesh_json_is_space((uint8_t)*end)) end++;
  }
  value->text = at;
  value->len_bytes = (size_t)(end - at);
  return end;
}

bool tmesh_json_parse(struct tmesh_json* root, const void* data, size_t len_bytes, size_t max_bytes) {
  if (len_bytes == 0 || len_bytes > max_bytes) return false;
  struct tmesh_json_scanner s = {data, (const uint8_t*)data + len_bytes};
  if (!tmesh_json_scan_document(&s)) return false;
  const char* begin = after_space(data);
  const char* end = (const char*)data + len_bytes;
  while (tmesh_json_is_space((uint8_t)end[-1])) end--;
  root->text = begin;
  root->len_bytes = (size_t)(end - begin);
  root->kind = kind_of(*begin);
  return true;
}

struct tmesh_json_iter tmesh_json_iter_init(const struct tmesh_json* container) {
  struct tmesh_json_iter it = {NULL, NULL, container->kind == TMESH_JSON_OBJECT};
  if (container->kind != TMESH_JSON_OBJECT && container->kind != TMESH_JSON_ARRAY) return it;
  it.at = container->text + 1;
  it.end = container->text + container->len_bytes - 1;
  return it;
}

bool tmesh_json_next(struct tmesh_json_iter* it, struct tmesh_json* key, struct tmesh_json* value) {
  if (it->at == it->end) return false;
  const char* at = after_space(it->at);
  if (at == it->end) return false;
  if (it->is_object) {
    struct tmesh_json name;
    at = after_space(slice_value(at, &name));
    TMESH_ASSERT(*at == ':');
    at = after_space(at + 1);
    if (key != NULL) *key = name;
  }
  at = after_space(slice_value(at, value));
  it->at = *at == ',' ? at + 1 : it->end;
  return true;
}

/* --- values ------------------------------------------------------------------------ */

static size_t put_utf8(char out[4], uint32_t c) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = n - 1; i > 0; i--) {
    out[i] = (char)(0x80 | (c & 0x3F));
    c >>= 6;
  }
  out[0] = (char)(lead[n] | c);
  return n;
}

static struct tmesh_json_scanner string_body(const struct tmesh_json* value) {
  const uint8_t* text = (const uint8_t*)value->text;
  struct tmesh_json_scanner s = {text + 1, text + value->len_bytes - 1};
  return s;
}

/* The next decoded piece of a string, 1-4 bytes; 0 at its end. */
static size_t next_piece(struct tmesh_json_scanner* s, char out[4]) {
  if (s->at == s->end) return 0;
  if (*s->at != '\\') {
    out[0] = (char)*s->at++;
    return 1;
  }
  s->at++;
  return put_utf8(out, (uint32_t)tmesh_json_scan_escape(s));
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool tmesh_json_key_is(const struct tmesh_json* key, const char* name) {
  struct tmesh_json_scanner s = string_body(key);
  const size_t n = strlen(name);
  if ((size_t)(s.end - s.at) < n) return false; /* no escape is shorter than what it stands for */
  if ((size_t)(s.end - s.at) == n && memcmp(s.at, name, n) == 0) return true;
  for (; s.at < s.end; name++) {
    int32_t c = *s.at++;
    if (c == '\\') c = tmesh_json_scan_escape(&s);
    /* No string holds NUL, so the end of name is a difference too. */
    if (c >= 0x80 || lower((char)c) != lower(*name)) return false;
  }
  return *name == '\0';
}

bool tmesh_json_bool(const struct tmesh_json* value, bool* out) {
  if (value->kind != TMESH_JSON_BOOL) return false;
  *out = value->text[0] == 't';
  return true;
}

/* Digits only, no overflow. */
static bool parse_digits(const char* at, const char* end, uint64_t max, uint64_t* out) {
  uint64_t v = 0;
  if (at == end) return false;
  for (; at < end; at++) {
    if (!tmesh_json_is_digit((uint8_t)*at)) return false;
    uint64_t digit = (uint64_t)(*at - '0');
    if (v > (max - digit) / 10) return false;
    v = v * 10 + digit;
  }
  *out = v;
  return true;
}

bool tmesh_json_u64(const struct tmesh_json* value, uint64_t* out) {
  if (value->kind != TMESH_JSON_NUMBER) return false;
  return parse_digits(value->text, value->text + value->len_bytes, UINT64_MAX, out);
}

bool tmesh_json_i64(const struct tmesh_json* value, int64_t* out) {
  if (value->kind != TMESH_JSON_NUMBER) return false;
  bool is_negative = value->text[0] == '-';
  const char* at = value->text + (is_negative ? 1 : 0);
  uint64_t magnitude = 0;
  uint64_t max = (uint64_t)INT64_MAX + (is_negative ? 1 : 0);
  if (!parse_digits(at, value->text + value->len_bytes, max, &magnitude)) return false;
  /* -(m - 1) - 1 reaches INT64_MIN without passing through +2^63. */
  *out = is_negative && magnitude > 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
  return true;
}

/* Nothing to decode. */
static bool is_plain(const struct tmesh_json* value) {
  return memchr(value->text, '\\', value->len_bytes) == NULL;
}

size_t tmesh_json_string_len(const struct tmesh_json* value) {
  TMESH_ASSERT(value->kind == TMESH_JSON_STRING);
  struct tmesh_json_scanner s = string_body(value);
  if (is_plain(value)) return (size_t)(s.end - s.at);
  char piece[4];
  size_t len = 0;
  for (size_t n = next_piece(&s, piece); n > 0; n = next_piece(&s, piece)) len += n;
  return len;
}

bool tmesh_json_string(const struct tmesh_json* value, char* out, size_t cap_bytes, size_t* len_bytes) {
  if (value->kind != TMESH_JSON_STRING) return false;
  const size_t total = tmesh_json_string_len(value);
  if (total >= cap_bytes) return false;
  struct tmesh_json_scanner s = string_body(value);
  size_t len = 0;
  if (total == (size_t)(s.end - s.at)) { /* every escape is longer than what it stands for */
    memcpy(out, s.at, total);
    len = total;
  } else {
    char piece[4];
    for (size_t n = next_piece(&s, piece); n > 0; n = next_piece(&s, piece)) {
      memcpy(out + len, piece, n);
      len += n;
    }
  }
  out[len] = '\0';
  if (len_bytes != NULL) *len_bytes = len;
  return true;
}
