#include "core/proto/open_stream.h"

#include <string.h>

#include "core/proto/base64.h"
#include "core/proto/json.h"
#include "core/proto/json_out.h"

static const char* const protocol_names[TMESH_OPEN_PROTOCOL_OTHER] = {
    [TMESH_OPEN_TCP] = "tcp",
    [TMESH_OPEN_UDP] = "udp",
    [TMESH_OPEN_HTTP] = "http",
};

const char* tmesh_open_protocol_name(unsigned protocol) {
  return protocol < TMESH_OPEN_PROTOCOL_OTHER ? protocol_names[protocol] : "other";
}

static bool is_printable(const char* text) {
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c == 0x7F) return false;
  }
  return true;
}

/* --- encoding -------------------------------------------------------------------- */

static bool is_terminated(const char* text, size_t cap) {
  return memchr(text, '\0', cap) != NULL;
}

#define TEXT_OK(field) (is_terminated(field, sizeof(field)) && is_printable(field))

static bool can_encode(const struct tmesh_open_stream* o) {
  bool texts = TEXT_OK(o->agent_id) && TEXT_OK(o->target_host) && TEXT_OK(o->host_header) &&
               TEXT_OK(o->tls_server_name);
  const struct tmesh_open_relay* r = &o->relay;
  bool relay =
      !o->has_relay || (TEXT_OK(r->ingress_node_id) && TEXT_OK(r->target_connection_id) &&
                        TEXT_OK(r->token_id) && TEXT_OK(r->owner_user_id) && r->target_connection_epoch >= 0);
  return texts && relay && o->target_host[0] != '\0' && o->target_port != 0 &&
         o->protocol < TMESH_OPEN_PROTOCOL_OTHER && o->metadata_len_bytes <= sizeof o->metadata &&
         (!o->is_target_https || o->protocol == TMESH_OPEN_HTTP);
}

static void put_optional(struct tmesh_json_out* j, const char* key, const char* v) {
  if (v[0] != '\0') tmesh_json_out_string(j, key, v);
}

static void put_relay(struct tmesh_json_out* j, const struct tmesh_open_relay* r) {
  tmesh_json_out_open(j, "relay");
  tmesh_json_out_string(j, "ingress_node_id", r->ingress_node_id);
  tmesh_json_out_string(j, "target_connection_id", r->target_connection_id);
  tmesh_json_out_u64(j, "target_connection_epoch", (uint64_t)r->target_connection_epoch);
  tmesh_json_out_string(j, "token_id", r->token_id);
  tmesh_json_out_string(j, "owner_user_id", r->owner_user_id);
  tmesh_json_out_close(j);
}

struct tmesh_status tmesh_open_stream_encode(const struct tmesh_open_stream* o, char* out, size_t cap_bytes,
                                             size_t* len_bytes) {
  if (!can_encode(o)) return tmesh_err_stream(TMESH_E_INVALID);
  struct tmesh_json_out j = tmesh_json_out_init(out, cap_bytes);
  tmesh_json_out_open(&j, NULL);
  put_optional(&j, "agent_id", o->agent_id);
  tmesh_json_out_string(&j, "protocol", protocol_names[o->protocol]);
  tmesh_json_out_string(&j, "target_host", o->target_host);
  tmesh_json_out_u64(&j, "target_port", o->target_port);
  if (o->is_target_https) tmesh_json_out_string(&j, "target_scheme", "https");
  put_optional(&j, "host_header", o->host_header);
  put_optional(&j, "tls_server_name", o->tls_server_name);
  if (o->metadata_len_bytes > 0) {
    char text[TMESH_BASE64_SIZE(TMESH_OPEN_METADATA_MAX_BYTES)];
    tmesh_base64_encode(text, o->metadata, o->metadata_len_bytes);
    tmesh_json_out_string(&j, "metadata", text);
  }
  if (o->has_relay) put_relay(&j, &o->relay);
  tmesh_json_out_close(&j);
  if (j.w.failed) return tmesh_err_stream(TMESH_E_TOO_LARGE);
  *len_bytes = tmesh_json_out_len(&j);
  /* Last, since it is the one rule that needs a scan of its own: not valid UTF-8. */
  struct tmesh_json root;
  if (!tmesh_json_parse(&root, out, *len_bytes, TMESH_OPEN_STREAM_MAX_BYTES)) {
    return tmesh_err_stream(TMESH_E_INVALID);
  }
  return tmesh_ok();
}

/* --- decoding -------------------------------------------------------------------- */

static bool read_text(const struct tmesh_json* value, char* out, size_t cap) {
  return tmesh_json_string(value, out, cap, NULL) && is_printable(out);
}

static bool read_protocol(struct tmesh_open_stream* o, const struct tmesh_json* value) {
  char text[TMESH_HOST_MAX_BYTES + 1];
  if (!read_text(value, text, sizeof text)) return false;
  uint8_t p = 0;
  while (p < TMESH_OPEN_PROTOCOL_OTHER && strcmp(text, protocol_names[p]) != 0) p++;
  o->protocol = p;
  return true;
}

