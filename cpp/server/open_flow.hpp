// One open, from a client's OPEN_STREAM to the answer (ARCHITECTURE: life of an open).
//
// Steps in order: admitted by the executor, authorised, an agent's link chosen, opened
// there, answered. Each step holds a Ticket or a relay, so destroying the flow cancels
// the step under way. The relay is there as soon as the agent's stream is, so that early
// data can go ahead of the answer (WIRE E). A client that resets while the database still works makes the
// flow an orphan: it keeps its executor slot until that work really ended.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "core/mux/stream.h"
#include "core/proto/open_stream.h"
#include "cpp/base/timers.hpp"
#include "cpp/server/active_slots.hpp"
#include "cpp/server/agent_registry.hpp"
#include "cpp/server/live_revocation.hpp"
#include "cpp/server/open_executor.hpp"
#include "cpp/server/stream_authorizer.hpp"
#include "cpp/server/stream_relay.hpp"

namespace tmesh::server {

class OpenFlow;

// The flow's surroundings.
class OpenFlowOwner {
 public:
  // The agent accepted: take the one relay out of the list, then answer the client (C7),
  // then give the relay what else came with the agent's answer (TMESH_STREAM_EV_*).
  virtual void on_opened(std::list<StreamRelay>& made, unsigned agent_events) = 0;
  // The flow is over: destroy it. Last call of the flow.
  virtual void on_flow_over(OpenFlow& flow) = 0;
  // A strict client met an agent or a link that cannot answer (requirement B4).
  virtual void on_capability_gap() = 0;
  // Something was full, here or at the agent (LESSONS R26).
  virtual void on_capacity_refusal() = 0;
  // This client took back an open that was running.
  virtual void on_cancelled(uint64_t client_key) = 0;

 protected:
  ~OpenFlowOwner() = default;
};

struct OpenFlowParts {
  Timers& timers;
  OpenExecutor& executor;
  StreamAuthorizer& authorizer;
  AgentRegistry& registry;
  ActiveSlots& slots;
  OpenFlowOwner& owner;
  LiveRevocation* revocation = nullptr;  // null: what runs is not asked about again
};

class OpenFlow final : private OpenJob {
 public:
  // From the acceptance of OPEN_STREAM to the answer, as deployed servers have it.
  static constexpr uint64_t kDeadline_us = 8'000'000;

  OpenFlow(const OpenFlowParts& parts, tmesh_stream* client_side, const tmesh_open_stream& open);
  ~OpenFlow() override;

  // Waits for its turn, or answers queue_full and is over.
  // client_key: handed back to the owner, which knows the client by it.
  void start(std::string_view token_id, uint64_t link_id, uint64_t client_key);
  // Answers queue_full without waiting, and is over.
  void refuse_full();
  bool is_orphan() const { return client_side_ == nullptr; }

  std::list<std::unique_ptr<OpenFlow>>::iterator place;  // in the owner's list

 private:
  void on_run() override;
  void on_authorized(Result<Grant> grant);
  void on_decided(const Result<Grant>& grant);
  void open_at_agent(const Grant& grant);
  bool take_target(const Target& target);
  void on_agent_answer(unsigned events);
  void on_relay_broken(StreamRelay& relay, tmesh_status why);
  void refuse(tmesh_open_result result);
  void over();
  void note(AgentRegistry::OpenEnd end);
  void on_deadline();
  static void on_client_event(void* user, tmesh_stream* stream, unsigned events);
  static void on_agent_event(void* user, tmesh_stream* stream, unsigned events);

  OpenFlowParts parts_;
  tmesh_stream* client_side_;  // owned until there is a relay, which has it then
  const bool is_strict_;
  std::unique_ptr<tmesh_open_stream> open_;  // 2 KiB, until the agent has it
  std::string token_id_;
  uint64_t client_key_ = 0;
  std::list<StreamRelay> relay_;  // at most one: a list's node goes on to the owner as it is
  uint64_t link_number_ = 0;      // of the agent's link, and when it was opened there
  uint64_t opened_us_ = 0;
  uint64_t ran_us_ = 0;  // when it got its slot
  Ticket deadline_;
  Ticket step_;
  bool is_authorizing_ = false;
};

}  // namespace tmesh::server
