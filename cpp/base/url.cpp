#include "cpp/base/url.hpp"

#include <algorithm>
#include <cstddef>

#include "cpp/base/address.hpp"
#include "cpp/base/parse.hpp"

namespace tmesh {
namespace {

constexpr std::size_t kUrlBytesMax = 2048;  // one request line must hold it

uint16_t default_port(bool is_tls) {
  return is_tls ? 443 : 80;
}

bool take_scheme(std::string_view* text, std::string_view plain, std::string_view tls, bool* is_tls) {
  const std::size_t end = text->find("://");
  if (end == std::string_view::npos) return false;
  const std::string scheme = ascii_lower(text->substr(0, end));
  if (scheme != plain && scheme != tls) return false;
  *is_tls = scheme == tls;
  text->remove_prefix(end + 3);
  return true;
}

// Characters that RFC 3986 allows in a path or query; everything else must be %-encoded.
bool is_path(std::string_view path) {
  constexpr std::string_view marks = "-._~!$&'()*+,;=:@/?%";
  return std::all_of(path.begin(), path.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           marks.find(c) != std::string_view::npos;
  });
}

Result<Url> parse_rest(std::string_view rest, bool is_tls) {
  Url url;
  url.is_tls = is_tls;
  if (rest.find('#') != std::string_view::npos) return fail(TMESH_E_INVALID, "must not have a fragment");
  const std::size_t end = rest.find_first_of("/?");
  const std::string_view authority = rest.substr(0, end);
  if (authority.find('@') != std::string_view::npos) {
    return fail(TMESH_E_INVALID, "must not have user info");
  }
  const bool is_bracketed = authority.starts_with('[');
  const bool has_port = is_bracketed ? authority.find("]:") != std::string_view::npos
                                     : authority.find(':') != std::string_view::npos;
  std::string host_port(authority);
  if (!has_port) host_port.append(":").append(std::to_string(default_port(is_tls)));
  const Result<HostPort> parsed = parse_host_port(host_port);
  if (!parsed) return std::unexpected<Error>(parsed.error());
  if (parsed->host.empty()) return fail(TMESH_E_INVALID, "must have a host");
  if (parsed->port == 0) return fail(TMESH_E_INVALID, "must have a port from 1 to 65535");
  url.host = ascii_lower(parsed->host);
  url.port = parsed->port;
  if (end != std::string_view::npos) url.path = rest.substr(end);
  if (!is_path(url.path)) return fail(TMESH_E_INVALID, "must not have such characters in its path");
  if (!url.path.starts_with('/')) url.path.insert(url.path.begin(), '/');
  return url;
}

}  // namespace

Result<Url> parse_ws_url(std::string_view text) {
  if (text.size() > kUrlBytesMax) return fail(TMESH_E_TOO_LARGE, "is too long");
  bool is_tls = false;
  if (!take_scheme(&text, "ws", "wss", &is_tls)) {
    return fail(TMESH_E_INVALID, "must be an absolute ws:// or wss:// URL");
  }
  if (text.find('?') != std::string_view::npos) return fail(TMESH_E_INVALID, "must not have a query");
  return parse_rest(text, is_tls);
}

Result<Url> parse_http_url(std::string_view text) {
  if (text.size() > kUrlBytesMax) return fail(TMESH_E_TOO_LARGE, "is too long");
  bool is_tls = false;
  if (!take_scheme(&text, "http", "https", &is_tls)) {
    return fail(TMESH_E_INVALID, "must be an absolute http:// or https:// URL");
  }
  return parse_rest(text, is_tls);
}

Result<std::string> parse_origin(std::string_view text) {
  if (text.size() > kUrlBytesMax) return fail(TMESH_E_TOO_LARGE, "is too long");
  std::string_view rest = text;
  bool is_tls = false;
  if (!take_scheme(&rest, "http", "https", &is_tls)) {
    return fail(TMESH_E_INVALID, "must be an origin such as https://example.com");
  }
  if (rest.find_first_of("/?#") != std::string_view::npos) {
    return fail(TMESH_E_INVALID, "must be an origin: no path, query or fragment");
  }
  const Result<Url> url = parse_rest(rest, is_tls);
  if (!url) return std::unexpected<Error>(url.error());
  std::string origin = is_tls ? "https://" : "http://";
  origin += url_authority(*url);
  return origin;
}

std::string url_authority(const Url& url) {
  std::string text = format_host_port(url.host, url.port);
  if (url.port == default_port(url.is_tls)) text.resize(text.rfind(':'));
  return text;
}

}  // namespace tmesh
