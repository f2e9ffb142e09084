#include "cpp/http/proxy/hop_fields.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/wire/ws_upgrade.h"

namespace tmesh::http {
namespace {

// Each is looked for in every field; real messages name two or three.
constexpr std::size_t kNamedMaxCount = 64;

bool is_any_of(std::string_view name, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [name](std::string_view other) { return equals_ignoring_case(name, other); });
}

}  // namespace

std::vector<std::string> list_items(const Headers& fields, std::string_view name) {
  std::vector<std::string> out;
  for (const Header& field : fields) {
    if (!equals_ignoring_case(field.name, name)) continue;
    tmesh_http_list list = tmesh_http_list_init(field.value.data(), field.value.size());
    const char* item = nullptr;
    std::size_t len = 0;
    while (tmesh_http_list_next(&list, &item, &len)) {
      const std::string_view text(item, len);
      const std::size_t end = text.substr(0, text.find(';')).find_last_not_of(" \t");
      if (end != std::string_view::npos) out.emplace_back(text.substr(0, end + 1));
    }
  }
  return out;
}

HopOptions::HopOptions(const Headers& fields) {
  for (const std::string& option : list_items(fields, "connection")) note(option);
  // Not standard, and only asked for this one wish.
  is_close_ = is_close_ || fields.has_token("proxy-connection", "close");
}

void HopOptions::note(std::string_view option) {
  static constexpr std::array<std::string_view, 3> kKept = {"content-length", "transfer-encoding", "host"};
  if (equals_ignoring_case(option, "close")) {
    is_close_ = true;
  } else if (equals_ignoring_case(option, "upgrade")) {
    is_upgrade_ = true;
  } else if (is_any_of(option, kKept) || named_.size() == kNamedMaxCount) {
    is_malformed_ = true;
  } else {
    named_.emplace_back(option);
  }
}

bool HopOptions::drops(std::string_view name) const {
  static constexpr std::array<std::string_view, 5> kOwn = {"connection", "keep-alive", "te", "upgrade",
                                                           "http2-settings"};
  static constexpr std::string_view kProxy = "proxy-";
  return is_any_of(name, kOwn) || equals_ignoring_case(name.substr(0, kProxy.size()), kProxy) ||
         std::any_of(named_.begin(), named_.end(),
                     [name](const std::string& other) { return equals_ignoring_case(name, other); });
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace tmesh::http
