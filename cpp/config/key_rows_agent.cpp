// Keys of tunnelmesh-agent.
#include <array>

#include "cpp/config/checks.hpp"
#include "cpp/config/key_rows.hpp"

namespace tmesh::config::rows {
namespace {

constexpr std::array kRows = {
    text("agent.server_url", "", kAgent, "ws:// or wss:// URL of the server; path /ws/agent when it has none")
        .checked(check_ws_url)
        .flag("server-url"),
    text("agent.id", "", kAgent, "identity, as created on the server").checked(check_id).flag("id"),
    text("agent.instance_id", "", kAgent, "identity of this installation; generated when empty")
        .checked(check_instance_id),
    text("agent.instance_id_path", "/var/lib/tunnelmesh-agent/agent-instance-id", kAgent,
         "file that keeps a generated instance_id")
        .checked(check_no_control),
    text("agent.token", "", kAgent, "secret of the agent; prefer token_file or the environment")
        .checked(check_secret)
        .token()
        .live(),
    text("agent.token_file", "", kAgent, "file that holds the token; mode 0600")
        .checked(check_no_control)
        .flag("token-file")
        .live(),
    text("agent.tls.ca_file", "", kAgent, "CA certificates for wss://; empty = the system's")
        .checked(check_no_control)
        .flag("ca-file")
        .live(),
    count("agent.connections.min", "1", kAgent, "links always kept").range(1, 512).live(),
    count("agent.connections.max", "1", kAgent, "links at most; those that end come on top")
        .range(1, 512)
        .live(),
    count("agent.connections.high_watermark", "16", kAgent, "streams per link that ask for one more")
        .range(1, kCountMax)
        .live(),
    count("agent.connections.low_watermark", "2", kAgent, "streams per link that allow one less")
        .range(0, kCountMax)
        .live(),
    duration("agent.connections.evaluation_interval", "10s", kAgent, "how often that is looked at")
        .range(100 * kMs, kHour)
        .live(),
    duration("agent.connections.cooldown", "30s", kAgent, "least time between two changes")
        .range(0, kDay)
        .live(),
    count("agent.streams.max_concurrent_dials", "32", kAgent, "dials running at once").range(1, 65536).live(),
    count("agent.streams.max_pending_dials", "128", kAgent, "dials waiting for a turn")
        .range(1, 65536)
        .live(),
    duration("agent.streams.connect_timeout", "5s", kAgent, "time for one connection attempt")
        .range(kMs, kHour)
        .live(),
    duration("agent.streams.open_timeout", "8s", kAgent, "time for an open altogether")
        .range(kMs, kHour)
        .live(),
    bytes("agent.streams.inbound_buffer_bytes", "262144", kAgent, "bytes waiting for one target")
        .range(65536, kBufferMax)
        .live(),
    count("agent.streams.max_active", "1024", kAgent, "live streams; 0 = no limit")
        .range(0, kCountMax)
        .live(),
    choice("agent.streams.resolver", "async|system", "async", kAgent,
           "own resolver on the loop, or the system's in worker threads"),
    text("agent.streams.tls_ca_file", "", kAgent, "CA certificates for https targets; empty = the system's")
        .checked(check_no_control)
        .live(),
    boolean("agent.streams.icmp_enabled", "false", kAgent, "ping for probes")
        .unavailable("agent.streams.icmp"),
    text("agent.streams.icmp_bind_address", "0.0.0.0", kAgent, "its source address")
        .checked(check_ip)
        .no_effect("agent.streams.icmp"),
    duration("agent.streams.icmp_timeout", "5s", kAgent, "its patience")
        .range(kMs, kHour)
        .no_effect("agent.streams.icmp"),
    count("agent.streams.icmp_max_concurrent", "64", kAgent, "pings at once")
        .range(1, 65536)
        .no_effect("agent.streams.icmp"),
    list("agent.policy.allow", "", kAgent, "networks that targets may be in").checked(check_cidr).live(),
    list("agent.policy.deny", "", kAgent, "networks that targets must not be in").checked(check_cidr).live(),
    make("agent.metadata", Type::objects, "", kAgent, "what the agent tells about itself; at most 32").live(),
    text("agent.metadata[].name", "", kAgent, "name, unique").checked(check_metadata_name),
    choice("agent.metadata[].source", "file|env", "env", kAgent, "where the value comes from"),
    text("agent.metadata[].path", "", kAgent, "file, absolute").checked(check_absolute_path),
    text("agent.metadata[].key", "", kAgent, "environment variable").checked(check_env_variable),
    boolean("agent.capabilities.open_result", "true", kAgent, "speak stream_open_result.v1"),
    boolean("agent.capabilities.flow_control", "true", kAgent, "speak stream_flow_control.v1"),
    boolean("agent.capabilities.fair_writer", "true", kAgent, "announce stream_fair_writer.v1"),
    boolean("agent.capabilities.early_data", "true", kAgent,
            "speak stream_early_data.v1 with peers that do; needs open_result"),
    boolean("agent.capabilities.window_growth", "true", kAgent,
            "speak stream_window_growth.v1 with peers that do; needs flow_control"),
    bytes("agent.limits.max_window", "16777216", kAgent,
          "largest stream window; lowered to a quarter of memory_budget")
        .range(262144, kBufferMax)
        .live(),
    bytes("agent.limits.memory_budget", "268435456", kAgent, "bytes in all queues together")
        .range(8388608, 1ULL << 40),
    make("agent.limits.window_violations", Type::rate, "256 in 10s", kAgent,
         "window violations that end a link")
        .live(),
    duration("agent.limits.stalled_close_timeout", "60s", kAgent,
             "patience with a stalled stream whose peer is gone")
        .range(kSecond, kHour),
    duration("agent.shutdown_timeout", "10s", kAgent, "time for streams to end on SIGTERM")
        .range(0, kHour)
        .flag("shutdown-timeout")
        .live(),
    choice("agent.log_level", "error|warn|info|debug", "info", kAgent, "least severe level logged")
        .flag("log-level")
        .live(),
    choice("agent.log_format", "text|json", "text", kAgent, "form of a log line").flag("log-format").live(),
    boolean("agent.config_watch", "true", kAgent, "reload when the files change, not only on SIGHUP").live(),
    text("agent.status_socket", "", kAgent, "Unix socket of `status`; empty = automatic")
        .checked(check_absolute_path),
};

}  // namespace

std::span<const Key> agent() {
  return kRows;
}

}  // namespace tmesh::config::rows
