#include "core/proto/json_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/proto/json.h"
#include "core/proto/limits.h"

static void note(struct tmesh_json_build* b, const cJSON* added) {
  if (added == NULL) b->failed = true;
}

struct tmesh_json_build tmesh_json_build_init(void) {
  struct tmesh_json_build b = {cJSON_CreateObject(), false};
  b.failed = b.root == NULL;
  return b;
}

void tmesh_json_build_text(struct tmesh_json_build* b, cJSON* object, const char* key, const char* v) {
  note(b, cJSON_AddStringToObject(object, key, v == NULL ? "" : v));
}

void tmesh_json_build_text_opt(struct tmesh_json_build* b, cJSON* object, const char* key, const char* v) {
  if (v != NULL && v[0] != '\0') tmesh_json_build_text(b, object, key, v);
}

void tmesh_json_build_bool(struct tmesh_json_build* b, cJSON* object, const char* key, bool v) {
  note(b, cJSON_AddBoolToObject(object, key, v));
}

void tmesh_json_build_i64(struct tmesh_json_build* b, cJSON* object, const char* key, int64_t v) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, v);
  note(b, cJSON_AddRawToObject(object, key, text));
}

void tmesh_json_build_u64(struct tmesh_json_build* b, cJSON* object, const char* key, uint64_t v) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, v);
  note(b, cJSON_AddRawToObject(object, key, text));
}

void tmesh_json_build_time(struct tmesh_json_build* b, cJSON* object, const char* key, struct tmesh_time v) {
  char text[TMESH_TIME_SIZE];
  tmesh_time_format(text, v);
  tmesh_json_build_text(b, object, key, text);
}

cJSON* tmesh_json_build_array(struct tmesh_json_build* b, cJSON* object, const char* key) {
  cJSON* array = cJSON_AddArrayToObject(object, key);
  note(b, array);
  return array;
}

static cJSON* append(struct tmesh_json_build* b, cJSON* array, cJSON* element) {
  if (element == NULL || !cJSON_AddItemToArray(array, element)) {
    cJSON_Delete(element);
    b->failed = true;
    return NULL;
  }
  return element;
}

cJSON* tmesh_json_build_element(struct tmesh_json_build* b, cJSON* array) {
  return append(b, array, cJSON_CreateObject());
}

void tmesh_json_build_text_element(struct tmesh_json_build* b, cJSON* array, const char* v) {
  append(b, array, cJSON_CreateString(v == NULL ? "" : v));
}

struct tmesh_status tmesh_json_build_finish(struct tmesh_json_build* b, char* out, size_t cap_bytes,
                                            size_t* len_bytes) {
  char* text = b->failed ? NULL : cJSON_PrintUnformatted(b->root);
  cJSON_Delete(b->root);
  b->root = NULL;
  if (text == NULL) return tmesh_err_stream(TMESH_E_NO_MEMORY);
  struct tmesh_json root;
  struct tmesh_status st = tmesh_ok();
  size_t n = strlen(text);
  if (n > cap_bytes || n > TMESH_METADATA_MAX_BYTES) {
    st = tmesh_err_stream(TMESH_E_TOO_LARGE);
  } else if (!tmesh_json_parse(&root, text, n, TMESH_METADATA_MAX_BYTES)) {
    st = tmesh_err_stream(TMESH_E_INVALID);
  } else {
    memcpy(out, text, n);
    *len_bytes = n;
  }
  cJSON_free(text);
  return st;
}
