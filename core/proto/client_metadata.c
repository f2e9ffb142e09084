#include <stdlib.h>

#include "core/proto/metadata.h"
#include "core/proto/metadata_parts.h"

static void put_listeners(struct tmesh_json_build* b, const struct tmesh_client_metadata* m) {
  if (m->listener_count == 0) return;
  cJSON* array = tmesh_json_build_array(b, b->root, "listeners");
  for (size_t i = 0; i < m->listener_count; i++) {
    cJSON* listener = tmesh_json_build_element(b, array);
    tmesh_json_build_text(b, listener, "protocol", m->listeners[i].protocol);
    tmesh_json_build_text(b, listener, "listenAddress", m->listeners[i].listen_address);
    tmesh_json_build_text(b, listener, "agentId", m->listeners[i].agent_id);
    tmesh_json_build_bool(b, listener, "enabled", m->listeners[i].is_enabled);
  }
}

struct tmesh_status tmesh_client_metadata_encode(const struct tmesh_client_metadata* m, char* out,
                                                 size_t cap_bytes, size_t* len_bytes) {
  if (m->item_count > TMESH_METADATA_ITEMS_MAX || m->error_count > TMESH_METADATA_ERRORS_MAX ||
      m->listener_count > TMESH_METADATA_LISTENERS_MAX || m->agent_id_count > TMESH_METADATA_AGENTS_MAX) {
    return tmesh_err_stream(TMESH_E_INVALID);
  }
  struct tmesh_json_build b = tmesh_json_build_init();
  tmesh_json_build_text(&b, b.root, "instance_id", m->instance_id);
  if (m->connection_slot > 0) tmesh_json_build_u64(&b, b.root, "connection_slot", m->connection_slot);
  if (m->agent_id_count > 0) {
    cJSON* array = tmesh_json_build_array(&b, b.root, "agent_ids");
    for (size_t i = 0; i < m->agent_id_count; i++) tmesh_json_build_text_element(&b, array, m->agent_ids[i]);
  }
  tmesh_json_build_text_opt(&b, b.root, "version", m->version);
  tmesh_json_build_text_opt(&b, b.root, "commit", m->commit);
  tmesh_json_build_text_opt(&b, b.root, "platform", m->platform);
  tmesh_json_build_text_opt(&b, b.root, "hostname", m->hostname);
  tmesh_json_build_time(&b, b.root, "process_start_at", m->process_start_at);
  tmesh_json_build_time(&b, b.root, "reported_at", m->reported_at);
  tmesh_json_build_u64(&b, b.root, "revision", m->revision);
  put_listeners(&b, m);
  if (m->item_count > 0) tmesh_metadata_put_items(&b, m->items, m->item_count);
  tmesh_metadata_put_capabilities(&b, m->capabilities);
  tmesh_metadata_put_errors(&b, m->errors, m->error_count);
  return tmesh_json_build_finish(&b, out, cap_bytes, len_bytes);
}

static void metadata_member(struct tmesh_metadata_reader* r, void* to,
                            const struct tmesh_metadata_member* member) {
  struct tmesh_client_metadata* m = to;
  (void)(tmesh_metadata_read_text(r, member, "instance_id", &m->instance_id) ||
         tmesh_metadata_read_u32(r, member, "connection_slot", &m->connection_slot) ||
         tmesh_metadata_read_texts(r, member, "agent_ids", m->agent_ids, TMESH_METADATA_AGENTS_MAX,
                                   &m->agent_id_count) ||
         tmesh_metadata_read_text(r, member, "version", &m->version) ||
         tmesh_metadata_read_text(r, member, "commit", &m->commit) ||
         tmesh_metadata_read_text(r, member, "platform", &m->platform) ||
         tmesh_metadata_read_text(r, member, "hostname", &m->hostname) ||
         tmesh_metadata_read_time(r, member, "process_start_at", &m->process_start_at) ||
         tmesh_metadata_read_time(r, member, "reported_at", &m->reported_at) ||
         tmesh_metadata_read_u64(r, member, "revision", &m->revision) ||
         tmesh_metadata_read_listeners(r, member, m->listeners, &m->listener_count) ||
         tmesh_metadata_read_items(r, member, m->items, &m->item_count) ||
         tmesh_metadata_read_capabilities(r, member, &m->capabilities) ||
         tmesh_metadata_read_errors(r, member, m->errors, &m->error_count));
}

