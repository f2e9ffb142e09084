// The agent's link to the server: hello, and the streams the server opens on it.
//
// A role of session::Slot. Every physical link gets a fresh random connection id with
// epoch 1 (LESSONS Z15). Each session has its own dial executor and its own streams,
// which go with it; only a stream whose two directions had both ended stays until its
// target has taken the last bytes.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "cpp/agent/agent_shared.hpp"
#include "cpp/agent/dial_executor.hpp"
#include "cpp/agent/target_stream.hpp"
#include "cpp/config/agent.hpp"
#include "cpp/session/slot.hpp"

namespace tmesh::agent {

// What every slot of an agent shares. Borrowed; outlives the slots.
struct AgentIdentity {
  const config::AgentConfig& config;
  session::ServerEndpoint endpoint;
  std::string instance_id;
};

class AgentSlot final : private session::SlotRole {
 public:
  // timers: the loop, or a test's clock.
  AgentSlot(net::Loop& loop, Timers& timers, Dialer& dialer, const AgentIdentity& identity,
            AgentShared& shared, const Policy& policy, uint32_t number);
  ~AgentSlot();

  void start() { slot_.start(); }
  void drain() { slot_.drain(); }
  std::size_t streams_count() const;
  // Of the link that takes streams now; null when there is none.
  const tmesh_mux* current_mux();

 private:
  // What belongs to one session.
  struct Life {
    Life(AgentSlot& slot, Timers& timers, Dialer& dialer, const Policy& policy, const DialSettings& settings)
        : owner(slot), executor(timers, dialer, policy, settings) {}
    // May destroy the life.
    void on_stream_over(TargetStream& stream) {
      streams.erase(stream.place);
      if (is_finishing && streams.empty()) owner.finishing_.erase(place);
    }

    AgentSlot& owner;
    bool is_finishing = false;                         // its session is over
    std::list<std::unique_ptr<Life>>::iterator place;  // in finishing_
    std::string connection_id;
    DialExecutor executor;
    std::list<std::unique_ptr<TargetStream>> streams;  // go before the executor: they hold its Tickets
  };

  tmesh_mux_config mux_config(tmesh_subprotocol subprotocol) override;
  void on_session(session::Session& session, tmesh_subprotocol subprotocol) override;
  void on_session_over(session::Session& session) override;
  void on_open(session::Session& session, tmesh_stream* stream, const tmesh_open_stream& open) override;
  tmesh_status on_control(session::Session& session, const tmesh_frame_header& header,
                          std::span<const uint8_t> payload) override;

  void send_hello(session::Session& session, Life& life);
  void on_ack(session::Session& session, std::span<const uint8_t> payload);
  void warn_of_ceiling(uint32_t server_max);

  net::Loop& loop_;
  Timers& timers_;
  Dialer& dialer_;
  const AgentIdentity& identity_;
  AgentShared& shared_;
  const Policy& policy_;
  uint64_t revision_ = 0;
  std::map<session::Session*, std::unique_ptr<Life>> lives_;
  std::list<std::unique_ptr<Life>> finishing_;
  session::Slot slot_;
};

}  // namespace tmesh::agent
