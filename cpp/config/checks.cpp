#include "cpp/config/checks.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "cpp/base/address.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/url.hpp"

namespace tmesh::config {
namespace {

constexpr std::size_t kIdBytesMax = 255;          // the columns that store ids (STORAGE 4.2)
constexpr std::size_t kInstanceIdBytesMax = 128;  // agent_instance_metadata.instance_id
constexpr std::size_t kSocketPathBytesMax = 107;  // sockaddr_un.sun_path with its NUL
constexpr std::size_t kMetricsTokenBytesMin = 16;

template <class T>
const char* reason_of(const Result<T>& result) {
  return result ? nullptr : result.error().text;
}

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

}  // namespace

const char* check_listen(std::string_view text) {
  if (text.empty()) return nullptr;
  const Result<HostPort> parsed = parse_host_port(text);
  if (!parsed) return parsed.error().text;
  const bool is_local =
      parsed->host.empty() || ascii_lower(parsed->host) == "localhost" || parse_ip(parsed->host);
  return is_local ? nullptr : "must have an IP address, localhost or nothing before its port";
}

const char* check_tunnel_listen(std::string_view text) {
  constexpr std::string_view scheme = "unix:";
  if (!text.starts_with(scheme)) return check_listen(text);
  const std::string_view path = text.substr(scheme.size());
  if (!path.starts_with('/') || has_control(path)) return "must be unix: and an absolute path";
  return path.size() <= kSocketPathBytesMax ? nullptr : "must have a socket path of at most 107 bytes";
}

const char* check_host(std::string_view text) {
  if (text.empty() || is_host_name(text) || parse_ip(text)) return nullptr;
  return "must be a host name or an IP address";
}

const char* check_allowed_host(std::string_view text) {
  if (check_host(text) == nullptr) return nullptr;
  const Result<HostPort> parsed = parse_host_port(text);
  if (parsed && !parsed->host.empty() && parsed->port != 0) return nullptr;
  return "must be a host, or host:port, without a wildcard";
}

const char* check_origin(std::string_view text) {
  return text.empty() ? nullptr : reason_of(parse_origin(text));
}

const char* check_cidr(std::string_view text) {
  return text.empty() ? nullptr : reason_of(parse_cidr(text));
}

const char* check_ip(std::string_view text) {
  return text.empty() ? nullptr : reason_of(parse_ip(text));
}

const char* check_ws_url(std::string_view text) {
  return text.empty() ? nullptr : reason_of(parse_ws_url(text));
}

const char* check_http_url(std::string_view text) {
  return text.empty() ? nullptr : reason_of(parse_http_url(text));
}

const char* check_dns_name(std::string_view text) {
  if (text.empty()) return nullptr;
  const bool is_plain = is_host_name(text) && !text.starts_with('.') && !text.ends_with('.') &&
                        text.find("..") == std::string_view::npos;
  return is_plain ? nullptr : "must be a DNS name without a wildcard";
}

const char* check_id(std::string_view text) {
  if (has_space_or_control(text)) return "must not contain white space or control characters";
  return text.size() <= kIdBytesMax ? nullptr : "must have at most 255 bytes";
}

const char* check_node_id(std::string_view text) {
  // A database may store such a text as the number.
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789+-.eE") == text.npos;
  return is_number ? "must not read as a number" : check_id(text);
}

const char* check_instance_id(std::string_view text) {
  if (const char* reason = check_id(text)) return reason;
  return text.size() <= kInstanceIdBytesMax ? nullptr : "must have at most 128 bytes";
}

const char* check_no_control(std::string_view text) {
  return has_control(text) ? "must not contain control characters" : nullptr;
}

const char* check_absolute_path(std::string_view text) {
  if (text.empty()) return nullptr;
  return text.starts_with('/') && !has_control(text) ? nullptr : "must be an absolute path";
}

const char* check_metrics_token(std::string_view text) {
  if (const char* reason = check_secret(text)) return reason;
  return text.empty() || text.size() >= kMetricsTokenBytesMin ? nullptr : "must have at least 16 characters";
}

const char* check_secret(std::string_view text) {
  return has_space_or_control(text) ? "must not contain white space or control characters" : nullptr;
}

const char* check_metadata_name(std::string_view text) {
  if (has_control(text)) return "must not contain control characters";
  const std::string name = ascii_lower(text);
  for (const std::string_view word : {"password", "token", "secret", "private_key", "private-key", "dsn"}) {
    if (name.find(word) != std::string::npos) return "must not name a secret";
  }
  return nullptr;
}

const char* check_env_variable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_word_char) ? nullptr
                                                             : "must be a variable name, without a wildcard";
}

const char* check_file_mode(std::string_view text) {
  if (text.empty()) return nullptr;
  const bool is_octal = text.size() >= 3 && text.size() <= 4 &&
                        std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
  if (!is_octal || (text.size() == 4 && text.front() != '0')) return "must be a file mode such as 0600";
  return nullptr;
}

const char* check_owner(std::string_view text) {
  const bool is_plain = std::all_of(
      text.begin(), text.end(), [](char c) { return is_word_char(c) || c == '-' || c == '.' || c == ':'; });
  return is_plain && std::count(text.begin(), text.end(), ':') <= 1 ? nullptr : "must be user or user:group";
}

}  // namespace tmesh::config