static bool read_port(struct tmesh_open_stream* o, const struct tmesh_json* value) {
  uint64_t port = 0;
  if (!tmesh_json_u64(value, &port) || port == 0 || port > UINT16_MAX) return false;
  o->target_port = (uint16_t)port;
  return true;
}

static bool read_scheme(struct tmesh_open_stream* o, const struct tmesh_json* value) {
  char text[TMESH_HOST_MAX_BYTES + 1];
  if (!read_text(value, text, sizeof text)) return false;
  o->is_target_https = strcmp(text, "https") == 0;
  return true;
}

static bool read_metadata(struct tmesh_open_stream* o, const struct tmesh_json* value) {
  char text[TMESH_BASE64_SIZE(TMESH_OPEN_METADATA_MAX_BYTES)];
  size_t text_len = 0;
  size_t len = 0;
  if (!tmesh_json_string(value, text, sizeof text, &text_len)) return false;
  if (!tmesh_base64_decode(o->metadata, sizeof o->metadata, &len, text, text_len)) return false;
  o->metadata_len_bytes = (uint16_t)len;
  return true;
}

static bool read_relay(struct tmesh_open_stream* o, const struct tmesh_json* object) {
  if (object->kind != TMESH_JSON_OBJECT) return false;
  struct tmesh_open_relay r = {0};
  struct tmesh_json key, value;
  struct tmesh_json_iter it = tmesh_json_iter_init(object);
  while (tmesh_json_next(&it, &key, &value)) {
    bool ok = true;
    if (value.kind == TMESH_JSON_NULL) continue;
    if (tmesh_json_key_is(&key, "ingress_node_id")) {
      ok = read_text(&value, r.ingress_node_id, sizeof r.ingress_node_id);
    } else if (tmesh_json_key_is(&key, "target_connection_id")) {
      ok = read_text(&value, r.target_connection_id, sizeof r.target_connection_id);
    } else if (tmesh_json_key_is(&key, "target_connection_epoch")) {
      ok = tmesh_json_i64(&value, &r.target_connection_epoch) && r.target_connection_epoch >= 0;
    } else if (tmesh_json_key_is(&key, "token_id")) {
      ok = read_text(&value, r.token_id, sizeof r.token_id);
    } else if (tmesh_json_key_is(&key, "owner_user_id")) {
      ok = read_text(&value, r.owner_user_id, sizeof r.owner_user_id);
    }
    if (!ok) return false;
  }
  o->relay = r;
  o->has_relay = true;
  return true;
}

static bool read_member(struct tmesh_open_stream* o, const struct tmesh_json* key,
                        const struct tmesh_json* value) {
  if (value->kind == TMESH_JSON_NULL) return true;
  if (tmesh_json_key_is(key, "agent_id")) return read_text(value, o->agent_id, sizeof o->agent_id);
  if (tmesh_json_key_is(key, "protocol")) return read_protocol(o, value);
  if (tmesh_json_key_is(key, "target_host")) return read_text(value, o->target_host, sizeof o->target_host);
  if (tmesh_json_key_is(key, "target_port")) return read_port(o, value);
  if (tmesh_json_key_is(key, "target_scheme")) return read_scheme(o, value);
  if (tmesh_json_key_is(key, "host_header")) return read_text(value, o->host_header, sizeof o->host_header);
  if (tmesh_json_key_is(key, "tls_server_name")) {
    return read_text(value, o->tls_server_name, sizeof o->tls_server_name);
  }
  if (tmesh_json_key_is(key, "metadata")) return read_metadata(o, value);
  if (tmesh_json_key_is(key, "relay")) return read_relay(o, value);
  return true;
}

struct tmesh_status tmesh_open_stream_decode(struct tmesh_open_stream* o, const void* data,
                                             size_t len_bytes) {
  const struct tmesh_status malformed = tmesh_err_stream(TMESH_E_FRAME_PAYLOAD);
  if (len_bytes > TMESH_OPEN_STREAM_MAX_BYTES) return tmesh_err_stream(TMESH_E_TOO_LARGE);
  struct tmesh_json root, key, value;
  if (!tmesh_json_parse(&root, data, len_bytes, TMESH_OPEN_STREAM_MAX_BYTES)) return malformed;
  if (root.kind != TMESH_JSON_OBJECT) return malformed;

  *o = (struct tmesh_open_stream){0};
  o->protocol = TMESH_OPEN_PROTOCOL_OTHER;
  struct tmesh_json_iter it = tmesh_json_iter_init(&root);
  while (tmesh_json_next(&it, &key, &value)) {
    if (!read_member(o, &key, &value)) return malformed;
  }
  if (o->target_host[0] == '\0' || o->target_port == 0) return malformed;
  if (o->protocol != TMESH_OPEN_HTTP) o->is_target_https = false;
  return tmesh_ok();
}
