// What an agent tells on its status socket (session/status_socket.hpp).
#pragma once

#include <cstdio>

#include "cpp/agent/agent_pool.hpp"
#include "cpp/session/status_report.hpp"

namespace tmesh::agent {

// Every link of the pool, those that end among them.
void report_links(const AgentPool& pool, session::StatusReport& report);

// The command `status`; see session/status_command.hpp.
[[nodiscard]] int run_status(const config::AgentConfig& config, bool is_json, bool is_watch, std::FILE* out,
                             std::FILE* err);

}  // namespace tmesh::agent
