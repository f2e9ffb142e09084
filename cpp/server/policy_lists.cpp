#include "cpp/server/policy_lists.hpp"

#include <algorithm>
#include <utility>

#include "cpp/base/json.hpp"
#include "cpp/base/parse.hpp"

namespace tmesh::server {
namespace {

constexpr size_t list_bytes_max = 64 * 1024;  // 1024 CIDRs of 49 characters and their punctuation

std::unexpected<Error> malformed() {
  return fail(TMESH_E_INVALID, "a list of a policy is malformed");
}

Result<PortRange> single_port(std::string_view text) {
  const Result<uint16_t> port = parse_port(text);
  if (!port) return malformed();
  return PortRange{*port, *port};
}

Result<PortRange> port_item(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return single_port(text);
  const Result<uint16_t> first = parse_port(trim(text.substr(0, dash)));
  const Result<uint16_t> last = parse_port(trim(text.substr(dash + 1)));
  if (!first || !last || *first > *last) return malformed();
  return PortRange{*first, *last};
}

Result<Cidr> cidr_item(std::string_view text) {
  const Result<Cidr> cidr = parse_cidr(text);
  if (!cidr) return malformed();
  return *cidr;
}

Result<PortRange> json_port(json::Value value) {
  const std::optional<int64_t> port = value.as_int();
  if (!port || *port < 1 || *port > 65535) return malformed();
  return PortRange{static_cast<uint16_t>(*port), static_cast<uint16_t>(*port)};
}

Result<Cidr> json_cidr(json::Value value) {
  const std::optional<std::string_view> text = value.as_string();
  if (!text) return malformed();
  return cidr_item(trim(*text));
}

template <class T>
Result<std::vector<T>> parse_list(std::string_view text, Result<T> (*from_json)(json::Value),
                                  Result<T> (*from_text)(std::string_view)) {
  if (text.size() > list_bytes_max) return malformed();
  text = trim(text);
  std::vector<T> items;
  if (text.empty()) return items;
  const auto add = [&items](Result<T> item) {
    if (!item || items.size() >= list_items_max) return false;
    items.push_back(*item);
    return true;
  };
  if (text.front() == '[') {
    Result<json::Document> document = json::parse(text);
    if (!document || !document->root().is_array()) return malformed();
    for (const json::Value value : document->root()) {
      if (!add(from_json(value))) return malformed();
    }
    return items;
  }
  while (true) {
    const size_t comma = text.find(',');
    if (!add(from_text(trim(text.substr(0, comma))))) return malformed();
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

// Sorted, each behind the one before with a gap.
std::vector<PortRange> merged(std::vector<PortRange> ports) {
  std::ranges::sort(ports, {}, &PortRange::first);
  std::vector<PortRange> out;
  for (const PortRange& range : ports) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view text) {
  return port_item(trim(text));
}

std::string format_cidr_list(const std::vector<std::string>& cidrs) {
  std::string text;
  json::Writer out(text);
  out.begin_array();
  for (const std::string& cidr : cidrs) out.string(cidr);
  out.end_array();
  return text;
}

std::string format_port_list(std::vector<PortRange> ports) {
  ports = merged(std::move(ports));
  const bool has_ranges =
      std::ranges::any_of(ports, [](const PortRange& range) { return range.first != range.last; });
  std::string text;
  for (const PortRange& range : ports) {
    if (!text.empty()) text += ',';
    text += std::to_string(range.first);
    if (range.last != range.first) text += '-' + std::to_string(range.last);
  }
  return has_ranges ? text : '[' + text + ']';
}

std::string cidr_list_json(std::string_view text) {
  std::vector<std::string> items;
  if (const Result<std::vector<Cidr>> cidrs = parse_cidr_list(text); cidrs) {
    for (const Cidr& cidr : *cidrs) items.push_back(format_cidr(cidr));
  } else {
    items.emplace_back(text);
  }
  return format_cidr_list(items);
}

std::string port_list_json(std::string_view text) {
  const Result<std::vector<PortRange>> ports = parse_port_list(text);
  if (!ports) return format_cidr_list({std::string(text)});
  std::string array;
  json::Writer out(array);
  out.begin_array();
  for (const PortRange& range : *ports) {
    if (range.first == range.last) {
      out.integer(range.first);
    } else {
      out.string(std::to_string(range.first) + '-' + std::to_string(range.last));
    }
  }
  out.end_array();
  return array;
}

Result<std::vector<Cidr>> parse_cidr_list(std::string_view text) {
  return parse_list<Cidr>(text, json_cidr, cidr_item);
}

Result<std::vector<PortRange>> parse_port_list(std::string_view text) {
  return parse_list<PortRange>(text, json_port, port_item);
}

}  // namespace tmesh::server
