// What a client tells on its status socket (session/status_socket.hpp).
#pragma once

#include <cstdio>
#include <string>

#include "cpp/client/entry.hpp"
#include "cpp/client/server_link.hpp"
#include "cpp/session/status_report.hpp"

namespace tmesh::client {

session::LinkReport report_of(const ServerLink& link);
session::EntryReport report_of(const config::Tunnel& tunnel, const Entry& entry);

// Where an entry listens, for people: the port as it came to be, "unix:/path".
std::string listen_text(const config::Tunnel& tunnel, const Entry& entry);

// The command `status`; see session/status_command.hpp.
[[nodiscard]] int run_status(const config::ClientConfig& config, bool is_json, bool is_watch, std::FILE* out,
                             std::FILE* err);

}  // namespace tmesh::client
