/* Capability names (requirement B1, WIRE 1.7 and E) and WebSocket sub-protocols (B2, WIRE 2).
 *
 * A set of capabilities is a uint32_t of the bits below; names this program does not
 * know never enter a set. Pure functions over static tables.
 */
#ifndef TMESH_PROTO_CAPABILITY_H
#define TMESH_PROTO_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tmesh_capability {
  TMESH_CAP_OPEN_RESULT = 1u << 0,   /* stream_open_result.v1 */
  TMESH_CAP_FLOW_CONTROL = 1u << 1,  /* stream_flow_control.v1 */
  TMESH_CAP_FAIR_WRITER = 1u << 2,   /* stream_fair_writer.v1: describes local scheduling only */
  TMESH_CAP_ICMP_ECHO = 1u << 3,     /* stream_icmp_echo.v1: known by name, not spoken here */
  TMESH_CAP_EARLY_DATA = 1u << 4,    /* stream_early_data.v1, between our own ends */
  TMESH_CAP_WINDOW_GROWTH = 1u << 5, /* stream_window_growth.v1, between our own ends */
  /* Deployed clustered servers compare an agent's capabilities with protocol names,
   * so an agent announces these too (WIRE 2). They never filter anything here. */
  TMESH_CAP_TCP = 1u << 6,
  TMESH_CAP_UDP = 1u << 7,
  TMESH_CAP_HTTP = 1u << 8,
};
#define TMESH_CAP_COUNT 9u
#define TMESH_CAP_PROTOCOLS (TMESH_CAP_TCP | TMESH_CAP_UDP | TMESH_CAP_HTTP)

/* The set of what the switches of a configuration leave on (requirement I2). Early data
 * has no meaning without open results, growth none without windows. */
static inline uint32_t tmesh_capability_enabled(bool open_result, bool flow_control, bool fair_writer,
                                                bool early_data, bool window_growth) {
  uint32_t set = 0;
  if (open_result) set |= TMESH_CAP_OPEN_RESULT;
  if (flow_control) set |= TMESH_CAP_FLOW_CONTROL;
  if (fair_writer) set |= TMESH_CAP_FAIR_WRITER;
  if (early_data && open_result) set |= TMESH_CAP_EARLY_DATA;
  if (window_growth && flow_control) set |= TMESH_CAP_WINDOW_GROWTH;
  return set;
}

/* The wire name of one bit; "unknown" for anything else. */
const char* tmesh_capability_name(uint32_t bit);
/* The bit of a name (exact), or 0. */
uint32_t tmesh_capability_from_name(const char* name, size_t len_bytes);
/* Fills names with those of a set, in bit order; returns how many. */
size_t tmesh_capability_names(uint32_t set, const char* names[TMESH_CAP_COUNT]);
/* What both ends named: the only capabilities a link may use (requirement B3). */
static inline uint32_t tmesh_capability_intersect(uint32_t a, uint32_t b) {
  return a & b;
}
/* Whether a server opens streams to this agent with a window (requirement E3: a
 * deployed agent announces only open_result and takes a window > 0 as the signal). */
static inline bool tmesh_capability_agent_has_windows(uint32_t acked) {
  return (acked & (TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL)) != 0;
}

/* --- sub-protocols of /ws/client ------------------------------------------------- */

enum tmesh_subprotocol {
  TMESH_SUBPROTOCOL_NONE = 0, /* nothing selected: legacy */
  TMESH_SUBPROTOCOL_V1,
  TMESH_SUBPROTOCOL_OPEN_RESULT,
  TMESH_SUBPROTOCOL_FLOW_CONTROL,
  TMESH_SUBPROTOCOL_METADATA,
  TMESH_SUBPROTOCOL_COUNT,
};

/* The one of /ws/relay. */
#define TMESH_RELAY_SUBPROTOCOL "tunnelmesh.relay.v1"

/* The header value; "" for NONE and outside the enum. */
const char* tmesh_subprotocol_name(unsigned subprotocol);
/* Exact; NONE for a name we do not know. */
enum tmesh_subprotocol tmesh_subprotocol_from_name(const char* name, size_t len_bytes);

/* What the client offers, best first: those the enabled capabilities allow, V1
 * always. Returns how many (at most 4). */
size_t tmesh_subprotocol_offers(uint32_t enabled, enum tmesh_subprotocol offers[TMESH_SUBPROTOCOL_COUNT]);
/* The same as one Sec-WebSocket-Protocol value ("a, b, c"), terminated. Returns its
 * length; TMESH_SUBPROTOCOL_OFFER_SIZE bytes are always enough. */
#define TMESH_SUBPROTOCOL_OFFER_SIZE 192u
size_t tmesh_subprotocol_offer_text(uint32_t enabled, char out[TMESH_SUBPROTOCOL_OFFER_SIZE]);

/* Server: adds what one Sec-WebSocket-Protocol line offers (a comma list with
 * optional white space) to a set of 1 << subprotocol bits; start with 0 and call once
 * per line. Unknown names are skipped. */
uint32_t tmesh_subprotocol_offered(uint32_t offered, const char* line, size_t len_bytes);
/* Server: the best offered one that the enabled capabilities allow. Never one that
 * was not offered; NONE if nothing fits. */
enum tmesh_subprotocol tmesh_subprotocol_choose(uint32_t offered, uint32_t enabled);
/* Client: whether a selected value is one we offered; false ends the handshake. */
bool tmesh_subprotocol_was_offered(enum tmesh_subprotocol selected, uint32_t enabled);

/* What a selection means for its link. */
static inline bool tmesh_subprotocol_is_strict(enum tmesh_subprotocol s) {
  return s >= TMESH_SUBPROTOCOL_OPEN_RESULT && s < TMESH_SUBPROTOCOL_COUNT;
}
static inline bool tmesh_subprotocol_has_windows(enum tmesh_subprotocol s) {
  return s >= TMESH_SUBPROTOCOL_FLOW_CONTROL && s < TMESH_SUBPROTOCOL_COUNT;
}
/* CLIENT_HELLO is the first frame, and types 16-18 may be sent. */
static inline bool tmesh_subprotocol_has_hello(enum tmesh_subprotocol s) {
  return s == TMESH_SUBPROTOCOL_METADATA;
}

#ifdef __cplusplus
}
#endif

#endif
