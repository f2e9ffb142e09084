// Keys of tunnelmesh-server that have an effect.
#include <array>

#include "cpp/config/checks.hpp"
#include "cpp/config/key_rows.hpp"

namespace tmesh::config::rows {
namespace {

constexpr std::array kRows = {
    text("server.http_addr", ":80", kServer, "the one listener: HTTP(S), WebSocket, health")
        .checked(check_listen),
    count("server.stream.max_concurrent_opens", "256", kServer, "opens running at once")
        .range(1, kCountMax)
        .live(),
    count("server.stream.max_pending_opens", "1024", kServer, "opens waiting for a turn")
        .range(1, kCountMax)
        .live(),
    count("server.stream.max_opens_per_link", "128", kServer, "opens running at once for one client link")
        .range(1, kCountMax)
        .live(),
    count("server.stream.max_active_per_link", "16384", kServer, "live streams on one client link")
        .range(1, kCountMax)
        .live(),
    count("server.stream.max_active_per_token", "16384", kServer, "live streams of one token")
        .range(1, kCountMax)
        .live(),
    count("server.stream.max_active_per_agent", "1024", kServer,
          "live streams of one agent over all its links; 0 = no limit")
        .range(0, kCountMax)
        .live(),
    bytes("server.stream.initial_window", "262144", kServer, "credit of a new stream, towards each side")
        .range(1, kBufferMax),
    bytes("server.stream.window_update_threshold", "131072", kServer, "credit is returned in steps of this")
        .range(1, kBufferMax),
    bytes("server.stream.max_frame_payload", "32768", kServer,
          "payload of a DATA frame; deployed peers take no other value")
        .range(32768, 32768),
    boolean("server.authorization_cache.enabled", "true", kServer, "keep decisions about opens"),
    duration("server.authorization_cache.local_positive_ttl", "5s", kServer, "SQLite: life of an allow")
        .range(kMs, kHour),
    duration("server.authorization_cache.cluster_positive_ttl", "5m", kServer, "MySQL: life of an allow")
        .range(kMs, kDay),
    duration("server.authorization_cache.negative_ttl", "3s", kServer,
             "life of a denial; SQLite uses at most 1s of it")
        .range(kMs, kHour),
    duration("server.authorization_cache.revision_poll_interval", "2s", kServer,
             "how often changes by others are looked for")
        .range(100 * kMs, kMinute),
    duration("server.authorization_cache.max_stale_on_poll_error", "5s", kServer,
             "life of allows while that look fails")
        .range(kMs, kHour),
    count("server.authorization_cache.max_entries", "100000", kServer, "decisions kept").range(1, 10000000),
    boolean("server.authorization_cache.revoke_open_streams", "true", kServer,
            "reset streams whose permission is withdrawn"),
    duration("server.http.read_header_timeout", "10s", kServer, "time for a request's header; 0 = default")
        .range(0, kHour),
    duration("server.http.idle_timeout", "120s", kServer, "time between requests; 0 = default")
        .range(0, kDay),
    bytes("server.http.max_header_bytes", "1048576", kServer, "size of a request's header; 0 = default")
        .range(0, 16777216),
    duration("server.http.body_timeout", "30s", kServer, "time for a request's body; 0 = default")
        .range(0, kHour),
    count("server.http.max_connections", "0", kServer,
          "connections at once; 0 = derived from the open-file limit")
        .range(0, kCountMax),
    list("server.trusted_proxies", "", kServer,
         "networks of reverse proxies, where connections are not limited per address")
        .checked(check_cidr),
    count("server.agents.max_connections_per_agent", "64", kServer, "links of one agent; 0 = default")
        .range(0, 512),
    count("server.audit.retention_days", "0", kServer, "age at which audit rows go; 0 = never")
        .range(0, 36500),
    boolean("server.capabilities.open_result", "true", kServer, "speak stream_open_result.v1"),
    boolean("server.capabilities.flow_control", "true", kServer, "speak stream_flow_control.v1"),
    boolean("server.capabilities.fair_writer", "true", kServer, "announce stream_fair_writer.v1"),
    boolean("server.capabilities.early_data", "true", kServer,
            "speak stream_early_data.v1 with peers that do; needs open_result"),
    boolean("server.capabilities.window_growth", "true", kServer,
            "speak stream_window_growth.v1 with peers that do; needs flow_control"),
    bytes("server.limits.max_window", "16777216", kServer,
          "largest stream window; lowered to a quarter of memory_budget")
        .range(262144, kBufferMax)
        .live(),
    bytes("server.limits.memory_budget", "268435456", kServer, "bytes in all queues together")
        .range(8388608, 1ULL << 40),
    make("server.limits.window_violations", Type::rate, "256 in 10s", kServer,
         "window violations that end a link")
        .live(),
    duration("server.limits.stalled_close_timeout", "60s", kServer,
             "unused: a server has neither targets nor local programs")
        .range(kSecond, kHour)
        .no_effect("server.limits.stalled_close_timeout"),
    duration("server.shutdown_timeout", "10s", kServer, "time for streams to end on SIGTERM")
        .range(0, kHour)
        .flag("shutdown-timeout")
        .live(),
    choice("server.log_level", "error|warn|info|debug", "info", kServer, "least severe level logged")
        .flag("log-level")
        .live(),
    choice("server.log_format", "text|json", "text", kServer, "form of a log line").flag("log-format").live(),
    text("server.token_encryption_key_file", "", kServer,
         "file with the key under which token secrets are kept; mode 0600")
        .checked(check_no_control),
    boolean("server.config_watch", "true", kServer, "reload when the files change, not only on SIGHUP")
        .live(),
    text("server.status_socket", "", kServer, "Unix socket of `status`; empty = automatic")
        .checked(check_absolute_path)
        .no_effect("status_socket"),
};

}  // namespace

std::span<const Key> server() {
  return kRows;
}

}  // namespace tmesh::config::rows
