/* Writing small flat JSON objects into caller-owned memory, without allocation.
 *
 * For the two payloads of the open path; the larger documents are built with cJSON
 * (json_build.h). A write that does not fit sets `failed`, and all later writes do nothing.
 */
#ifndef TMESH_PROTO_JSON_OUT_H
#define TMESH_PROTO_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/cursor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_json_out {
  struct tmesh_writer w;
  size_t cap_bytes;
  bool needs_comma;
};

struct tmesh_json_out tmesh_json_out_init(char* out, size_t cap_bytes);
/* key NULL = the root. Keys are plain ASCII of this program. */
void tmesh_json_out_open(struct tmesh_json_out* o, const char* key);
void tmesh_json_out_close(struct tmesh_json_out* o);
void tmesh_json_out_bool(struct tmesh_json_out* o, const char* key, bool v);
void tmesh_json_out_u64(struct tmesh_json_out* o, const char* key, uint64_t v);
/* v is valid UTF-8 without control characters, and terminated; quotes and backslashes are escaped. */
void tmesh_json_out_string(struct tmesh_json_out* o, const char* key, const char* v);
static inline size_t tmesh_json_out_len(const struct tmesh_json_out* o) {
  return o->cap_bytes - o->w.left_bytes;
}

#ifdef __cplusplus
}
#endif

#endif
