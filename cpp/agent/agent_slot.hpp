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
#include "cpp/agent/connection_controller.hpp"
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
  // After GOAWAY an open may still be on its way; a link that carries nothing stays for it.
  static constexpr uint64_t kLinger_us = 2'000'000;

  // timers: the loop, or a test's clock.
  AgentSlot(net::Loop& loop, Timers& timers, Dialer& dialer, const AgentIdentity& identity,
            AgentShared& shared, const Policy& policy, uint32_t number);
  ~AgentSlot();

  void start() { slot_.start(); }
  void drain() { slot_.drain(); }
  // Ends with its last stream. A server of this project is told (GOAWAY) and opens no more
  // here. What a deployed one makes of that frame from an agent is not known, so it is not
  // told: the slot takes what comes and ends when it has nothing.
  void retire();
  bool is_retiring() const { return retired_us_ != 0; }
  // Retiring, and nothing is left on it: may be destroyed.
  bool is_retired() const;
  std::size_t streams_count() const;
  // For the controller. Ready = the server accepted its hello and it takes streams.
  LinkLoad load();
  std::size_t pending_dials_count() const;
  uint64_t oldest_dial_wait_us() const;
  uint32_t number() const { return slot_.number(); }
  session::SlotStatus status() const { return slot_.status(); }
  // Whether the server of its last link gives strict opens.
  bool is_strict() const { return is_strict_; }
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
    bool is_accepted = false;                          // by the server
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
  uint32_t queue_pressure_percent(const Life& life, const tmesh_mux& mux) const;
  void warn_of_ceiling(uint32_t server_max);

  Timers& timers_;
  Dialer& dialer_;
  const AgentIdentity& identity_;
  AgentShared& shared_;
  const TargetContext targets_;
  const Policy& policy_;
  uint64_t revision_ = 0;
  uint64_t retired_us_ = 0;  // 0 = it is not
  bool is_strict_ = false;
  std::map<session::Session*, std::unique_ptr<Life>> lives_;
  std::list<std::unique_ptr<Life>> finishing_;
  session::Slot slot_;
};

}  // namespace tmesh::agent
