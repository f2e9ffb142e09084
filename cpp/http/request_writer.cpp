#include "cpp/http/request_writer.hpp"

#include <algorithm>
#include <array>

namespace tmesh::http {

namespace {

bool is_visible_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

bool is_sound(const Headers& fields) {
  static constexpr std::array<std::string_view, 4> kOwn = {"host", "content-length", "connection",
                                                           "transfer-encoding"};
  return std::all_of(fields.begin(), fields.end(), [](const Header& field) {
    return is_token(field.name) && is_field_value(field.value) &&
           std::none_of(kOwn.begin(), kOwn.end(),
                        [&](std::string_view own) { return equals_ignoring_case(own, field.name); });
  });
}

bool needs_length(Method method) {
  return method == Method::post || method == Method::put || method == Method::patch;
}

}  // namespace

std::optional<std::string> serialize_request(Method method, const Url& url, const Headers& headers,
                                             std::string_view body) {
  const std::string host = url_authority(url);
  if (!url.path.starts_with('/') || !is_visible_ascii(url.path) || !is_visible_ascii(host)) {
    return std::nullopt;
  }
  if (!is_sound(headers)) return std::nullopt;
  std::string out;
  std::size_t size = 128 + url.path.size() + host.size() + body.size();
  for (const Header& field : headers) size += field.name.size() + field.value.size() + 4;
  out.reserve(size);
  out.append(method_name(method)).append(" ").append(url.path).append(" HTTP/1.1\r\nHost: ").append(host);
  out.append("\r\n");
  for (const Header& field : headers) out.append(field.name).append(": ").append(field.value).append("\r\n");
  if (!body.empty() || needs_length(method)) {
    out.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  }
  out.append("\r\n").append(body);
  return out;
}

}  // namespace tmesh::http
