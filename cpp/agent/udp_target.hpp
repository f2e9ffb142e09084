// The datagrams between one UDP socket, connected to the target, and one stream.
//
// Boundaries are kept both ways (WIRE 1.14); what does not fit into the stream and what the
// target's network refuses is dropped and counted. An ICMP
// error of the target ends nothing. UDP has no end of its own: it is over when the opener
// ends its direction (deployed agents end there too) or after kIdle_us without a datagram
// either way, so that an opener that forgets cannot collect sockets (LESSONS P-F1, P-F7).
//
// Owns socket and stream (released in the destructor, which resets it unless both directions
// ended). One thread; time comes from Timers.
#pragma once

#include <cstdint>
#include <memory>

#include "core/mux/stream.h"
#include "cpp/base/delegate.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/net/udp.hpp"

namespace tmesh::agent {

class UdpTarget final : private net::UdpHandler {
 public:
  // RFC 4787, REQ-5: a mapping of UDP lives at least two minutes, five are recommended. Clients
  // close theirs earlier (client.udp_idle_timeout).
  static constexpr uint64_t kIdle_us = 300'000'000;
  // Of what waits in the stream, sent in one turn of the loop: some ten microseconds each.
  static constexpr std::size_t kTurnMax = 256;

  // The last thing it does; the owner destroys it, also from inside.
  using Done = Delegate<void()>;

  // Takes fd, a connected socket, over, also on failure (IO); the stream only on success.
  // total_dropped_count: outlives it, goes up with its dropped_count().
  static Result<std::unique_ptr<UdpTarget>> create(net::Loop& loop, Timers& timers, int fd,
                                                   tmesh_stream* stream, Done done,
                                                   uint64_t& total_dropped_count);
  ~UdpTarget();
  UdpTarget(const UdpTarget&) = delete;
  UdpTarget& operator=(const UdpTarget&) = delete;

  // Sends what waited in the stream, which is open by now.
  void start() { pump(); }
  uint64_t sent_count() const { return sent_count_; }
  uint64_t received_count() const { return received_count_; }
  // Datagrams that the kernel refused or the stream had no room for, and errors that the network told.
  uint64_t dropped_count() const { return dropped_count_; }

 private:
  UdpTarget(Timers& timers, tmesh_stream* stream, Done done, uint64_t& total_dropped_count);
  void on_datagram(std::span<const uint8_t> data, const net::UdpAddress& from) override;
  void on_writable() override { pump(); }
  void on_error(tmesh_status why) override;
  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);

  void drop();
  void pump();
  void arm(uint64_t delay_us);
  void on_idle();

  Timers& timers_;
  tmesh_stream* const stream_;
  bool has_stream_ = false;  // taken over
  const Done done_;
  net::Udp socket_;
  uint64_t moved_us_;  // when a datagram last went either way
  Ticket idle_;
  Ticket turn_;  // the rest of what waits
  uint64_t sent_count_ = 0;
  uint64_t received_count_ = 0;
  uint64_t dropped_count_ = 0;
  uint64_t& total_dropped_count_;
};

}  // namespace tmesh::agent
