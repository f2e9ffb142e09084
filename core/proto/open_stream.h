/* OPEN_STREAM payload (WIRE 1.6.1). Decoded into fixed storage; always re-encoded when passed on. */
#ifndef TMESH_PROTO_OPEN_STREAM_H
#define TMESH_PROTO_OPEN_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/proto/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TMESH_AGENT_ID_MAX_BYTES 255u
#define TMESH_HOST_MAX_BYTES 255u
/* Opaque `metadata` we pass on, after base64. */
#define TMESH_OPEN_METADATA_MAX_BYTES 1024u

enum tmesh_open_protocol {
  TMESH_OPEN_TCP = 0,
  TMESH_OPEN_UDP,
  TMESH_OPEN_HTTP,
  TMESH_OPEN_PROTOCOL_OTHER, /* a name we do not dial: refused per stream */
};

/* Ids in the `relay` object: node, connection, token and user ids. */
#define TMESH_RELAY_ID_MAX_BYTES 128u

/* What a server tells the server that owns the agent (WIRE R). Meaningful on relay
 * links only: a server ignores it when a client sends it, and clears it before it
 * passes the open to an agent. */
struct tmesh_open_relay {
  char ingress_node_id[TMESH_RELAY_ID_MAX_BYTES + 1];
  char target_connection_id[TMESH_RELAY_ID_MAX_BYTES + 1];
  int64_t target_connection_epoch;
  char token_id[TMESH_RELAY_ID_MAX_BYTES + 1];
  char owner_user_id[TMESH_RELAY_ID_MAX_BYTES + 1];
};

/* About 2.6 KiB: lives on the stack or in an open in flight, never per idle stream. */
struct tmesh_open_stream {
  char agent_id[TMESH_AGENT_ID_MAX_BYTES + 1]; /* "" = not given */
  uint8_t protocol;                            /* enum tmesh_open_protocol */
  char target_host[TMESH_HOST_MAX_BYTES + 1];  /* IP literal or name, as sent */
  uint16_t target_port;                        /* 1-65535 */
  bool is_target_https;                        /* target_scheme "https", only with protocol http */
  char host_header[TMESH_HOST_MAX_BYTES + 1];
  char tls_server_name[TMESH_HOST_MAX_BYTES + 1];
  uint16_t metadata_len_bytes;
  uint8_t metadata[TMESH_OPEN_METADATA_MAX_BYTES];
  bool has_relay;
  struct tmesh_open_relay relay; /* all zero without has_relay */
};

/* "tcp", "udp", "http"; "other" for everything else. */
const char* tmesh_open_protocol_name(unsigned protocol);

/* Compact JSON, empty optional keys omitted; TMESH_OPEN_STREAM_MAX_BYTES is always
 * enough. TOO_LARGE if cap is short, INVALID for a value decode would refuse, for
 * protocol OTHER (it has no name to send) and for https without protocol http. */
TMESH_MUST_CHECK struct tmesh_status tmesh_open_stream_encode(const struct tmesh_open_stream* o, char* out,
                                                              size_t cap_bytes, size_t* len_bytes);
/* No allocation. STREAM scope: TOO_LARGE, FRAME_PAYLOAD (not strict JSON, wrong type, missing or
 * empty host, port outside 1-65535, a string beyond its limit or with a control
 * character, `metadata` that is not base64). Unknown keys are ignored; the last
 * duplicate wins; keys match case-insensitively; null counts as absent; a missing
 * protocol is OTHER. */
TMESH_MUST_CHECK struct tmesh_status tmesh_open_stream_decode(struct tmesh_open_stream* o, const void* data,
                                                              size_t len_bytes);

#ifdef __cplusplus
}
#endif

#endif
