// A TCP entry: every local connection is one stream to the tunnel's target.
//
// The open starts with the accept, before the local client says anything: the first word
// may be the target's. What the local client sends before the answer goes ahead of it
// where both ends know how (early data, WIRE E), up to 16 KiB; the rest waits in the
// socket. A refused open is a RST, so that nobody takes it for a target that had nothing
// to say (LESSONS P-A8); a Unix socket has none, there it is the end of file.
#pragma once

#include "core/base/status.h"
#include "core/proto/open_result.h"
#include "cpp/client/stream_entry.hpp"

namespace tmesh::client {

class TcpEntry : public StreamEntry {
 public:
  using StreamEntry::StreamEntry;
  ~TcpEntry() override { close(); }

  // Called by a local as the last thing it does: destroys it. OK: both directions ended
  // regularly; otherwise REFUSED (`answer` says why) or what broke.
  void end(Local& local, tmesh_status why, const tmesh_open_result& answer);

 protected:
  std::unique_ptr<Local> make_local() final;
  // The local is about to go.
  virtual void on_end(tmesh_status, const tmesh_open_result&) {}
};

}  // namespace tmesh::client
