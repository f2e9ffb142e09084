#include "core/proto/metadata_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

struct tmesh_status tmesh_metadata_read(char** storage, const void* data, size_t len_bytes, void* to,
                                        void (*take)(struct tmesh_metadata_reader* r, void* to,
                                                     const struct tmesh_metadata_member* member)) {
  struct tmesh_json root;
  *storage = NULL;
  if (len_bytes > TMESH_METADATA_MAX_BYTES) return tmesh_err_stream(TMESH_E_TOO_LARGE);
  if (!tmesh_json_parse(&root, data, len_bytes, TMESH_METADATA_MAX_BYTES) || root.kind != TMESH_JSON_OBJECT) {
    return tmesh_err_stream(TMESH_E_FRAME_PAYLOAD);
  }
  /* A decoded string and its terminator are never longer than the quoted source. */
  *storage = malloc(len_bytes);
  if (*storage == NULL) return tmesh_err_stream(TMESH_E_NO_MEMORY);
  struct tmesh_metadata_reader r = {*storage, *storage + len_bytes, TMESH_OK};
  struct tmesh_metadata_member member;
  struct tmesh_json_iter it = tmesh_json_iter_init(&root);
  while (tmesh_json_next(&it, &member.key, &member.value)) take(&r, to, &member);
  return r.code == TMESH_OK ? tmesh_ok() : tmesh_err_stream((enum tmesh_code)r.code);
}

static bool fail(struct tmesh_metadata_reader* r, enum tmesh_code code) {
  if (r->code == TMESH_OK) r->code = (uint8_t)code;
  return false;
}

/* Whether the member has this name and a value to read. */
static bool is_wanted(const struct tmesh_metadata_member* m, const char* name, bool* matched) {
  *matched = tmesh_json_key_is(&m->key, name);
  return *matched && m->value.kind != TMESH_JSON_NULL;
}

static bool store_text(struct tmesh_metadata_reader* r, const struct tmesh_json* value, const char** out) {
  size_t len = 0;
  if (value->kind != TMESH_JSON_STRING) return fail(r, TMESH_E_FRAME_PAYLOAD);
  bool fits = tmesh_json_string(value, r->at, (size_t)(r->end - r->at), &len);
  TMESH_ASSERT(fits);
  *out = r->at;
  r->at += len + 1;
  return true;
}

bool tmesh_metadata_read_text(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                              const char* name, const char** out) {
  bool matched = false;
  if (is_wanted(m, name, &matched)) store_text(r, &m->value, out);
  return matched;
}

bool tmesh_metadata_read_bool(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                              const char* name, bool* out) {
  bool matched = false;
  if (is_wanted(m, name, &matched) && !tmesh_json_bool(&m->value, out)) fail(r, TMESH_E_FRAME_PAYLOAD);
  return matched;
}

bool tmesh_metadata_read_i64(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                             const char* name, int64_t* out) {
  bool matched = false;
  if (is_wanted(m, name, &matched) && !tmesh_json_i64(&m->value, out)) fail(r, TMESH_E_FRAME_PAYLOAD);
  return matched;
}

bool tmesh_metadata_read_u64(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                             const char* name, uint64_t* out) {
  bool matched = false;
  if (is_wanted(m, name, &matched) && !tmesh_json_u64(&m->value, out)) fail(r, TMESH_E_FRAME_PAYLOAD);
  return matched;
}

bool tmesh_metadata_read_u32(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                             const char* name, uint32_t* out) {
  bool matched = false;
  uint64_t v = 0;
  if (!is_wanted(m, name, &matched)) return matched;
  if (!tmesh_json_u64(&m->value, &v) || v > UINT32_MAX) {
    fail(r, TMESH_E_FRAME_PAYLOAD);
  } else {
    *out = (uint32_t)v;
  }
  return matched;
}

bool tmesh_metadata_read_time(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                              const char* name, struct tmesh_time* out) {
  bool matched = false;
  char text[64]; /* the longest time with nine digits and an offset has 35 bytes */
  size_t len = 0;
  if (is_wanted(m, name, &matched) &&
      (!tmesh_json_string(&m->value, text, sizeof text, &len) || !tmesh_time_parse(out, text, len))) {
    fail(r, TMESH_E_FRAME_PAYLOAD);
  }
  return matched;
}

/* --- lists ------------------------------------------------------------------------ */

/* Whether the member is the list `name`; *it then walks it (nothing after an error). */
static bool begin_list(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                       const char* name, struct tmesh_json_iter* it) {
  bool matched = false;
  bool wanted = is_wanted(m, name, &matched);
  *it = (struct tmesh_json_iter){0};
  if (!wanted) return matched;
  if (m->value.kind != TMESH_JSON_ARRAY) {
    fail(r, TMESH_E_FRAME_PAYLOAD);
  } else {
    *it = tmesh_json_iter_init(&m->value);
  }
  return matched;
}

bool tmesh_metadata_read_capabilities(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                                      uint32_t* out) {
  struct tmesh_json_iter it;
  struct tmesh_json value;
  if (!begin_list(r, m, "capabilities", &it)) return false;
  uint32_t set = 0;
  while (tmesh_json_next(&it, NULL, &value)) {
    char name[64]; /* longer than every name: what does not fit is not one */
    size_t len = 0;
    if (value.kind != TMESH_JSON_STRING) fail(r, TMESH_E_FRAME_PAYLOAD);
    if (tmesh_json_string(&value, name, sizeof name, &len)) set |= tmesh_capability_from_name(name, len);
  }
  if (m->value.kind == TMESH_JSON_ARRAY) *out = set;
  return true;
}

