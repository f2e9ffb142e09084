// Keys of tunnelmesh-client.
#include <array>

#include "cpp/config/checks.hpp"
#include "cpp/config/key_rows.hpp"

namespace tmesh::config::rows {
namespace {

#ifdef __APPLE__
constexpr std::string_view kInstanceIdPath = "/Library/Application Support/TunnelMesh/client-instance-id";
#else
constexpr std::string_view kInstanceIdPath = "/var/lib/tunnelmesh-client/client-instance-id";
#endif

constexpr std::array kRows = {
    text("client.server_url", "", kClient,
         "ws:// or wss:// URL of the server; path /ws/client when it has none")
        .checked(check_ws_url)
        .flag("server-url"),
    text("client.token", "", kClient, "secret of the client; prefer token_file or the environment")
        .checked(check_secret)
        .token()
        .live(),
    text("client.token_file", "", kClient, "file that holds the token; mode 0600")
        .checked(check_no_control)
        .flag("token-file")
        .live(),
    text("client.tls.ca_file", "", kClient, "CA certificates for wss://; empty = the system's")
        .checked(check_no_control)
        .flag("ca-file")
        .live(),
    text("client.instance_id", "", kClient, "identity of this installation; generated when empty")
        .checked(check_instance_id),
    text("client.instance_id_path", kInstanceIdPath, kClient, "file that keeps a generated instance_id")
        .checked(check_no_control),
    text("client.socks5_credentials_file", "", kClient,
         "file for tunnels with auth_mode password: user name, then password, on two lines; mode 0600")
        .checked(check_no_control)
        .live(),
    text("client.http_proxy_credentials_file", "", kClient, "the same for auth_mode basic")
        .checked(check_no_control)
        .live(),
    count("client.connections.min", "1", kClient, "links always kept for each agent").range(1, 512).live(),
    count("client.connections.max", "1", kClient, "links at most for each agent").range(1, 512).live(),
    count("client.connections.high_watermark", "16", kClient, "streams per link that ask for one more")
        .range(1, kCountMax)
        .live(),
    count("client.connections.low_watermark", "2", kClient, "streams per link that allow one less")
        .range(0, kCountMax)
        .live(),
    duration("client.connections.evaluation_interval", "10s", kClient, "how often that is looked at")
        .range(100 * kMs, kHour)
        .live(),
    duration("client.connections.cooldown", "30s", kClient, "least time between two changes")
        .range(0, kDay)
        .live(),
    duration("client.stream.open_timeout", "8s", kClient, "time for an open altogether")
        .range(kMs, kHour)
        .live(),
    bytes("client.stream.inbound_buffer_bytes", "262144", kClient, "bytes waiting for one local connection")
        .range(65536, kBufferMax)
        .live(),
    duration("client.handshake_timeout", "10s", kClient, "time for a local connection to say what it wants")
        .range(10 * kMs, kHour)
        .live(),
    duration("client.udp_idle_timeout", "60s", kClient, "life of a silent UDP association")
        .range(kSecond, kDay)
        .live(),
    duration("client.remote_validation.positive_ttl", "15s", kClient, "life of an allow by auth_url")
        .range(kMs, kHour)
        .live(),
    duration("client.remote_validation.negative_ttl", "2s", kClient, "life of a denial by auth_url")
        .range(kMs, kHour)
        .live(),
    duration("client.remote_validation.timeout", "3s", kClient, "patience with auth_url")
        .range(kMs, kHour)
        .live(),
    count("client.remote_validation.max_entries", "10000", kClient, "answers kept")
        .range(1, kCountMax)
        .live(),
    text("client.remote_validation.ca_file", "", kClient,
         "CA certificates for https:// auth_urls; empty = the system's")
        .checked(check_no_control)
        .live(),
    make("client.metadata", Type::objects, "", kClient, "what the client tells about itself; at most 32")
        .live(),
    text("client.metadata[].name", "", kClient, "name, unique").checked(check_metadata_name),
    choice("client.metadata[].source", "file|env", "env", kClient, "where the value comes from"),
    text("client.metadata[].path", "", kClient, "file, absolute").checked(check_absolute_path),
    text("client.metadata[].key", "", kClient, "environment variable").checked(check_env_variable),
    make("client.tunnels", Type::objects, "", kClient, "local entries; at most 256").live(),
    text("client.tunnels[].name", "", kClient, "name in logs, unique").checked(check_id),
    choice("client.tunnels[].protocol", "tcp|udp|http|socks5|http-proxy", "", kClient,
           "what the entry speaks"),
    text("client.tunnels[].listen", "", kClient, "host:port, or unix:/path").checked(check_tunnel_listen),
    text("client.tunnels[].agent_id", "", kClient, "agent that dials").checked(check_id),
    text("client.tunnels[].target_host", "", kClient, "tcp, udp, http: where to").checked(check_host),
    count("client.tunnels[].target_port", "0", kClient, "tcp, udp, http: where to").range(0, 65535),
    choice("client.tunnels[].target_scheme", "http|https", "http", kClient,
           "http: https = the agent speaks TLS to the target"),
    text("client.tunnels[].tls_server_name", "", kClient,
         "with target_scheme https: name in the target's certificate; empty = target_host")
        .checked(check_host),
    choice("client.tunnels[].auth_mode", "none|password|basic", "none", kClient,
           "socks5: none or password; http-proxy: none or basic"),
    text("client.tunnels[].auth_url", "", kClient,
         "service that is asked about opens; https:// where it is not on this machine")
        .checked(check_http_url)
        .secret_query(),
    boolean("client.tunnels[].allow_remote", "false", kClient, "listen for other machines, too"),
    list("client.tunnels[].hosts", "", kClient, "http: Host headers answered besides localhost and listen")
        .checked(check_allowed_host),
    text("client.tunnels[].socket_mode", "0600", kClient, "permissions of a Unix socket")
        .checked(check_file_mode),
    text("client.tunnels[].socket_owner", "", kClient, "user or user:group of a Unix socket; empty = own")
        .checked(check_owner),
    boolean("client.capabilities.open_result", "true", kClient, "speak stream_open_result.v1"),
    boolean("client.capabilities.flow_control", "true", kClient, "speak stream_flow_control.v1"),
    boolean("client.capabilities.fair_writer", "true", kClient, "announce stream_fair_writer.v1"),
    boolean("client.capabilities.early_data", "true", kClient,
            "speak stream_early_data.v1 with peers that do; needs open_result"),
    boolean("client.capabilities.window_growth", "true", kClient,
            "speak stream_window_growth.v1 with peers that do; needs flow_control"),
    bytes("client.limits.max_window", "16777216", kClient,
          "largest stream window; lowered to a quarter of memory_budget")
        .range(262144, kBufferMax)
        .live(),
    bytes("client.limits.memory_budget", "268435456", kClient, "bytes in all queues together")
        .range(8388608, 1ULL << 40),
    make("client.limits.window_violations", Type::rate, "256 in 10s", kClient,
         "window violations that end a link")
        .live(),
    duration("client.limits.stalled_close_timeout", "60s", kClient,
             "patience with a stalled stream whose peer is gone")
        .range(kSecond, kHour),
    duration("client.shutdown_timeout", "10s", kClient, "time for streams to end on SIGTERM")
        .range(0, kHour)
        .flag("shutdown-timeout")
        .live(),
    choice("client.log_level", "error|warn|info|debug", "info", kClient, "least severe level logged")
        .flag("log-level")
        .live(),
    choice("client.log_format", "text|json", "text", kClient, "form of a log line").flag("log-format").live(),
    boolean("client.config_watch", "true", kClient, "reload when the files change, not only on SIGHUP")
        .live(),
    text("client.status_socket", "", kClient, "Unix socket of `status`; empty = automatic")
        .checked(check_absolute_path),
};

}  // namespace

std::span<const Key> client() {
  return kRows;
}

}  // namespace tmesh::config::rows
