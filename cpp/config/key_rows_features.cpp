// Server keys of deployed files whose feature this version does not have. They are
// checked for form, so that a file stays valid when the feature arrives.
#include <array>

#include "cpp/config/checks.hpp"
#include "cpp/config/key_rows.hpp"

namespace tmesh::config::rows {
namespace {

constexpr std::array kRows = {
    text("server.https_addr", ":443", kServer, "unused; see server.http_addr and tls.enabled")
        .no_effect("server.https_addr"),
    text("server.agent_ws_addr", ":443", kServer, "unused; see server.http_addr")
        .no_effect("server.agent_ws_addr"),
    text("server.client_ws_addr", ":443", kServer, "unused; see server.http_addr")
        .no_effect("server.client_ws_addr"),
    text("server.dynamic_suffix", "apps.example.com", kServer, "domain of dynamic names")
        .checked(check_dns_name)
        .no_effect("server.dynamic_suffix"),
    boolean("server.tcp_bridge.enabled", "true", kServer, "TCP over WebSocket for browsers")
        .flag("tcp-bridge|server.tcp_bridge_enabled")
        .formerly("server.tcp_bridge_enabled")
        .no_effect("server.tcp_bridge"),
    text("server.tcp_bridge.path", "/ws/tcp", kServer, "its path")
        .checked(check_no_control)
        .no_effect("server.tcp_bridge"),
    bytes("server.tcp_bridge.max_bytes", "65536", kServer, "size of its messages")
        .range(1, kBufferMax)
        .no_effect("server.tcp_bridge"),
    boolean("server.relay.enabled", "false", kServer, "links between servers").unavailable("server.relay"),
    text("server.relay.listen", "", kServer, "listener for other servers")
        .checked(check_listen)
        .no_effect("server.relay"),
    text("server.relay.endpoint", "", kServer, "how other servers reach this one")
        .checked(check_no_control)
        .no_effect("server.relay"),
    text("server.relay.ca", "", kServer, "CA of the servers")
        .checked(check_absolute_path)
        .no_effect("server.relay"),
    text("server.relay.cert", "", kServer, "certificate of this server")
        .checked(check_absolute_path)
        .no_effect("server.relay"),
    text("server.relay.key", "", kServer, "key of that certificate")
        .checked(check_absolute_path)
        .no_effect("server.relay"),
    text("server.relay.server_name", "", kServer, "name expected in the others' certificates")
        .checked(check_dns_name)
        .no_effect("server.relay"),
    text("server.relay.node_token", "", kServer, "token of this server")
        .checked(check_secret)
        .token()
        .no_effect("server.relay"),
    text("server.metrics.token", "", kServer, "bearer token of /metrics")
        .checked(check_metrics_token)
        .token()
        .no_effect("server.metrics"),
    boolean("server.webssh.enabled", "true", kServer, "terminal in the console").unavailable("server.webssh"),
    duration("server.webssh.ticket_ttl", "30s", kServer, "life of a ticket")
        .range(kSecond, kDay)
        .no_effect("server.webssh"),
    duration("server.webssh.session_ttl", "8h", kServer, "life of a session")
        .range(kSecond, 30 * kDay)
        .no_effect("server.webssh"),
    count("server.webssh.max_active_sessions_per_user", "5", kServer, "sessions of one user")
        .range(1, 10000)
        .no_effect("server.webssh"),
    duration("server.webssh.open_timeout", "10s", kServer, "time to connect")
        .range(kMs, kHour)
        .no_effect("server.webssh"),
    duration("server.webssh.idle_timeout", "5m", kServer, "time without input")
        .range(kSecond, kDay)
        .no_effect("server.webssh"),
    bytes("server.webssh.max_message_bytes", "65536", kServer, "size of a message")
        .range(1, kBufferMax)
        .no_effect("server.webssh"),
    boolean("server.proxy_entry.enabled", "false", kServer, "HTTP proxy entry on the server")
        .unavailable("server.proxy_entry"),
    text("server.proxy_entry.listen", "127.0.0.1:8089", kServer, "its listener")
        .checked(check_listen)
        .no_effect("server.proxy_entry"),
    list("server.proxy_entry.trusted_proxies", "127.0.0.1/32,::1/128", kServer,
         "networks that may set headers")
        .checked(check_cidr)
        .no_effect("server.proxy_entry"),
    text("server.proxy_entry.domain_suffix", "", kServer, "its domain")
        .checked(check_dns_name)
        .no_effect("server.proxy_entry"),
    text("server.proxy_entry.route_header", "X-TunnelMesh-Route", kServer, "header with the route")
        .checked(check_no_control)
        .no_effect("server.proxy_entry"),
    text("server.proxy_entry.client_ip_header", "X-TunnelMesh-Client-IP", kServer, "header with the address")
        .checked(check_no_control)
        .no_effect("server.proxy_entry"),
    text("server.proxy_entry.client_port_header", "X-TunnelMesh-Client-Port", kServer, "header with the port")
        .checked(check_no_control)
        .no_effect("server.proxy_entry"),
    duration("server.proxy_entry.connect_timeout", "10s", kServer, "time to connect")
        .range(kMs, kHour)
        .no_effect("server.proxy_entry"),
    duration("server.proxy_entry.idle_timeout", "300s", kServer, "time without data")
        .range(kMs, kDay)
        .no_effect("server.proxy_entry"),
    duration("server.proxy_entry.shutdown_timeout", "30s", kServer, "time to drain")
        .range(0, kHour)
        .no_effect("server.proxy_entry"),
    count("server.proxy_entry.max_concurrent_tunnels", "512", kServer, "tunnels at once")
        .range(1, kCountMax)
        .no_effect("server.proxy_entry"),
    bytes("server.proxy_entry.max_header_bytes", "16384", kServer, "size of a header")
        .range(1, 16777216)
        .no_effect("server.proxy_entry"),
    count("server.proxy_entry.auth_backoff_threshold", "5", kServer, "failures before a pause")
        .range(1, 10000)
        .no_effect("server.proxy_entry"),
    make("server.vpn", Type::tree, "", kServer, "VPN of special builds").unavailable("server.vpn"),
};

}  // namespace

std::span<const Key> server_features() {
  return kRows;
}

}  // namespace tmesh::config::rows
