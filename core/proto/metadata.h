/* Hello, metadata and ack payloads (WIRE 1.6.3-1.6.6) as bounded structs.
 *
 * Texts are pointers. For encoding they are the caller's and NULL means "". Decoding
 * fills every text (absent = "") from one allocation that the struct owns: release it with the
 * matching _free, which is harmless on a struct that was zeroed or whose decode
 * failed. Unknown keys are ignored both ways (requirement B3). These frames come once
 * per link and minute, so they may allocate; encoding builds the document with cJSON.
 *
 * Statuses have STREAM scope: a metadata payload that is refused never ends the
 * link; its owner answers with an ack that names the error.
 */
#ifndef TMESH_PROTO_METADATA_H
#define TMESH_PROTO_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/proto/capability.h"
#include "core/proto/limits.h"
#include "core/proto/rfc3339.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As deployed servers refuse more. */
#define TMESH_METADATA_ITEMS_MAX 32u
#define TMESH_METADATA_VALUE_MAX_BYTES 4096u
#define TMESH_METADATA_NAME_MAX_BYTES 64u
/* One per item and a few general ones. */
#define TMESH_METADATA_ERRORS_MAX 40u
/* Width of the database columns. */
#define TMESH_METADATA_ID_MAX_BYTES 128u
/* A client's local entries and the agents they use; a 32 KiB payload holds few more. */
#define TMESH_METADATA_LISTENERS_MAX 256u
#define TMESH_METADATA_AGENTS_MAX 256u

struct tmesh_metadata_item {
  const char* name;
  const char* source; /* agent: "file" or "env" */
  const char* value;
  bool is_redacted; /* clients only */
};

struct tmesh_metadata_error {
  const char* name;
  const char* code;
  const char* message;
};

struct tmesh_metadata_listener {
  const char* protocol;
  const char* listen_address;
  const char* agent_id;
  bool is_enabled;
};

/* AGENT_HELLO and AGENT_METADATA_UPDATE. */
struct tmesh_agent_metadata {
  const char* agent_id;
  const char* instance_id;
  const char* connection_id;
  const char* node_id;
  int64_t epoch;
  uint64_t revision;
  struct tmesh_time reported_at;
  uint32_t capabilities;
  size_t item_count;
  size_t error_count;
  struct tmesh_metadata_item items[TMESH_METADATA_ITEMS_MAX];
  struct tmesh_metadata_error errors[TMESH_METADATA_ERRORS_MAX];
  char* storage; /* owned; NULL unless decoded */
};

/* AGENT_METADATA_ACK. */
struct tmesh_agent_metadata_ack {
  const char* agent_id;
  int64_t epoch;
  uint64_t revision;
  bool is_accepted;
  bool is_idempotent;
  bool has_connection_pool;
  uint32_t connections_per_agent_max; /* 0 = not said */
  uint32_t capabilities;              /* the negotiated set */
  size_t error_count;
  struct tmesh_metadata_error errors[TMESH_METADATA_ERRORS_MAX];
  char* storage;
};

/* CLIENT_HELLO and CLIENT_METADATA_UPDATE. About 14 KiB: not for a deep stack. */
struct tmesh_client_metadata {
  const char* instance_id;
  uint32_t connection_slot; /* 1-based; 0 = not said */
  const char* version;
  const char* commit;
  const char* platform;
  const char* hostname;
  struct tmesh_time process_start_at;
  struct tmesh_time reported_at;
  uint64_t revision;
  uint32_t capabilities;
  size_t agent_id_count;
  size_t listener_count;
  size_t item_count;
  size_t error_count;
  const char* agent_ids[TMESH_METADATA_AGENTS_MAX];
  struct tmesh_metadata_listener listeners[TMESH_METADATA_LISTENERS_MAX];
  struct tmesh_metadata_item items[TMESH_METADATA_ITEMS_MAX];
  struct tmesh_metadata_error errors[TMESH_METADATA_ERRORS_MAX];
  char* storage;
};

