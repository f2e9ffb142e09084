// The bytes between one socket (a client's entry, an agent's target) and one stream, from
// the moment both are open until both directions ended.
//
// Owns the socket, the stream (released in the destructor) and the splice. Calls `done`
// exactly once, as the last thing it does; the owner then destroys the flow, also from
// inside the call. Destroying it earlier resets both ends.
#pragma once

#include <cstdint>

#include "core/mux/splice.h"
#include "core/mux/stream.h"
#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/net/tcp.hpp"
#include "cpp/net/tls_socket.hpp"

namespace tmesh::session {

// What a flow can be watched for, each once.
enum class FlowMoment : uint8_t {
  first_read,  // the socket gave its first byte
  first_sent,  // the stream's link has given bytes of it to its socket
};

// Socket: net::Tcp or net::TlsSocket, whose handshake is done.
template <class Socket>
class SocketFlow final : private net::TcpHandler {
 public:
  // status OK: both directions ended regularly.
  using Done = Delegate<void(tmesh_status)>;
  using Watch = Delegate<void(FlowMoment)>;

  // The socket may hold bytes that were read already, and its end may have been seen:
  // they go first.
  SocketFlow(Socket socket, tmesh_stream* stream, Done done);
  ~SocketFlow();
  SocketFlow(const SocketFlow&) = delete;
  SocketFlow& operator=(const SocketFlow&) = delete;

  // Before start(). The watcher may not destroy the flow.
  void watch(Watch watcher) { watch_ = watcher; }
  // Begins to move bytes. Both ends must be open. May call done.
  void start();
  // From the socket to the stream and back.
  uint64_t sent_bytes() const { return splice_.moved_bytes[0]; }
  uint64_t received_bytes() const { return splice_.moved_bytes[1]; }

 private:
  void on_readable() override;
  void on_eof() override;
  void on_written(std::size_t n, bool is_all) override;
  void on_broken(tmesh_status why) override;
  void tell(FlowMoment moment);
  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);
  static void on_splice_done(void* ctx, tmesh_splice* splice, tmesh_status why, int broken);

  Socket socket_;
  tmesh_stream* stream_;
  tmesh_splice splice_{};
  Done done_;
  Watch watch_;
  bool is_started_ = false;
  bool is_done_ = false;
  bool has_read_ = false;
  tmesh_status status_{};  // of the socket before start(), of the splice afterwards
};

using TcpFlow = SocketFlow<net::Tcp>;
using TlsFlow = SocketFlow<net::TlsSocket>;

extern template class SocketFlow<net::Tcp>;
extern template class SocketFlow<net::TlsSocket>;

}  // namespace tmesh::session
