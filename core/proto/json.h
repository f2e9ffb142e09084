/* The one strict JSON reader for what peers send.
 *
 * A document is checked once as a whole, then read by walking slices of the source
 * text: no tree, no allocation, 64-bit numbers exact. Stricter than RFC 8259 where
 * two readers could disagree about the same bytes: nesting at most 8, valid UTF-8
 * only, no NUL and no lone surrogate in a string, nothing after the value, a size
 * bound. As deployed peers do: member names match ASCII case-insensitively, the last
 * match wins, null counts as absent, unknown members are ignored.
 *
 * Slices point into the caller's document and live as long as it. Pure functions.
 */
#ifndef TMESH_PROTO_JSON_H
#define TMESH_PROTO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The deepest document of the protocol has three levels. */
#define TMESH_JSON_DEPTH_MAX 8u

enum tmesh_json_kind {
  TMESH_JSON_NULL = 0,
  TMESH_JSON_BOOL,
  TMESH_JSON_NUMBER,
  TMESH_JSON_STRING,
  TMESH_JSON_ARRAY,
  TMESH_JSON_OBJECT,
};

/* One value: its source text without the white space around it. */
struct tmesh_json {
  const char* text;
  size_t len_bytes;
  enum tmesh_json_kind kind;
};

/* Checks all of data and yields its root. False, and nothing else is usable, when
 * it is longer than max_bytes or not a strict document. */
bool tmesh_json_parse(struct tmesh_json* root, const void* data, size_t len_bytes, size_t max_bytes);

/* --- walking --------------------------------------------------------------------- */

struct tmesh_json_iter {
  const char* at;
  const char* end;
  bool is_object;
};

/* Walks the members of an object or the elements of an array, in source order. Any
 * other kind has none. */
struct tmesh_json_iter tmesh_json_iter_init(const struct tmesh_json* container);
/* False at the end. key is filled for objects only (a STRING slice); it may be NULL. */
bool tmesh_json_next(struct tmesh_json_iter* it, struct tmesh_json* key, struct tmesh_json* value);
/* Whether a member name equals name (plain ASCII) without regard to ASCII case.
 * Escapes are decoded first, so that "\u0061" and "a" cannot name two things. */
bool tmesh_json_key_is(const struct tmesh_json* key, const char* name);

/* --- values: false means wrong kind or out of range, and leaves the output alone ------ */

bool tmesh_json_bool(const struct tmesh_json* value, bool* out);
/* Only a number written as an integer: 1.0 and 1e3 are refused. */
bool tmesh_json_i64(const struct tmesh_json* value, int64_t* out);
bool tmesh_json_u64(const struct tmesh_json* value, uint64_t* out);
/* Bytes of the decoded string, without a terminator. value must be a STRING. */
size_t tmesh_json_string_len(const struct tmesh_json* value);
/* Decodes a string and terminates it. False also when it needs more than cap - 1 bytes. */
bool tmesh_json_string(const struct tmesh_json* value, char* out, size_t cap_bytes, size_t* len_bytes);

#ifdef __cplusplus
}
#endif

#endif