struct tmesh_status tmesh_client_metadata_decode(struct tmesh_client_metadata* m, const void* data,
                                                 size_t len_bytes) {
  *m = (struct tmesh_client_metadata){
      .instance_id = "", .version = "", .commit = "", .platform = "", .hostname = ""};
  m->process_start_at.unix_s = TMESH_TIME_ZERO_UNIX_S;
  m->reported_at.unix_s = TMESH_TIME_ZERO_UNIX_S;
  struct tmesh_status st = tmesh_metadata_read(&m->storage, data, len_bytes, m, metadata_member);
  if (!tmesh_is_ok(st)) tmesh_client_metadata_free(m);
  return st;
}

void tmesh_client_metadata_free(struct tmesh_client_metadata* m) {
  free(m->storage);
  *m = (struct tmesh_client_metadata){0};
}

struct tmesh_status tmesh_client_metadata_ack_encode(const struct tmesh_client_metadata_ack* a, char* out,
                                                     size_t cap_bytes, size_t* len_bytes) {
  if (a->error_count > TMESH_METADATA_ERRORS_MAX) return tmesh_err_stream(TMESH_E_INVALID);
  struct tmesh_json_build b = tmesh_json_build_init();
  tmesh_json_build_text(&b, b.root, "client_instance_id", a->client_instance_id);
  tmesh_json_build_text(&b, b.root, "instance_id", a->instance_id);
  tmesh_json_build_text(&b, b.root, "connection_id", a->connection_id);
  tmesh_json_build_u64(&b, b.root, "revision", a->revision);
  tmesh_json_build_bool(&b, b.root, "accepted", a->is_accepted);
  if (a->is_idempotent) tmesh_json_build_bool(&b, b.root, "idempotent", true);
  tmesh_metadata_put_errors(&b, a->errors, a->error_count);
  tmesh_metadata_put_capabilities(&b, a->capabilities);
  return tmesh_json_build_finish(&b, out, cap_bytes, len_bytes);
}

static void ack_member(struct tmesh_metadata_reader* r, void* to,
                       const struct tmesh_metadata_member* member) {
  struct tmesh_client_metadata_ack* a = to;
  (void)(tmesh_metadata_read_text(r, member, "client_instance_id", &a->client_instance_id) ||
         tmesh_metadata_read_text(r, member, "instance_id", &a->instance_id) ||
         tmesh_metadata_read_text(r, member, "connection_id", &a->connection_id) ||
         tmesh_metadata_read_u64(r, member, "revision", &a->revision) ||
         tmesh_metadata_read_bool(r, member, "accepted", &a->is_accepted) ||
         tmesh_metadata_read_bool(r, member, "idempotent", &a->is_idempotent) ||
         tmesh_metadata_read_errors(r, member, a->errors, &a->error_count) ||
         tmesh_metadata_read_capabilities(r, member, &a->capabilities));
}

struct tmesh_status tmesh_client_metadata_ack_decode(struct tmesh_client_metadata_ack* a, const void* data,
                                                     size_t len_bytes) {
  *a = (struct tmesh_client_metadata_ack){.client_instance_id = "", .instance_id = "", .connection_id = ""};
  struct tmesh_status st = tmesh_metadata_read(&a->storage, data, len_bytes, a, ack_member);
  if (!tmesh_is_ok(st)) tmesh_client_metadata_ack_free(a);
  return st;
}

void tmesh_client_metadata_ack_free(struct tmesh_client_metadata_ack* a) {
  free(a->storage);
  *a = (struct tmesh_client_metadata_ack){0};
}