bool tmesh_metadata_read_texts(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                               const char* name, const char** out, size_t max, size_t* count) {
  struct tmesh_json_iter it;
  struct tmesh_json value;
  if (!begin_list(r, m, name, &it)) return false;
  if (it.at != NULL) *count = 0;
  while (tmesh_json_next(&it, NULL, &value)) {
    if (*count == max) return !fail(r, TMESH_E_LIMIT);
    if (!store_text(r, &value, &out[*count])) return true;
    ++*count;
  }
  return true;
}

/* One element of a list of objects: reads its members with `member`. */
typedef void (*member_reader)(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                              void* out);

static bool read_object(struct tmesh_metadata_reader* r, const struct tmesh_json* value, member_reader member,
                        void* out) {
  if (value->kind != TMESH_JSON_OBJECT) return fail(r, TMESH_E_FRAME_PAYLOAD);
  struct tmesh_metadata_member m;
  struct tmesh_json_iter it = tmesh_json_iter_init(value);
  while (tmesh_json_next(&it, &m.key, &m.value)) member(r, &m, out);
  return r->code == TMESH_OK;
}

static void item_member(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m, void* out) {
  struct tmesh_metadata_item* item = out;
  (void)(tmesh_metadata_read_text(r, m, "name", &item->name) ||
         tmesh_metadata_read_text(r, m, "source", &item->source) ||
         tmesh_metadata_read_text(r, m, "value", &item->value) ||
         tmesh_metadata_read_bool(r, m, "redacted", &item->is_redacted));
}

static void error_member(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m, void* out) {
  struct tmesh_metadata_error* error = out;
  (void)(tmesh_metadata_read_text(r, m, "name", &error->name) ||
         tmesh_metadata_read_text(r, m, "code", &error->code) ||
         tmesh_metadata_read_text(r, m, "message", &error->message));
}

static void listener_member(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                            void* out) {
  struct tmesh_metadata_listener* listener = out;
  (void)(tmesh_metadata_read_text(r, m, "protocol", &listener->protocol) ||
         tmesh_metadata_read_text(r, m, "listenAddress", &listener->listen_address) ||
         tmesh_metadata_read_text(r, m, "agentId", &listener->agent_id) ||
         tmesh_metadata_read_bool(r, m, "enabled", &listener->is_enabled));
}

bool tmesh_metadata_read_items(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                               struct tmesh_metadata_item* out, size_t* count) {
  struct tmesh_json_iter it;
  struct tmesh_json value;
  if (!begin_list(r, m, "items", &it)) return false;
  if (it.at != NULL) *count = 0;
  while (tmesh_json_next(&it, NULL, &value)) {
    if (*count == TMESH_METADATA_ITEMS_MAX) return !fail(r, TMESH_E_LIMIT);
    out[*count] = (struct tmesh_metadata_item){"", "", "", false};
    if (!read_object(r, &value, item_member, &out[*count])) return true;
    ++*count;
  }
  return true;
}

bool tmesh_metadata_read_errors(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                                struct tmesh_metadata_error* out, size_t* count) {
  struct tmesh_json_iter it;
  struct tmesh_json value;
  if (!begin_list(r, m, "errors", &it)) return false;
  if (it.at != NULL) *count = 0;
  while (tmesh_json_next(&it, NULL, &value)) {
    if (*count == TMESH_METADATA_ERRORS_MAX) return !fail(r, TMESH_E_LIMIT);
    out[*count] = (struct tmesh_metadata_error){"", "", ""};
    if (!read_object(r, &value, error_member, &out[*count])) return true;
    ++*count;
  }
  return true;
}

bool tmesh_metadata_read_listeners(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                                   struct tmesh_metadata_listener* out, size_t* count) {
  struct tmesh_json_iter it;
  struct tmesh_json value;
  if (!begin_list(r, m, "listeners", &it)) return false;
  if (it.at != NULL) *count = 0;
  while (tmesh_json_next(&it, NULL, &value)) {
    if (*count == TMESH_METADATA_LISTENERS_MAX) return !fail(r, TMESH_E_LIMIT);
    out[*count] = (struct tmesh_metadata_listener){"", "", "", false};
    if (!read_object(r, &value, listener_member, &out[*count])) return true;
    ++*count;
  }
  return true;
}

/* --- writing ----------------------------------------------------------------------- */

void tmesh_metadata_put_items(struct tmesh_json_build* b, const struct tmesh_metadata_item* items,
                              size_t count) {
  cJSON* array = tmesh_json_build_array(b, b->root, "items");
  for (size_t i = 0; i < count; i++) {
    cJSON* item = tmesh_json_build_element(b, array);
    tmesh_json_build_text(b, item, "name", items[i].name);
    tmesh_json_build_text(b, item, "source", items[i].source);
    tmesh_json_build_text_opt(b, item, "value", items[i].value);
    if (items[i].is_redacted) tmesh_json_build_bool(b, item, "redacted", true);
  }
}

void tmesh_metadata_put_errors(struct tmesh_json_build* b, const struct tmesh_metadata_error* errors,
                               size_t count) {
  if (count == 0) return;
  cJSON* array = tmesh_json_build_array(b, b->root, "errors");
  for (size_t i = 0; i < count; i++) {
    cJSON* error = tmesh_json_build_element(b, array);
    tmesh_json_build_text(b, error, "name", errors[i].name);
    tmesh_json_build_text(b, error, "code", errors[i].code);
    tmesh_json_build_text(b, error, "message", errors[i].message);
  }
}

void tmesh_metadata_put_capabilities(struct tmesh_json_build* b, uint32_t set) {
  const char* names[TMESH_CAP_COUNT];
  size_t count = tmesh_capability_names(set, names);
  if (count == 0) return;
  cJSON* array = tmesh_json_build_array(b, b->root, "capabilities");
  for (size_t i = 0; i < count; i++) tmesh_json_build_text_element(b, array, names[i]);
}
