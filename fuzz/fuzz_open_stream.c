/* OPEN_STREAM payload: what decodes can be passed on, and the next reader gets the
 * same target from it. */
#include <string.h>

#include "core/proto/open_stream.h"
#include "fuzz/fuzz.h"

static void check_decoded(const struct tmesh_open_stream* o) {
  FUZZ_CHECK(o->target_host[0] != '\0' && o->target_port != 0);
  FUZZ_CHECK(memchr(o->target_host, '\0', sizeof o->target_host) != NULL);
  FUZZ_CHECK(memchr(o->agent_id, '\0', sizeof o->agent_id) != NULL);
  FUZZ_CHECK(o->metadata_len_bytes <= sizeof o->metadata);
  FUZZ_CHECK(!o->is_target_https || o->protocol == TMESH_OPEN_HTTP);
}

static void check_same(const struct tmesh_open_stream* a, const struct tmesh_open_stream* b) {
  FUZZ_CHECK(strcmp(a->agent_id, b->agent_id) == 0 && a->protocol == b->protocol);
  FUZZ_CHECK(strcmp(a->target_host, b->target_host) == 0 && a->target_port == b->target_port);
  FUZZ_CHECK(a->is_target_https == b->is_target_https);
  FUZZ_CHECK(strcmp(a->host_header, b->host_header) == 0);
  FUZZ_CHECK(strcmp(a->tls_server_name, b->tls_server_name) == 0);
  FUZZ_CHECK(a->metadata_len_bytes == b->metadata_len_bytes);
  FUZZ_CHECK(memcmp(a->metadata, b->metadata, a->metadata_len_bytes) == 0);
  FUZZ_CHECK(a->has_relay == b->has_relay);
  FUZZ_CHECK(strcmp(a->relay.ingress_node_id, b->relay.ingress_node_id) == 0);
  FUZZ_CHECK(strcmp(a->relay.target_connection_id, b->relay.target_connection_id) == 0);
  FUZZ_CHECK(a->relay.target_connection_epoch == b->relay.target_connection_epoch);
  FUZZ_CHECK(strcmp(a->relay.token_id, b->relay.token_id) == 0);
  FUZZ_CHECK(strcmp(a->relay.owner_user_id, b->relay.owner_user_id) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static struct tmesh_open_stream o;
  static struct tmesh_open_stream back;
  static char out[TMESH_OPEN_STREAM_MAX_BYTES];
  size_t n = 0;
  struct tmesh_status st = tmesh_open_stream_decode(&o, data, size);
  if (!tmesh_is_ok(st)) {
    FUZZ_CHECK(st.scope == TMESH_SCOPE_STREAM);
    FUZZ_CHECK((st.code == TMESH_E_TOO_LARGE) == (size > TMESH_OPEN_STREAM_MAX_BYTES));
    return 0;
  }
  check_decoded(&o);
  st = tmesh_open_stream_encode(&o, out, sizeof out, &n);
  if (o.protocol == TMESH_OPEN_PROTOCOL_OTHER) {
    FUZZ_CHECK(st.code == TMESH_E_INVALID);
    return 0;
  }
  FUZZ_CHECK(tmesh_is_ok(st));
  FUZZ_CHECK(tmesh_is_ok(tmesh_open_stream_decode(&back, out, n)));
  check_same(&o, &back);
  return 0;
}
