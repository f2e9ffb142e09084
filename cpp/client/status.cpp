#include "cpp/client/status.hpp"

#include "cpp/base/address.hpp"
#include "cpp/session/status_command.hpp"

namespace tmesh::client {

session::LinkReport report_of(const ServerLink& link) {
  session::LinkReport report;
  report.agent = link.agent_id();
  report.slot = link.status();
  report.is_strict = tmesh_subprotocol_is_strict(report.slot.subprotocol);
  return report;
}

session::EntryReport report_of(const config::Tunnel& tunnel, const Entry& entry) {
  session::EntryReport report;
  report.name = tunnel.name;
  report.protocol = config::protocol_name(tunnel.protocol);
  report.listen = listen_text(tunnel, entry);
  report.locals_count = entry.locals_count();
  report.accepted_count = entry.stats().accepted_count;
  report.opens_count = entry.stats().opens_count;
  report.refused_count = entry.stats().refused_count;
  report.dropped_count = entry.dropped_count();
  return report;
}

std::string listen_text(const config::Tunnel& tunnel, const Entry& entry) {
  if (!tunnel.socket_path.empty()) return "unix:" + tunnel.socket_path;
  // Port 0 is what the kernel chose; a listener that is closed has none any more.
  const uint16_t port = entry.port() != 0 ? entry.port() : tunnel.listen.port;
  return format_host_port(tunnel.listen.host, port);
}

int run_status(const config::ClientConfig& config, bool is_json, bool is_watch, std::FILE* out,
               std::FILE* err) {
  session::StatusRequest request;
  request.role = "client";
  request.socket = config.status_socket;
  request.is_json = is_json;
  request.is_watch = is_watch;
  request.out = out;
  request.err = err;
  return session::run_status(request);
}

}  // namespace tmesh::client
