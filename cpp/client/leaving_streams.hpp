// Streams that nobody uses any more and that end regularly: a half-close, and then the other
// side's. A reset would look to the target as if its last answer had been cut.
//
// At most kMax at once, each for its patience; what is over that is reset. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "core/mux/stream.h"
#include "cpp/base/timers.hpp"

namespace tmesh::client {

class LeavingStreams {
 public:
  static constexpr std::size_t kMax = 1024;
  // A server closes at once; this is for a slow path.
  static constexpr uint64_t kPatience_us = 5'000'000;

  explicit LeavingStreams(Timers& timers, uint64_t patience_us = kPatience_us)
      : timers_(timers), patience_us_(patience_us) {}
  ~LeavingStreams();
  LeavingStreams(const LeavingStreams&) = delete;
  LeavingStreams& operator=(const LeavingStreams&) = delete;

  // An open stream on which nothing is under way; takes it over.
  void add(tmesh_stream* stream);
  std::size_t count() const { return leaving_.size(); }

 private:
  struct Leaving {
    LeavingStreams* owner;
    tmesh_stream* stream;
    Ticket timeout;
    std::list<Leaving>::iterator place;
    void on_timeout() { owner->remove(*this); }
  };

  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);
  void remove(Leaving& leaving);

  Timers& timers_;
  const uint64_t patience_us_;
  std::list<Leaving> leaving_;
};

}  // namespace tmesh::client
