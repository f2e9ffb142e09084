#include "cpp/config/server.hpp"

#include "core/base/check.h"
#include "cpp/base/parse.hpp"
#include "cpp/config/build.hpp"

namespace tmesh::config {
namespace {

uint64_t or_default(Build& build, std::string_view path) {
  if (build.settings.number(path) == 0) build.settings.replace(path, find_key(path)->default_text);
  return build.settings.number(path);
}

StorageSettings build_storage(Build& build, bool is_cluster) {
  const Settings& s = build.settings;
  StorageSettings storage;
  storage.driver =
      s.text("storage.driver") == "mysql" ? StorageSettings::Driver::mysql : StorageSettings::Driver::sqlite;
  storage.sqlite_path = s.string("storage.sqlite.path");
  storage.is_auto_init = s.boolean("storage.auto_init");
  storage.is_mysql_tls = s.boolean("storage.mysql.tls");
  storage.mysql_ca_file = s.string("storage.mysql.ca");
  storage.mysql_cert_file = s.string("storage.mysql.cert");
  storage.mysql_key_file = s.string("storage.mysql.key");
  if (storage.driver == StorageSettings::Driver::sqlite) {
    if (is_cluster) build.error("storage.driver", "must be mysql when mode is cluster");
    build.require("storage.sqlite.path");
    return storage;
  }
  if (!is_cluster) build.error("storage.driver", "must be sqlite when mode is local");
  const SecretSource dsn{"storage.mysql.dsn", "storage.mysql.dsn_file", "tunnelmesh-server.mysql-dsn"};
  const std::size_t errors_before = build.problems.error_count();
  storage.mysql_dsn = build_secret(build, dsn).value;
  if (storage.mysql_dsn.empty() && build.problems.error_count() == errors_before) {
    build.require("storage.mysql.dsn");
  }
  if (storage.mysql_cert_file.empty() != storage.mysql_key_file.empty()) {
    build.error(storage.mysql_cert_file.empty() ? "storage.mysql.key" : "storage.mysql.cert",
                "needs both storage.mysql.cert and storage.mysql.key");
  }
  for (const char* path : {"storage.mysql.ca", "storage.mysql.cert", "storage.mysql.key"}) {
    build.require_readable(path);
  }
  return storage;
}

ServerStreamSettings build_stream(Build& build, const Limits& limits) {
  const Settings& s = build.settings;
  constexpr const char* window_path = "server.stream.initial_window";
  ServerStreamSettings stream;
  stream.concurrent_opens_max = s.number("server.stream.max_concurrent_opens");
  stream.pending_opens_max = s.number("server.stream.max_pending_opens");
  stream.opens_per_link_max = s.number("server.stream.max_opens_per_link");
  stream.active_per_link_max = s.number("server.stream.max_active_per_link");
  stream.active_per_token_max = s.number("server.stream.max_active_per_token");
  stream.active_per_agent_max = s.number("server.stream.max_active_per_agent");
  if (s.number(window_path) < kAcceptorWindowBytes) {
    build.warn(window_path, "is raised to 262144: peers assume at least that");
    build.settings.replace(window_path, std::to_string(kAcceptorWindowBytes));
  }
  stream.initial_window_bytes = s.number(window_path);
  stream.window_update_threshold_bytes = s.number("server.stream.window_update_threshold");
  if (stream.initial_window_bytes > limits.max_window_bytes) {
    build.error(window_path, "must not be above server.limits.max_window");
  }
  // With less than a frame left a sender of whole frames would wait for credit that
  // is only granted after it has sent (LESSONS W2).
  if (stream.window_update_threshold_bytes + kFramePayloadBytes > stream.initial_window_bytes) {
    build.error("server.stream.window_update_threshold",
                "must leave at least 32768 bytes below server.stream.initial_window");
  }
  return stream;
}

AuthorizationCacheSettings build_cache(const Settings& s) {
  AuthorizationCacheSettings cache;
  const std::string prefix = "server.authorization_cache.";
  cache.is_enabled = s.boolean(prefix + "enabled");
  cache.local_positive_ttl_us = s.number(prefix + "local_positive_ttl");
  cache.cluster_positive_ttl_us = s.number(prefix + "cluster_positive_ttl");
  cache.negative_ttl_us = s.number(prefix + "negative_ttl");
  cache.revision_poll_interval_us = s.number(prefix + "revision_poll_interval");
  cache.stale_on_poll_error_max_us = s.number(prefix + "max_stale_on_poll_error");
  cache.entries_max = s.number(prefix + "max_entries");
  cache.revoke_open_streams = s.boolean(prefix + "revoke_open_streams");
  return cache;
}

HttpSettings build_http(Build& build) {
  HttpSettings http;
  http.read_header_timeout_us = or_default(build, "server.http.read_header_timeout");
  http.idle_timeout_us = or_default(build, "server.http.idle_timeout");
  http.header_bytes_max = or_default(build, "server.http.max_header_bytes");
  http.body_timeout_us = or_default(build, "server.http.body_timeout");
  http.connections_max = build.settings.number("server.http.max_connections");
  return http;
}

ServerTlsSettings build_tls(Build& build) {
  ServerTlsSettings tls;
  tls.is_enabled = build.settings.boolean("tls.enabled");
  tls.cert_file = build.settings.string("tls.cert_file");
  tls.key_file = build.settings.string("tls.key_file");
  tls.needs_tls13 = build.settings.text("tls.min_version") == "1.3";
  for (const char* path : {"tls.cert_file", "tls.key_file"}) {
    if (tls.is_enabled) {
      build.require(path);
      build.require_readable(path);
    } else if (!build.settings.text(path).empty()) {
      build.warn(path, "has no effect while tls.enabled is false");
    }
  }
  return tls;
}

}  // namespace

ServerConfig build_server(Build& build) {
  const Settings& s = build.settings;
  ServerConfig config;
  config.is_cluster = s.text("mode") == "cluster";
  if (config.is_cluster) {
    build.warn(
        "mode",
        "servers of a cluster do not pass streams to each other yet: a client reaches only agents that "
        "are connected to the same server");
  }
  config.node_id = s.string("node.id");
  config.node_id_path = s.string("node.id_path");
  build.require("server.http_addr");
  if (const Result<HostPort> addr = parse_host_port(s.text("server.http_addr"))) config.http_addr = *addr;
  config.storage = build_storage(build, config.is_cluster);
  build_program(build, "server", config);
  config.stream = build_stream(build, config.limits);
  config.authorization_cache = build_cache(s);
  config.http = build_http(build);
  config.tls = build_tls(build);
  config.connections_per_agent_max = or_default(build, "server.agents.max_connections_per_agent");
  config.metrics_token = s.secret("server.metrics.token");
  config.token_encryption_key =
      build_variable_secret(build, "TUNNELMESH_TOKEN_ENCRYPTION_KEY", "server.token_encryption_key_file",
                            "tunnelmesh-server.token-encryption-key")
          .value;
  config.token_encryption_key_id = environment_value(build.source, "TUNNELMESH_TOKEN_ENCRYPTION_KEY_ID");
  config.audit_retention_days = s.number("server.audit.retention_days");
  config.login_throttle = {s.number("security.auth.login_throttle.max_attempts"),
                           s.number("security.auth.login_throttle.window"),
                           s.number("security.auth.login_throttle.block")};
  config.session_token_ttl_us = s.number("security.auth.session_token_ttl");
  for (const std::string& text : s.list("server.trusted_proxies")) {
    if (const Result<Cidr> cidr = parse_cidr(text)) config.trusted_proxies.push_back(*cidr);
  }
  for (const std::string& host : s.list("security.allowed_hosts")) {
    config.allowed_hosts.push_back(ascii_lower(host));
  }
  for (const std::string& text : s.list("security.allowed_origins")) {
    if (const Result<std::string> origin = parse_origin(text)) config.allowed_origins.push_back(*origin);
  }
  config.allow_legacy_connection_tokens = s.boolean("security.allow_legacy_connection_tokens");
  return config;
}

}  // namespace tmesh::config
