#include <stdlib.h>

#include "core/proto/metadata.h"
#include "core/proto/metadata_parts.h"

struct tmesh_status tmesh_agent_metadata_encode(const struct tmesh_agent_metadata* m, char* out,
                                                size_t cap_bytes, size_t* len_bytes) {
  if (m->item_count > TMESH_METADATA_ITEMS_MAX || m->error_count > TMESH_METADATA_ERRORS_MAX) {
    return tmesh_err_stream(TMESH_E_INVALID);
  }
  struct tmesh_json_build b = tmesh_json_build_init();
  tmesh_json_build_text(&b, b.root, "agent_id", m->agent_id);
  tmesh_json_build_text_opt(&b, b.root, "instance_id", m->instance_id);
  tmesh_json_build_text_opt(&b, b.root, "connection_id", m->connection_id);
  tmesh_json_build_text(&b, b.root, "node_id", m->node_id);
  tmesh_json_build_i64(&b, b.root, "epoch", m->epoch);
  tmesh_json_build_u64(&b, b.root, "revision", m->revision);
  tmesh_json_build_time(&b, b.root, "reported_at", m->reported_at);
  tmesh_metadata_put_items(&b, m->items, m->item_count);
  tmesh_metadata_put_errors(&b, m->errors, m->error_count);
  tmesh_metadata_put_capabilities(&b, m->capabilities);
  return tmesh_json_build_finish(&b, out, cap_bytes, len_bytes);
}

static void metadata_member(struct tmesh_metadata_reader* r, void* to,
                            const struct tmesh_metadata_member* member) {
  struct tmesh_agent_metadata* m = to;
  (void)(tmesh_metadata_read_text(r, member, "agent_id", &m->agent_id) ||
         tmesh_metadata_read_text(r, member, "instance_id", &m->instance_id) ||
         tmesh_metadata_read_text(r, member, "connection_id", &m->connection_id) ||
         tmesh_metadata_read_text(r, member, "node_id", &m->node_id) ||
         tmesh_metadata_read_i64(r, member, "epoch", &m->epoch) ||
         tmesh_metadata_read_u64(r, member, "revision", &m->revision) ||
         tmesh_metadata_read_time(r, member, "reported_at", &m->reported_at) ||
         tmesh_metadata_read_items(r, member, m->items, &m->item_count) ||
         tmesh_metadata_read_errors(r, member, m->errors, &m->error_count) ||
         tmesh_metadata_read_capabilities(r, member, &m->capabilities));
}

struct tmesh_status tmesh_agent_metadata_decode(struct tmesh_agent_metadata* m, const void* data,
                                                size_t len_bytes) {
  *m = (struct tmesh_agent_metadata){.agent_id = "", .instance_id = "", .connection_id = "", .node_id = ""};
  m->reported_at.unix_s = TMESH_TIME_ZERO_UNIX_S;
  struct tmesh_status st = tmesh_metadata_read(&m->storage, data, len_bytes, m, metadata_member);
  if (!tmesh_is_ok(st)) tmesh_agent_metadata_free(m);
  return st;
}

void tmesh_agent_metadata_free(struct tmesh_agent_metadata* m) {
  free(m->storage);
  *m = (struct tmesh_agent_metadata){0};
}

struct tmesh_status tmesh_agent_metadata_ack_encode(const struct tmesh_agent_metadata_ack* a, char* out,
                                                    size_t cap_bytes, size_t* len_bytes) {
  if (a->error_count > TMESH_METADATA_ERRORS_MAX) return tmesh_err_stream(TMESH_E_INVALID);
  struct tmesh_json_build b = tmesh_json_build_init();
  tmesh_json_build_text(&b, b.root, "agent_id", a->agent_id);
  tmesh_json_build_i64(&b, b.root, "epoch", a->epoch);
  tmesh_json_build_u64(&b, b.root, "revision", a->revision);
  tmesh_json_build_bool(&b, b.root, "accepted", a->is_accepted);
  if (a->is_idempotent) tmesh_json_build_bool(&b, b.root, "idempotent", true);
  if (a->has_connection_pool) tmesh_json_build_bool(&b, b.root, "connection_pool_supported", true);
  if (a->connections_per_agent_max > 0) {
    tmesh_json_build_u64(&b, b.root, "max_connections_per_agent", a->connections_per_agent_max);
  }
  tmesh_metadata_put_errors(&b, a->errors, a->error_count);
  tmesh_metadata_put_capabilities(&b, a->capabilities);
  return tmesh_json_build_finish(&b, out, cap_bytes, len_bytes);
}

static void ack_member(struct tmesh_metadata_reader* r, void* to,
                       const struct tmesh_metadata_member* member) {
  struct tmesh_agent_metadata_ack* a = to;
  (void)(tmesh_metadata_read_text(r, member, "agent_id", &a->agent_id) ||
         tmesh_metadata_read_i64(r, member, "epoch", &a->epoch) ||
         tmesh_metadata_read_u64(r, member, "revision", &a->revision) ||
         tmesh_metadata_read_bool(r, member, "accepted", &a->is_accepted) ||
         tmesh_metadata_read_bool(r, member, "idempotent", &a->is_idempotent) ||
         tmesh_metadata_read_bool(r, member, "connection_pool_supported", &a->has_connection_pool) ||
         tmesh_metadata_read_u32(r, member, "max_connections_per_agent", &a->connections_per_agent_max) ||
         tmesh_metadata_read_errors(r, member, a->errors, &a->error_count) ||
         tmesh_metadata_read_capabilities(r, member, &a->capabilities));
}

struct tmesh_status tmesh_agent_metadata_ack_decode(struct tmesh_agent_metadata_ack* a, const void* data,
                                                    size_t len_bytes) {
  *a = (struct tmesh_agent_metadata_ack){.agent_id = ""};
  struct tmesh_status st = tmesh_metadata_read(&a->storage, data, len_bytes, a, ack_member);
  if (!tmesh_is_ok(st)) tmesh_agent_metadata_ack_free(a);
  return st;
}

void tmesh_agent_metadata_ack_free(struct tmesh_agent_metadata_ack* a) {
  free(a->storage);
  *a = (struct tmesh_agent_metadata_ack){0};
}