/* CLIENT_METADATA_ACK. */
struct tmesh_client_metadata_ack {
  const char* client_instance_id;
  const char* instance_id; /* of the server */
  const char* connection_id;
  uint64_t revision;
  bool is_accepted;
  bool is_idempotent;
  uint32_t capabilities; /* our own key: the intersection (WIRE E) */
  size_t error_count;
  struct tmesh_metadata_error errors[TMESH_METADATA_ERRORS_MAX];
  char* storage;
};

/* Encode: compact JSON in the documented key order. TOO_LARGE beyond cap or
 * TMESH_METADATA_MAX_BYTES, NO_MEMORY, INVALID when a text is not valid UTF-8 or a
 * count is over its limit.
 * Decode: TOO_LARGE, NO_MEMORY, LIMIT (a list longer than its maximum), FRAME_PAYLOAD
 * (not a strict JSON object, a value of the wrong type). Neither judges the meaning. */
TMESH_MUST_CHECK struct tmesh_status tmesh_agent_metadata_encode(const struct tmesh_agent_metadata* m,
                                                                 char* out, size_t cap_bytes,
                                                                 size_t* len_bytes);
TMESH_MUST_CHECK struct tmesh_status tmesh_agent_metadata_decode(struct tmesh_agent_metadata* m,
                                                                 const void* data, size_t len_bytes);
void tmesh_agent_metadata_free(struct tmesh_agent_metadata* m);

TMESH_MUST_CHECK struct tmesh_status tmesh_agent_metadata_ack_encode(const struct tmesh_agent_metadata_ack* a,
                                                                     char* out, size_t cap_bytes,
                                                                     size_t* len_bytes);
TMESH_MUST_CHECK struct tmesh_status tmesh_agent_metadata_ack_decode(struct tmesh_agent_metadata_ack* a,
                                                                     const void* data, size_t len_bytes);
void tmesh_agent_metadata_ack_free(struct tmesh_agent_metadata_ack* a);

TMESH_MUST_CHECK struct tmesh_status tmesh_client_metadata_encode(const struct tmesh_client_metadata* m,
                                                                  char* out, size_t cap_bytes,
                                                                  size_t* len_bytes);
TMESH_MUST_CHECK struct tmesh_status tmesh_client_metadata_decode(struct tmesh_client_metadata* m,
                                                                  const void* data, size_t len_bytes);
void tmesh_client_metadata_free(struct tmesh_client_metadata* m);

TMESH_MUST_CHECK struct tmesh_status tmesh_client_metadata_ack_encode(
    const struct tmesh_client_metadata_ack* a, char* out, size_t cap_bytes, size_t* len_bytes);
TMESH_MUST_CHECK struct tmesh_status tmesh_client_metadata_ack_decode(struct tmesh_client_metadata_ack* a,
                                                                      const void* data, size_t len_bytes);
void tmesh_client_metadata_ack_free(struct tmesh_client_metadata_ack* a);

/* --- rules ------------------------------------------------------------------------ */

/* Letters, digits, "_", "." and "-", 1-64 bytes. */
bool tmesh_metadata_name_is_valid(const char* name);
/* Whether a name speaks of a secret (password, token, secret, private_key,
 * private-key, dsn, in any case, anywhere in it): such items are refused. */
bool tmesh_metadata_name_is_sensitive(const char* name);
/* Whether an agent's metadata may be registered: ids present, printable and within
 * their length, epoch and revision > 0, every item within the rules above. On false
 * *why holds static texts for the ack's errors (codes invalid_revision and
 * invalid_metadata). */
bool tmesh_agent_metadata_check(const struct tmesh_agent_metadata* m, struct tmesh_metadata_error* why);
/* The same for a client: instance id present, printable, within its length. */
bool tmesh_client_metadata_check(const struct tmesh_client_metadata* m, struct tmesh_metadata_error* why);

#ifdef __cplusplus
}
#endif

#endif
