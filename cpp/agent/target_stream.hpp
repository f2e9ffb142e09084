// One stream at the agent: from OPEN_STREAM through the dial to the last byte.
//
// Owns the stream, the dial in flight, then the TLS handshake of an https target, then the
// flow, or the datagrams of a udp stream (udp_target.hpp). The target is installed before OPEN_RESULT(ok) is
// queued (requirement C5); whatever fails ends this stream only (C6). An https target is connected when its
// certificate was verified, within the time of the open. Destroying it cancels what runs or resets the flow.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <variant>

#include "core/mux/stream.h"
#include "cpp/agent/dial_executor.hpp"
#include "cpp/agent/load_samples.hpp"
#include "cpp/agent/udp_target.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/config/agent.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/session/tcp_flow.hpp"

namespace tmesh::agent {

// What the streams of an agent share. Borrowed; outlives them.
struct TargetContext {
  net::Loop& loop;
  Timers& timers;
  LoadSamples& samples;
  uint64_t& datagrams_dropped_count;
  const config::AgentStreamSettings& settings;
  // Where it says whom https targets are verified with, which a reload may change. Null, or
  // null there: they are refused.
  const net::TlsContext* const* tls = nullptr;
};

class TargetStream {
 public:
  // The last thing it does; the owner destroys it, also from inside.
  using Over = Delegate<void(TargetStream&)>;

  // claim: its place among the agent's live streams, given back last.
  TargetStream(const TargetContext& context, tmesh_stream* stream, Ticket claim, Over over);
  ~TargetStream();
  TargetStream(const TargetStream&) = delete;
  TargetStream& operator=(const TargetStream&) = delete;

  // Validates the request and enters the dial queue, or answers at once. May end in Over.
  void start(DialExecutor& executor, const tmesh_open_stream& open);

  std::list<std::unique_ptr<TargetStream>>::iterator place;  // in the owner's list

 private:
  struct Tls {
    std::string server_name;
    net::TlsSocket socket;  // during its handshake
    Ticket deadline;
  };

  void on_dialed(const DialOutcome& outcome);
  void start_datagrams(int fd);
  void on_datagrams_done();
  const net::TlsContext* tls_context() const { return context_.tls == nullptr ? nullptr : *context_.tls; }
  void start_tls(int fd);
  void on_tls_ready(tmesh_status status);
  void on_tls_deadline();
  template <class Flow, class Socket>
  void start_flow(Socket socket);
  void refuse(const tmesh_open_result& result);
  void on_moment(session::FlowMoment moment);
  void on_flow_done(tmesh_status why);
  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);

  Ticket claim_;
  const TargetContext& context_;
  tmesh_stream* stream_;  // until the flow has it
  DialExecutor* executor_ = nullptr;
  Over over_;
  uint64_t started_us_ = 0;
  uint64_t first_byte_us_ = 0;
  bool is_datagram_ = false;
  Ticket dial_;
  std::unique_ptr<Tls> tls_;              // of an https target, until it is connected
  std::unique_ptr<UdpTarget> datagrams_;  // instead of a flow
  std::variant<std::monostate, session::TcpFlow, session::TlsFlow> flow_;

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
