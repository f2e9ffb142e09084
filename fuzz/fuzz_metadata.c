/* Hello, metadata and ack payloads: what decodes encodes, and decodes and encodes to
 * the same text again. Input: one byte that picks the payload kind, then the payload. */
#include <string.h>

#include "core/proto/metadata.h"
#include "fuzz/fuzz.h"

static char first[TMESH_METADATA_MAX_BYTES];
static char second[TMESH_METADATA_MAX_BYTES];

static void check_refused(struct tmesh_status st, const char* storage) {
  FUZZ_CHECK(st.scope == TMESH_SCOPE_STREAM && storage == NULL);
}

/* Defaults that are written out can push a payload near the limit over it. */
static int is_written(struct tmesh_status st, size_t size) {
  FUZZ_CHECK(tmesh_is_ok(st) || (st.code == TMESH_E_TOO_LARGE && size > TMESH_METADATA_MAX_BYTES / 8));
  return tmesh_is_ok(st);
}

#define ROUND_TRIP(type, value, data, size)                                                  \
  do {                                                                                       \
    size_t n = 0;                                                                            \
    size_t again = 0;                                                                        \
    struct tmesh_status st = tmesh_##type##_decode(&(value), data, size);                    \
    if (!tmesh_is_ok(st)) {                                                                  \
      check_refused(st, (value).storage);                                                    \
      break;                                                                                 \
    }                                                                                        \
    st = tmesh_##type##_encode(&(value), first, sizeof first, &n);                           \
    tmesh_##type##_free(&(value));                                                           \
    if (!is_written(st, size)) break;                                                        \
    FUZZ_CHECK(tmesh_is_ok(tmesh_##type##_decode(&(value), first, n)));                      \
    FUZZ_CHECK(tmesh_is_ok(tmesh_##type##_encode(&(value), second, sizeof second, &again))); \
    tmesh_##type##_free(&(value));                                                           \
    FUZZ_CHECK(n == again && memcmp(first, second, n) == 0);                                 \
  } while (0)

static void check_rules(const uint8_t* data, size_t size) {
  static struct tmesh_agent_metadata m;
  struct tmesh_metadata_error why = {NULL, NULL, NULL};
  if (!tmesh_is_ok(tmesh_agent_metadata_decode(&m, data, size))) return;
  if (tmesh_agent_metadata_check(&m, &why)) {
    FUZZ_CHECK(m.epoch > 0 && m.revision > 0 && m.node_id[0] != '\0');
  } else {
    FUZZ_CHECK(why.name != NULL && why.code != NULL && why.message != NULL);
  }
  tmesh_agent_metadata_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static struct tmesh_agent_metadata agent;
  static struct tmesh_agent_metadata_ack agent_ack;
  static struct tmesh_client_metadata client;
  static struct tmesh_client_metadata_ack client_ack;
  if (size == 0) return 0;
  const uint8_t* payload = data + 1;
  size--;
  switch (data[0] % 4) {
    case 0:
      ROUND_TRIP(agent_metadata, agent, payload, size);
      check_rules(payload, size);
      break;
    case 1:
      ROUND_TRIP(agent_metadata_ack, agent_ack, payload, size);
      break;
    case 2:
      ROUND_TRIP(client_metadata, client, payload, size);
      break;
    default:
      ROUND_TRIP(client_metadata_ack, client_ack, payload, size);
  }
  return 0;
}
