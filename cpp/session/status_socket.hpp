// The status socket of a running client or agent: a place for it and what it answers.
//
// One connection, one JSON document (status_report.hpp), then the end; net::DocumentSocket
// says who gets an answer. Without a socket (the place that the configuration names cannot be
// used, another program has it already, there is no place at all) the program tells nothing
// about itself and works all the same; the log says so.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/net/document_socket.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/session/status_place.hpp"
#include "cpp/session/status_report.hpp"

namespace tmesh::session {

class StatusSocket {
 public:
  // Adds links and entries; the rest of the report is filled in already.
  using Fill = Delegate<void(StatusReport&)>;

  // role: "client", "agent"; static. path: of the configuration; empty = automatic.
  StatusSocket(net::Loop& loop, std::string_view role, const std::string& path, Fill fill,
               const StatusSurroundings& around = status_surroundings());
  StatusSocket(const StatusSocket&) = delete;
  StatusSocket& operator=(const StatusSocket&) = delete;

  // Empty: nowhere.
  std::string path() const { return socket_ == nullptr ? "" : socket_->path(); }

 private:
  Result<void> listen(const std::string& path);
  Result<void> listen_somewhere(const StatusSurroundings& around);
  std::string document();

  net::Loop& loop_;
  const std::string_view role_;
  const std::string program_;
  const Fill fill_;
  const uint64_t started_us_;
  const int64_t started_at_s_;
  std::unique_ptr<net::DocumentSocket> socket_;
};

}  // namespace tmesh::session
