/* Stream state machine (requirement B8) as a table.
 *
 * "Local" is this process, "remote" the peer of the link. The table says which
 * events are legal; what to do about an illegal one (reset that stream) is mux's.
 */
#ifndef TMESH_PROTO_STREAM_STATE_H
#define TMESH_PROTO_STREAM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tmesh_stream_state {
  TMESH_STREAM_IDLE = 0,
  TMESH_STREAM_OPENING,
  TMESH_STREAM_OPEN,
  TMESH_STREAM_HALF_CLOSED_LOCAL,  /* we sent HALF_CLOSE */
  TMESH_STREAM_HALF_CLOSED_REMOTE, /* the peer sent HALF_CLOSE */
  TMESH_STREAM_CLOSED,
  TMESH_STREAM_RESET,
  TMESH_STREAM_STATE_COUNT,
};

enum tmesh_stream_event {
  TMESH_EV_OPEN = 0, /* OPEN_STREAM sent or received */
  TMESH_EV_ACCEPTED, /* OPEN_RESULT accepted, or a legacy open taken as open */
  TMESH_EV_REFUSED,  /* OPEN_RESULT not accepted: ends the stream */
  TMESH_EV_DATA_IN,
  TMESH_EV_DATA_OUT,
  TMESH_EV_HALF_CLOSE_IN,
  TMESH_EV_HALF_CLOSE_OUT,
  TMESH_EV_RESET, /* sent or received */
  TMESH_EV_COUNT,
};

/* The next state, or TMESH_STREAM_STATE_COUNT when the event is illegal in this
 * state. A RESET of a stream that is over is legal and changes nothing. Negotiated
 * early data (DATA while opening) is the caller's exception, not the table's. */
enum tmesh_stream_state tmesh_stream_next(enum tmesh_stream_state state, enum tmesh_stream_event event);
static inline bool tmesh_stream_is_over(enum tmesh_stream_state s) {
  return s == TMESH_STREAM_CLOSED || s == TMESH_STREAM_RESET;
}
const char* tmesh_stream_state_name(unsigned state);

#ifdef __cplusplus
}
#endif

#endif
