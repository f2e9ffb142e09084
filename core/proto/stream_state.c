#include "core/proto/stream_state.h"

/* Short names keep the table readable as a table. */
enum {
  IDLE = TMESH_STREAM_IDLE,
  OPENING = TMESH_STREAM_OPENING,
  OPEN = TMESH_STREAM_OPEN,
  HC_LOCAL = TMESH_STREAM_HALF_CLOSED_LOCAL,
  HC_REMOTE = TMESH_STREAM_HALF_CLOSED_REMOTE,
  CLOSED = TMESH_STREAM_CLOSED,
  RESET = TMESH_STREAM_RESET,
  NO = TMESH_STREAM_STATE_COUNT
};

/* A RESET of a stream that is over is legal and changes nothing: it may have
 * crossed our own (lesson R30). */
/* clang-format off */
static const uint8_t next_state[TMESH_STREAM_STATE_COUNT][TMESH_EV_COUNT] = {
    /*               OPEN     ACCEPTED REFUSED DATA_IN    DATA_OUT   HC_IN      HC_OUT    RESET */
    [IDLE]      = {  OPENING, NO,      NO,     NO,        NO,        NO,        NO,       NO     },
    [OPENING]   = {  NO,      OPEN,    RESET,  NO,        NO,        NO,        NO,       RESET  },
    [OPEN]      = {  NO,      NO,      NO,     OPEN,      OPEN,      HC_REMOTE, HC_LOCAL, RESET  },
    [HC_LOCAL]  = {  NO,      NO,      NO,     HC_LOCAL,  NO,        CLOSED,    NO,       RESET  },
    [HC_REMOTE] = {  NO,      NO,      NO,     NO,        HC_REMOTE, NO,        CLOSED,   RESET  },
    [CLOSED]    = {  NO,      NO,      NO,     NO,        NO,        NO,        NO,       CLOSED },
    [RESET]     = {  NO,      NO,      NO,     NO,        NO,        NO,        NO,       RESET  },
};
/* clang-format on */

static const char* const names[TMESH_STREAM_STATE_COUNT] = {
    [TMESH_STREAM_IDLE] = "idle",
    [TMESH_STREAM_OPENING] = "opening",
    [TMESH_STREAM_OPEN] = "open",
    [TMESH_STREAM_HALF_CLOSED_LOCAL] = "half_closed_local",
    [TMESH_STREAM_HALF_CLOSED_REMOTE] = "half_closed_remote",
    [TMESH_STREAM_CLOSED] = "closed",
    [TMESH_STREAM_RESET] = "reset",
};

enum tmesh_stream_state tmesh_stream_next(enum tmesh_stream_state state, enum tmesh_stream_event event) {
  if ((unsigned)state >= TMESH_STREAM_STATE_COUNT || (unsigned)event >= TMESH_EV_COUNT) {
    return TMESH_STREAM_STATE_COUNT;
  }
  return (enum tmesh_stream_state)next_state[state][event];
}

const char* tmesh_stream_state_name(unsigned state) {
  return state < TMESH_STREAM_STATE_COUNT ? names[state] : "unknown";
}
