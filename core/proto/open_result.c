#include "core/proto/open_result.h"

#include <string.h>

#include "core/proto/json.h"
#include "core/proto/json_out.h"

static const char* const stage_names[TMESH_STAGE_COUNT] = {
    [TMESH_STAGE_AUTHORIZATION] = "authorization",
    [TMESH_STAGE_SELECTION] = "selection",
    [TMESH_STAGE_RELAY] = "relay",
    [TMESH_STAGE_QUEUE] = "queue",
    [TMESH_STAGE_DNS] = "dns",
    [TMESH_STAGE_CONNECT] = "connect",
    [TMESH_STAGE_POLICY] = "policy",
    [TMESH_STAGE_PROTOCOL] = "protocol",
};

static const char* const code_names[TMESH_OPEN_CODE_COUNT] = {
    [TMESH_OPEN_OK] = "ok",
    [TMESH_OPEN_FORBIDDEN] = "forbidden",
    [TMESH_OPEN_AGENT_OFFLINE] = "agent_offline",
    [TMESH_OPEN_QUEUE_FULL] = "queue_full",
    [TMESH_OPEN_TIMEOUT] = "timeout",
    [TMESH_OPEN_NETWORK_UNREACHABLE] = "network_unreachable",
    [TMESH_OPEN_HOST_UNREACHABLE] = "host_unreachable",
    [TMESH_OPEN_CONNECTION_REFUSED] = "connection_refused",
    [TMESH_OPEN_UNSUPPORTED_CAPABILITY] = "unsupported_capability",
    [TMESH_OPEN_INTERNAL_ERROR] = "internal_error",
};

const char* tmesh_open_stage_name(unsigned stage) {
  return stage < TMESH_STAGE_COUNT ? stage_names[stage] : "unknown";
}

const char* tmesh_open_code_name(unsigned code) {
  return code < TMESH_OPEN_CODE_COUNT ? code_names[code] : "unknown";
}

struct tmesh_status tmesh_open_result_encode(const struct tmesh_open_result* r, char* out, size_t cap_bytes,
                                             size_t* len_bytes) {
  bool is_valid = r->stage < TMESH_STAGE_COUNT && r->code < TMESH_OPEN_CODE_COUNT &&
                  r->accepted == (r->code == TMESH_OPEN_OK);
  if (!is_valid) return tmesh_err_stream(TMESH_E_INVALID);
  struct tmesh_json_out o = tmesh_json_out_init(out, cap_bytes);
  tmesh_json_out_open(&o, NULL);
  tmesh_json_out_bool(&o, "accepted", r->accepted);
  tmesh_json_out_string(&o, "stage", stage_names[r->stage]);
  tmesh_json_out_string(&o, "code", code_names[r->code]);
  tmesh_json_out_bool(&o, "retryable", r->retryable);
  tmesh_json_out_u64(&o, "retry_after_ms", r->retry_after_ms);
  tmesh_json_out_close(&o);
  if (o.w.failed) return tmesh_err_stream(TMESH_E_TOO_LARGE);
  *len_bytes = tmesh_json_out_len(&o);
  return tmesh_ok();
}

/* Index of a string value in names; count when it is another string, -1 for another kind. */
static int enum_index(const struct tmesh_json* value, const char* const* names, int count) {
  if (value->kind != TMESH_JSON_STRING) return -1;
  char text[32]; /* longer than every name: what does not fit is not one */
  if (!tmesh_json_string(value, text, sizeof text, NULL)) return count;
  int i = 0;
  while (i < count && strcmp(names[i], text) != 0) i++;
  return i;
}

/* The members as they were read; -1 = absent. */
struct members {
  int accepted;
  int stage;
  int code;
  bool retryable;
  uint64_t retry_after_ms;
};

static bool read_member(struct members* m, const struct tmesh_json* key, const struct tmesh_json* value) {
  if (value->kind == TMESH_JSON_NULL) return true;
  if (tmesh_json_key_is(key, "accepted")) {
    bool accepted = false;
    if (!tmesh_json_bool(value, &accepted)) return false;
    m->accepted = accepted ? 1 : 0;
    return true;
  }
  if (tmesh_json_key_is(key, "stage")) {
    m->stage = enum_index(value, stage_names, TMESH_STAGE_COUNT);
    return m->stage >= 0;
  }
  if (tmesh_json_key_is(key, "code")) {
    m->code = enum_index(value, code_names, TMESH_OPEN_CODE_COUNT);
    return m->code >= 0;
  }
  if (tmesh_json_key_is(key, "retryable")) return tmesh_json_bool(value, &m->retryable);
  if (tmesh_json_key_is(key, "retry_after_ms")) {
    return tmesh_json_u64(value, &m->retry_after_ms) && m->retry_after_ms <= UINT32_MAX;
  }
  return true;
}

struct tmesh_status tmesh_open_result_decode(struct tmesh_open_result* r, const void* data,
                                             size_t len_bytes) {
  const struct tmesh_status malformed = tmesh_err_stream(TMESH_E_FRAME_PAYLOAD);
  if (len_bytes > TMESH_OPEN_RESULT_MAX_BYTES) return tmesh_err_stream(TMESH_E_TOO_LARGE);
  struct tmesh_json root, key, value;
  if (!tmesh_json_parse(&root, data, len_bytes, TMESH_OPEN_RESULT_MAX_BYTES)) return malformed;
  if (root.kind != TMESH_JSON_OBJECT) return malformed;

  struct members m = {-1, -1, -1, false, 0};
  struct tmesh_json_iter it = tmesh_json_iter_init(&root);
  while (tmesh_json_next(&it, &key, &value)) {
    if (!read_member(&m, &key, &value)) return malformed;
  }
  if (m.accepted < 0 || m.stage < 0 || m.code < 0) return malformed;

  bool is_known = m.stage < TMESH_STAGE_COUNT && m.code < TMESH_OPEN_CODE_COUNT;
  if (!is_known) {
    /* A newer peer's refusal is still a refusal, of a general kind (requirement B7). An
     * acceptance fails the next check. */
    m.stage = TMESH_STAGE_PROTOCOL;
    m.code = TMESH_OPEN_INTERNAL_ERROR;
  }
  if ((m.accepted == 1) != (m.code == TMESH_OPEN_OK)) return malformed;
  r->accepted = m.accepted == 1;
  r->stage = (uint8_t)m.stage;
  r->code = (uint8_t)m.code;
  r->retryable = m.retryable;
  r->retry_after_ms = (uint32_t)m.retry_after_ms;
  return tmesh_ok();
}
