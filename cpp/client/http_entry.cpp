#include "cpp/client/http_entry.hpp"

#include "cpp/client/http_local.hpp"

namespace tmesh::client {
namespace {

http::ProxyRules rules_of(const EntryDeps& deps, const config::Tunnel& tunnel) {
  http::ProxyRules rules;
  rules.is_gateway = tunnel.protocol == config::Tunnel::Protocol::http;
  if (rules.is_gateway) {
    rules.target = {tunnel.target_host, tunnel.target_port};
    rules.is_target_https = tunnel.is_target_https;
    rules.hosts = tunnel.hosts;
  } else if (tunnel.auth == config::Tunnel::Auth::basic) {
    rules.has_login = true;
    rules.username = deps.http_proxy.username;
    rules.password = deps.http_proxy.password;
  }
  return rules;
}

}  // namespace

HttpEntry::HttpEntry(const EntryDeps& deps, const config::Tunnel& tunnel, Broken broken)
    : StreamEntry(deps, tunnel, broken),
      rules_(rules_of(deps, tunnel)),
      target_authority_(rules_.is_gateway ? rules_.target_authority() : std::string()),
      leaving_(deps.loop) {
  tmesh_pool_charge_init(&heads_, deps.loop.pool());
}

void HttpEntry::stop_listening() {
  is_stopping_ = true;
  StreamEntry::stop_listening();
}

OpenRequest HttpEntry::request_for(const HostPort& place) const {
  OpenRequest out;
  out.host = place.host;
  out.port = place.port;
  if (!rules_.is_gateway) return out;
  out.protocol = TMESH_OPEN_HTTP;
  out.is_target_https = rules_.is_target_https;
  if (rules_.is_target_https) {
    out.host_header = target_authority_;
    out.tls_server_name = tunnel().tls_server_name;
  }
  return out;
}

std::unique_ptr<Local> HttpEntry::make_local() {
  return std::make_unique<HttpLocal>(*this);
}

}  // namespace tmesh::client
