#include "cpp/config/client.hpp"

#include <algorithm>

#include "cpp/config/build.hpp"

namespace tmesh::config {
namespace {

constexpr std::size_t kCredentialBytesMax = 255;  // RFC 1929 section 2; Basic keeps to it

struct CredentialSource {
  const char* username_variable;
  const char* password_variable;
  const char* file_path;
  const char* credential_name;
};

// "user name, newline, password" (a colon may stand in either).
Credentials two_lines(Build& build, const FoundSecret& found, const char* file_path) {
  const std::string_view text = found.value.reveal();
  const std::size_t end = text.find('\n');
  std::string_view username = text.substr(0, end);
  std::string_view password = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  if (username.ends_with('\r')) username.remove_suffix(1);
  if (password.empty() || password.find('\n') != std::string_view::npos) {
    const bool is_credential = found.where.kind == Origin::Kind::credential;
    const std::string_view key = is_credential ? std::string_view() : file_path;
    build.problems.error(found.where, key, "the file must hold a user name and a password on two lines");
    return {};
  }
  return {std::string(username), Secret(password)};
}

Credentials build_credentials(Build& build, const CredentialSource& source, bool is_needed) {
  const std::string_view username = environment_value(build.source, source.username_variable);
  const std::string_view password = environment_value(build.source, source.password_variable);
  const Setting& file = build.settings.at(source.file_path);
  const bool is_flag = !file.text().empty() && file.origin.kind > Origin::Kind::env;
  Credentials out;
  Origin where{Origin::Kind::env, source.password_variable, 0};
  if (!is_flag && (!username.empty() || !password.empty())) {
    out = {std::string(username), Secret(password)};
    if (username.empty() || password.empty()) {
      build.problems.error(
          where, "",
          std::string("needs both ") + source.username_variable + " and " + source.password_variable);
      return {};
    }
  } else {
    // Either variable alone was dealt with above, so there is none here that would count.
    const std::size_t errors_before = build.problems.error_count();
    const FoundSecret found =
        build_variable_secret(build, source.password_variable, source.file_path, source.credential_name);
    where = found.where;
    if (!found.value.empty()) out = two_lines(build, found, source.file_path);
    if (build.problems.error_count() > errors_before) return {};
  }
  if (out.username.size() > kCredentialBytesMax || out.password.size() > kCredentialBytesMax) {
    build.problems.error(where, "", "user name and password must have at most 255 bytes each");
  }
  if (!is_needed || !out.empty() || !build.is_whole()) return out;
  const std::string message = std::string("needs ") + source.username_variable + " and " +
                              source.password_variable + ", or " + source.file_path;
  if (build.purpose == Purpose::run) {
    build.error("client.tunnels", message);
  } else {
    build.warn("client.tunnels", message);
  }
  return out;
}

RemoteValidationSettings build_remote_validation(Build& build) {
  const Settings& s = build.settings;
  const std::string prefix = "client.remote_validation.";
  build.require_readable(prefix + "ca_file");
  return {s.number(prefix + "positive_ttl"), s.number(prefix + "negative_ttl"), s.number(prefix + "timeout"),
          s.number(prefix + "max_entries"), s.string(prefix + "ca_file")};
}

}  // namespace

ClientConfig build_client(Build& build) {
  const Settings& s = build.settings;
  ClientConfig config;
  config.server = build_server_link(build, "client", "/ws/client");
  config.token = build_token(build, "client");
  config.instance_id = s.string("client.instance_id");
  config.instance_id_path = s.string("client.instance_id_path");
  config.connections = build_pool(build, "client");
  config.open_timeout_us = s.number("client.stream.open_timeout");
  config.inbound_buffer_bytes = s.number("client.stream.inbound_buffer_bytes");
  config.handshake_timeout_us = s.number("client.handshake_timeout");
  config.udp_idle_timeout_us = s.number("client.udp_idle_timeout");
  config.remote_validation = build_remote_validation(build);
  config.metadata = build_metadata(build, "client");
  config.tunnels = build_tunnels(build);
  const auto any_with = [&](Tunnel::Auth auth) {
    return std::any_of(config.tunnels.begin(), config.tunnels.end(),
                       [&](const Tunnel& tunnel) { return tunnel.auth == auth; });
  };
  config.socks5 = build_credentials(build,
                                    {"TUNNELMESH_SOCKS5_USERNAME", "TUNNELMESH_SOCKS5_PASSWORD",
                                     "client.socks5_credentials_file", "tunnelmesh-client.socks5"},
                                    any_with(Tunnel::Auth::password));
  config.http_proxy =
      build_credentials(build,
                        {"TUNNELMESH_HTTP_PROXY_USERNAME", "TUNNELMESH_HTTP_PROXY_PASSWORD",
                         "client.http_proxy_credentials_file", "tunnelmesh-client.http-proxy"},
                        any_with(Tunnel::Auth::basic));
  build_program(build, "client", config);
  return config;
}

}  // namespace tmesh::config
