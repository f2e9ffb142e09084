#include "cpp/session/status_socket.hpp"

#include <unistd.h>

#include <utility>

#include "cpp/base/log.hpp"

namespace tmesh::session {

StatusSocket::StatusSocket(net::Loop& loop, std::string_view role, const std::string& path, Fill fill,
                           const StatusSurroundings& around)
    : loop_(loop),
      role_(role),
      program_("tunnelmesh-" + std::string(role)),
      fill_(fill),
      started_us_(loop.now_us()),
      started_at_s_(loop.wall_us() / 1'000'000) {
  const Result<void> done = path.empty() ? listen_somewhere(around) : listen(path);
  if (!done) log::warn("status_socket_unavailable", {{"reason", done.error().text}});
}

Result<void> StatusSocket::listen(const std::string& path) {
  auto made =
      net::DocumentSocket::open(loop_, path, Delegate<std::string()>::bind<&StatusSocket::document>(this));
  if (!made) return std::unexpected(made.error());
  socket_ = std::move(*made);
  return {};
}

Result<void> StatusSocket::listen_somewhere(const StatusSurroundings& around) {
  for (const std::string& folder : status_folders(around, role_)) {
    // The service manager's own folder is as it made it.
    if (folder != around.runtime_directory && !prepare_status_folder(folder, around.user)) continue;
    for (unsigned number = 1; number <= kStatusSocketsMax; number++) {
      const Result<void> done = listen(folder + "/" + status_socket_name(number));
      if (done) return {};
      if (done.error().code != TMESH_E_REFUSED) break;
    }
  }
  return fail(TMESH_E_IO, "there is no folder for it");
}

std::string StatusSocket::document() {
  StatusReport report;
  report.program = program_;
  report.version = TMESH_VERSION;
  report.pid = ::getpid();
  report.started_at_s = started_at_s_;
  report.started_us = started_us_;
  report.now_us = loop_.now_us();
  fill_(report);
  return status_json(report);
}

}  // namespace tmesh::session
