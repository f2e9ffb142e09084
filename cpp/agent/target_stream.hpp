// One stream at the agent: from OPEN_STREAM through the dial to the last byte.
//
// Owns the stream, the dial in flight and then the flow. The target is installed before
// OPEN_RESULT(ok) is queued (requirement C5); whatever fails ends this stream only (C6).
// Destroying it cancels the dial or resets the flow.
#pragma once

#include <list>
#include <memory>
#include <optional>

#include "core/mux/stream.h"
#include "cpp/agent/dial_executor.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/session/tcp_flow.hpp"

namespace tmesh::agent {

class TargetStream {
 public:
  // The last thing it does; the owner destroys it, also from inside.
  using Over = Delegate<void(TargetStream&)>;

  // claim: its place among the agent's live streams, given back last.
  TargetStream(net::Loop& loop, tmesh_stream* stream, Ticket claim, Over over);
  ~TargetStream();
  TargetStream(const TargetStream&) = delete;
  TargetStream& operator=(const TargetStream&) = delete;

  // Validates the request and enters the dial queue, or answers at once. May end in Over.
  void start(DialExecutor& executor, const tmesh_open_stream& open);

  std::list<std::unique_ptr<TargetStream>>::iterator place;  // in the owner's list

 private:
  void on_dialed(const DialOutcome& outcome);
  void refuse(const tmesh_open_result& result);
  void on_flow_done(tmesh_status why);
  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);

  Ticket claim_;
  net::Loop& loop_;
  tmesh_stream* stream_;  // until the flow has it
  DialExecutor* executor_ = nullptr;
  Over over_;
  Ticket dial_;
  std::optional<session::TcpFlow> flow_;

  // The flow takes its socket's events; before it exists the socket does not read.
  struct Silent final : net::TcpHandler {
    void on_readable() override {}
    void on_eof() override {}
    void on_written(std::size_t, bool) override {}
    void on_broken(tmesh_status) override {}
  };
  Silent silent_;
};

}  // namespace tmesh::agent
