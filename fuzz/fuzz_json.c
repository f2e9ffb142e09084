/* The strict JSON reader against cJSON: whatever ours accepts, cJSON reads too, with
 * the same shape, strings and numbers. (The reverse does not hold: ours is stricter.) */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "core/proto/json.h"
#include "fuzz/fuzz.h"

enum { INPUT_MAX = 4096 };

/* cJSON copies a number into 64 bytes and takes what fits: longer ones are its own affair. */
static int has_long_number(const uint8_t* data, size_t size) {
  size_t run = 0;
  for (size_t i = 0; i < size; i++) {
    int is_part = data[i] != 0 && strchr("0123456789+-.eE", data[i]) != NULL;
    run = is_part ? run + 1 : 0;
    if (run > 60) return 1;
  }
  return 0;
}

static void check_string(const struct tmesh_json* v, const char* want) {
  static char text[INPUT_MAX + 1];
  size_t len = 0;
  FUZZ_CHECK(tmesh_json_string(v, text, sizeof text, &len));
  FUZZ_CHECK(len == tmesh_json_string_len(v) && strlen(text) == len);
  FUZZ_CHECK(strcmp(text, want) == 0);
}

static void check_number(const struct tmesh_json* v, double want) {
  int64_t i = 0;
  uint64_t u = 0;
  int is_i64 = tmesh_json_i64(v, &i);
  if (is_i64) FUZZ_CHECK((double)i == want);
  if (tmesh_json_u64(v, &u)) {
    FUZZ_CHECK((double)u == want);
    FUZZ_CHECK(!is_i64 || (i >= 0 && (uint64_t)i == u));
  }
}

static void check_value(const struct tmesh_json* v, const cJSON* want) {
  bool flag = false;
  switch (v->kind) {
    case TMESH_JSON_NULL:
      FUZZ_CHECK(cJSON_IsNull(want));
      return;
    case TMESH_JSON_BOOL:
      FUZZ_CHECK(tmesh_json_bool(v, &flag) && cJSON_IsBool(want) && flag == (cJSON_IsTrue(want) != 0));
      return;
    case TMESH_JSON_NUMBER:
      FUZZ_CHECK(cJSON_IsNumber(want));
      check_number(v, want->valuedouble);
      return;
    case TMESH_JSON_STRING:
      FUZZ_CHECK(cJSON_IsString(want));
      check_string(v, want->valuestring);
      return;
    case TMESH_JSON_ARRAY:
      FUZZ_CHECK(cJSON_IsArray(want));
      break;
    case TMESH_JSON_OBJECT:
      FUZZ_CHECK(cJSON_IsObject(want));
      break;
  }
  struct tmesh_json key, value;
  struct tmesh_json_iter it = tmesh_json_iter_init(v);
  for (const cJSON* child = want->child; child != NULL; child = child->next) {
    FUZZ_CHECK(tmesh_json_next(&it, &key, &value));
    if (v->kind == TMESH_JSON_OBJECT) check_string(&key, child->string);
    check_value(&value, child); /* at most 8 deep */
  }
  FUZZ_CHECK(!tmesh_json_next(&it, &key, &value));
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct tmesh_json root;
  if (size > INPUT_MAX || has_long_number(data, size)) return 0;
  if (!tmesh_json_parse(&root, data, size, INPUT_MAX)) return 0;
  cJSON* tree = cJSON_ParseWithLength((const char*)data, size);
  FUZZ_CHECK(tree != NULL);
  check_value(&root, tree);
  cJSON_Delete(tree);
  return 0;
}
