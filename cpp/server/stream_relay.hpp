// Two streams joined: a client's and an agent's, from the moment the agent's was opened
// to the end of both directions. Owns both (released in the destructor), the splice between
// them and the place they take under the ceilings.
//
// While the agent dials, the open has the streams' events and passes on what the splice
// needs: bytes that may go ahead of the answer (WIRE E) go, others wait where they are,
// uncredited. With the answer the relay hears its streams itself. What is no longer allowed
// ends as a broken relay does, with the code POLICY.
#pragma once

#include <cstdint>
#include <list>
#include <utility>

#include "core/mux/splice.h"
#include "core/mux/stream.h"
#include "cpp/base/delegate.hpp"
#include "cpp/server/active_slots.hpp"
#include "cpp/server/cancel_guard.hpp"
#include "cpp/server/live_revocation.hpp"

namespace tmesh::server {

class StreamRelay final : public Revocable {
 public:
  // `done` is the last thing the relay does; the owner destroys it, also from inside.
  using Done = Delegate<void(StreamRelay&, tmesh_status)>;

  // ran_us: when the open got its slot. done: for the time until take_over(), when only the
  // pool (NO_MEMORY) and a revocation (POLICY) can end it.
  StreamRelay(tmesh_stream* client_side, tmesh_stream* agent_side, ActiveSlots::Slot slot,
              uint64_t client_key, uint64_t ran_us, Done done)
      : streams_{client_side, agent_side},
        client_key_(client_key),
        slot_(std::move(slot)),
        done_(done),
        ran_ms_(static_cast<uint32_t>(ran_us / 1000)) {
    tmesh_splice_init(&splice_, tmesh_stream_end(client_side), tmesh_stream_end(agent_side), this, &on_done);
  }
  ~StreamRelay() override {
    if (!is_done_) tmesh_splice_cancel(&splice_);
    tmesh_stream_release(streams_[0]);
    tmesh_stream_release(streams_[1]);
  }
  // Moves what waited. May call done.
  void start() { tmesh_splice_start(&splice_); }
  // Events of the two streams while somebody else gets them. May call done.
  void client_event(unsigned events) { tmesh_splice_stream_event(&splice_, 0, streams_[0], events); }
  void agent_event(unsigned events) { tmesh_splice_stream_event(&splice_, 1, streams_[1], events); }
  // From here on the streams' events come here, and `done` is told of the end.
  void take_over(Done done) {
    done_ = done;
    tmesh_stream_attach(streams_[0], this, &on_client_event);
    tmesh_stream_attach(streams_[1], this, &on_agent_event);
  }
  void answer_client(const tmesh_open_result& result) { tmesh_stream_answer(streams_[0], &result); }
  // Inside done: a legacy client soon reset the stream, before the agent's target said
  // anything, so as far as anybody knows while the agent was dialling.
  bool is_open_cancelled(uint64_t now_us) const {
    const uint32_t age_ms = static_cast<uint32_t>(now_us / 1000) - ran_ms_;
    return is_reset_by_client_ && !streams_[0]->is_strict && splice_.moved_bytes[1] == 0 &&
           age_ms < CancelGuard::kQuickUs / 1000;
  }
  uint64_t client_key() const { return client_key_; }

  std::list<StreamRelay>::iterator place;  // in the owner's list

 private:
  void on_revoked() override { done_(*this, tmesh_err_stream(TMESH_E_POLICY)); }
  static void on_client_event(void* user, tmesh_stream*, unsigned events) {
    static_cast<StreamRelay*>(user)->client_event(events);
  }
  static void on_agent_event(void* user, tmesh_stream*, unsigned events) {
    static_cast<StreamRelay*>(user)->agent_event(events);
  }
  static void on_done(void* ctx, tmesh_splice*, tmesh_status why, int broken) {
    auto* self = static_cast<StreamRelay*>(ctx);
    self->is_done_ = true;
    self->is_reset_by_client_ = broken == 0 && why.code == TMESH_E_RESET && why.scope == TMESH_SCOPE_STREAM;
    self->done_(*self, why);
  }

  tmesh_stream* streams_[2];
  const uint64_t client_key_;  // for the CancelGuard
  tmesh_splice splice_{};
  ActiveSlots::Slot slot_;
  Done done_;
  const uint32_t ran_ms_;  // modulo 49 days: fits into the gap at the end of every relay
  bool is_done_ = false;
  bool is_reset_by_client_ = false;
};

}  // namespace tmesh::server
