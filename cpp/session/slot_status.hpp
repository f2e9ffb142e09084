// What a slot tells about itself: for `status` and `explain`. A value; texts are static.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "core/proto/capability.h"
#include "cpp/session/connector.hpp"

namespace tmesh::session {

// The last thing that went wrong. Nothing of it comes from a peer or the system.
struct SlotFailure {
  const char* stage = "";  // of ConnectFailure, or "link" for one that was up; "" = nothing yet
  const char* code = "";   // tmesh_code_name
  const char* text = "";   // what to look at; empty for "link"
  int http_status = 0;     // of the answer, 0 if there was none
  uint64_t at_us = 0;      // Timers::now_us()
};

struct SlotStatus {
  enum class State : uint8_t {
    connecting,  // no link; an attempt runs or waits
    up,
    suspect,   // up, and the peer does not answer
    draining,  // no new streams and no further link
  };
  State state = State::connecting;
  uint32_t number = 0;
  tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_NONE;  // of the link that takes streams
  uint64_t up_since_us = 0;                                // Timers::now_us(); 0 = no such link
  uint64_t rtt_us = 0;                                     // smoothed; 0 = not measured yet
  std::size_t streams_count = 0;                           // of the link that takes streams
  std::size_t draining_count = 0;                          // old links beside it
  std::size_t draining_streams_count = 0;                  // of those
  uint64_t links_count = 0;                                // that ever were up
  ConnectTimes connect_times;                              // of the last attempt that ended
  SlotFailure last_failure;
};

// "connecting", "up", "suspect", "draining".
const char* slot_state_name(SlotStatus::State state);

}  // namespace tmesh::session
