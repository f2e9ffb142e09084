#include "cpp/agent/status.hpp"

#include "cpp/session/status_command.hpp"

namespace tmesh::agent {

void report_links(const AgentPool& pool, session::StatusReport& report) {
  for (const auto& slot : pool.slots())
    report.add(session::LinkReport{"", slot->is_strict(), slot->status()});
}

int run_status(const config::AgentConfig& config, bool is_json, bool is_watch, std::FILE* out,
               std::FILE* err) {
  session::StatusRequest request;
  request.role = "agent";
  request.socket = config.status_socket;
  request.is_json = is_json;
  request.is_watch = is_watch;
  request.out = out;
  request.err = err;
  return session::run_status(request);
}

}  // namespace tmesh::agent
