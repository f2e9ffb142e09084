#include "cpp/server/scope.hpp"

#include <algorithm>

#include "cpp/base/json.hpp"
#include "cpp/base/parse.hpp"

namespace tmesh::server {
namespace {

template <class T>
void sort_unique(std::vector<T>& items) {
  std::ranges::sort(items);
  const auto repeats = std::ranges::unique(items);
  items.erase(repeats.begin(), repeats.end());
}

Result<void> read_ids(json::Value list, std::vector<std::string>& out) {
  if (!list.is_array() || list.size() > Scope::ids_max)
    return fail(TMESH_E_INVALID, "a scope's ids are not a list of at most 128");
  out.clear();
  for (const json::Value item : list) {
    const std::string_view id = trim(item.as_string().value_or(""));
    if (id.empty() || id.size() > Scope::id_bytes_max)
      return fail(TMESH_E_INVALID, "a scope holds a malformed id");
    out.emplace_back(id);
  }
  return {};
}

Result<void> read_protocols(json::Value list, std::vector<std::string>& out) {
  if (!list.is_array() || list.size() > Scope::protocols_max) {
    return fail(TMESH_E_INVALID, "a scope's protocols are not a list of at most 4");
  }
  out.clear();
  for (const json::Value item : list) {
    std::optional<std::string> protocol = normalize_protocol(item.as_string().value_or(""));
    if (!protocol) return fail(TMESH_E_INVALID, "a scope holds an unknown protocol");
    out.push_back(std::move(*protocol));
  }
  return {};
}

Result<void> read_cidrs(json::Value list, std::vector<Cidr>& out) {
  if (!list.is_array() || list.size() > Scope::ids_max)
    return fail(TMESH_E_INVALID, "a scope's CIDRs are not a list of at most 128");
  out.clear();
  for (const json::Value item : list) {
    const Result<Cidr> cidr = parse_cidr(trim(item.as_string().value_or("")));
    if (!cidr) return fail(TMESH_E_INVALID, "a scope holds a malformed CIDR");
    out.push_back(*cidr);
  }
  return {};
}

Result<void> read_ports(json::Value list, std::vector<uint16_t>& out) {
  if (!list.is_array() || list.size() > Scope::ports_max) {
    return fail(TMESH_E_INVALID, "a scope's ports are not a list of at most 1024");
  }
  out.clear();
  for (const json::Value item : list) {
    const int64_t port = item.as_int().value_or(0);
    if (port < 1 || port > 65535) return fail(TMESH_E_INVALID, "a scope holds a port outside 1..65535");
    out.push_back(static_cast<uint16_t>(port));
  }
  return {};
}

enum Key { key_agents, key_nodes, key_protocols, key_cidrs, key_ports, key_count };
constexpr std::string_view key_names[key_count] = {"agentIds", "serverNodeIds", "protocols", "targetCIDRs",
                                                   "targetPorts"};

Result<void> read_member(int key, json::Value value, Scope& scope) {
  switch (key) {
    case key_agents:
      return read_ids(value, scope.agent_ids);
    case key_nodes:
      return read_ids(value, scope.server_node_ids);
    case key_protocols:
      return read_protocols(value, scope.protocols);
    case key_cidrs:
      return read_cidrs(value, scope.target_cidrs);
    case key_ports:
      return read_ports(value, scope.target_ports);
    default:
      return fail(TMESH_E_INVALID, "a scope has an unknown key");
  }
}

Scope normalized(Scope scope) {
  sort_unique(scope.agent_ids);
  sort_unique(scope.server_node_ids);
  sort_unique(scope.protocols);
  sort_unique(scope.target_ports);
  std::ranges::sort(scope.target_cidrs, {}, format_cidr);
  const auto repeats = std::ranges::unique(scope.target_cidrs);
  scope.target_cidrs.erase(repeats.begin(), repeats.end());
  return scope;
}

void write_texts(json::Writer& out, std::string_view name, const std::vector<std::string>& items) {
  if (items.empty()) return;
  out.key(name).begin_array();
  for (const std::string& item : items) out.string(item);
  out.end_array();
}

bool allows_item(const std::vector<std::string>& list, std::string_view item) {
  return list.empty() || std::ranges::find(list, item) != list.end();
}

}  // namespace

bool Scope::allows_server(std::string_view node_id) const {
  return server_node_ids.empty() || node_id.empty() ||
         std::ranges::find(server_node_ids, node_id) != server_node_ids.end();
}

bool Scope::allows(std::string_view agent_id, const Target& target) const {
  if (!allows_item(agent_ids, agent_id) || !allows_item(protocols, target.protocol)) return false;
  if (!target_ports.empty() && std::ranges::find(target_ports, target.port) == target_ports.end())
    return false;
  const auto has_ip = [&target](const Cidr& cidr) { return holds(cidr, target.ip); };
  return target_cidrs.empty() || std::ranges::any_of(target_cidrs, has_ip);
}

Result<Scope> parse_scope(std::string_view text) {
  if (text.size() > Scope::bytes_max) return fail(TMESH_E_TOO_LARGE, "a scope is larger than 16 KiB");
  Result<json::Document> document = json::parse(text);
  if (!document) return std::unexpected(document.error());
  Scope scope;
  if (Result<void> merged = merge_scope(document->root(), scope); !merged)
    return std::unexpected(merged.error());
  return scope;
}

Result<void> merge_scope(json::Value object, Scope& scope) {
  if (!object.is_object()) return fail(TMESH_E_INVALID, "a scope is not a JSON object");
  Scope merged = scope;
  bool is_seen[key_count] = {};
  for (const json::Value member : object) {
    const auto key = static_cast<int>(std::ranges::find(key_names, member.key()) - key_names);
    if (key < key_count && std::exchange(is_seen[key], true))
      return fail(TMESH_E_INVALID, "a scope repeats a key");
    if (Result<void> read = read_member(key, member, merged); !read) return read;
  }
  merged = normalized(std::move(merged));
  if (format_scope(merged).size() > Scope::bytes_max)
    return fail(TMESH_E_TOO_LARGE, "a scope is larger than 16 KiB");
  scope = std::move(merged);
  return {};
}

std::string format_scope(const Scope& scope) {
  const Scope tidy = normalized(scope);
  std::string text;
  json::Writer out(text);
  out.begin_object();
  write_texts(out, "agentIds", tidy.agent_ids);
  write_texts(out, "serverNodeIds", tidy.server_node_ids);
  write_texts(out, "protocols", tidy.protocols);
  std::vector<std::string> cidrs;
  cidrs.reserve(tidy.target_cidrs.size());
  for (const Cidr& cidr : tidy.target_cidrs) cidrs.push_back(format_cidr(cidr));
  write_texts(out, "targetCIDRs", cidrs);
  if (!tidy.target_ports.empty()) {
    out.key("targetPorts").begin_array();
    for (const uint16_t port : tidy.target_ports) out.integer(port);
    out.end_array();
  }
  out.end_object();
  return text;
}

}  // namespace tmesh::server
