/* Building the larger JSON documents with cJSON. Internal to core/proto.
 *
 * A failed allocation is remembered and reported once, by finish. cJSON keeps numbers
 * as doubles, so integers are added as raw text.
 */
#ifndef TMESH_PROTO_JSON_BUILD_H
#define TMESH_PROTO_JSON_BUILD_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/proto/rfc3339.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_json_build {
  cJSON* root;
  bool failed;
};

struct tmesh_json_build tmesh_json_build_init(void);
/* NULL is "". */
void tmesh_json_build_text(struct tmesh_json_build* b, cJSON* object, const char* key, const char* v);
/* Nothing when the text is NULL or "". */
void tmesh_json_build_text_opt(struct tmesh_json_build* b, cJSON* object, const char* key, const char* v);
void tmesh_json_build_bool(struct tmesh_json_build* b, cJSON* object, const char* key, bool v);
void tmesh_json_build_i64(struct tmesh_json_build* b, cJSON* object, const char* key, int64_t v);
void tmesh_json_build_u64(struct tmesh_json_build* b, cJSON* object, const char* key, uint64_t v);
void tmesh_json_build_time(struct tmesh_json_build* b, cJSON* object, const char* key, struct tmesh_time v);
/* A new member of object, owned by it; NULL after a failure, which every function here accepts. */
cJSON* tmesh_json_build_array(struct tmesh_json_build* b, cJSON* object, const char* key);
cJSON* tmesh_json_build_element(struct tmesh_json_build* b, cJSON* array);
void tmesh_json_build_text_element(struct tmesh_json_build* b, cJSON* array, const char* v);
/* Prints without spaces and frees the tree. NO_MEMORY, TOO_LARGE, INVALID when the
 * text would not pass our own reader; all STREAM scope. */
TMESH_MUST_CHECK struct tmesh_status tmesh_json_build_finish(struct tmesh_json_build* b, char* out,
                                                             size_t cap_bytes, size_t* len_bytes);

#ifdef __cplusplus
}
#endif

#endif
