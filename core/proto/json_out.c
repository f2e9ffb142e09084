#include "core/proto/json_out.h"

#include <string.h>

static void put(struct tmesh_json_out* o, const char* text) {
  tmesh_writer_bytes(&o->w, text, strlen(text));
}

struct tmesh_json_out tmesh_json_out_init(char* out, size_t cap_bytes) {
  struct tmesh_json_out o = {tmesh_writer_init(out, cap_bytes), cap_bytes, false};
  return o;
}

static void put_string(struct tmesh_json_out* o, const char* v) {
  put(o, "\"");
  while (*v != '\0') {
    const char* end = v;
    while (*end != '\0' && *end != '"' && *end != '\\') end++;
    tmesh_writer_bytes(&o->w, v, (size_t)(end - v));
    if (*end == '\0') break;
    char pair[2] = {'\\', *end};
    tmesh_writer_bytes(&o->w, pair, sizeof pair);
    v = end + 1;
  }
  put(o, "\"");
}

static void put_key(struct tmesh_json_out* o, const char* key) {
  if (o->needs_comma) put(o, ",");
  if (key != NULL) {
    put(o, "\"");
    put(o, key);
    put(o, "\":");
  }
  o->needs_comma = true;
}

void tmesh_json_out_open(struct tmesh_json_out* o, const char* key) {
  put_key(o, key);
  put(o, "{");
  o->needs_comma = false;
}

void tmesh_json_out_close(struct tmesh_json_out* o) {
  put(o, "}");
  o->needs_comma = true;
}

void tmesh_json_out_bool(struct tmesh_json_out* o, const char* key, bool v) {
  put_key(o, key);
  put(o, v ? "true" : "false");
}

void tmesh_json_out_u64(struct tmesh_json_out* o, const char* key, uint64_t v) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = (char)('0' + v % 10);
    v /= 10;
  } while (v > 0);
  put_key(o, key);
  tmesh_writer_bytes(&o->w, digits + at, sizeof digits - at);
}

void tmesh_json_out_string(struct tmesh_json_out* o, const char* key, const char* v) {
  put_key(o, key);
  put_string(o, v);
}
