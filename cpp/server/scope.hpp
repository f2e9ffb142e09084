// The scope of a service token: restrictions on top of the agent's policies.
//
// In the database a JSON object, read strictly: unknown or repeated keys, wrong
// types, over 16 KiB or over the bounds below are refused, so that a restriction
// can never be overlooked. Written normalised: trimmed, sorted, without repeats,
// CIDRs canonical, empty lists left out. An empty list restricts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/json.hpp"
#include "cpp/base/result.hpp"
#include "cpp/server/target.hpp"

namespace tmesh::server {

struct Scope {
  static constexpr size_t bytes_max = 16 * 1024;
  static constexpr size_t ids_max = 128;  // agents; nodes; CIDRs
  static constexpr size_t id_bytes_max = 255;
  static constexpr size_t protocols_max = 4;  // there are four
  static constexpr size_t ports_max = 1024;

  std::vector<std::string> agent_ids;        // "agentIds"
  std::vector<std::string> server_node_ids;  // "serverNodeIds"
  std::vector<std::string> protocols;        // "protocols": tcp, udp, http, ws
  std::vector<Cidr> target_cidrs;            // "targetCIDRs": refuses host names when not empty
  std::vector<uint16_t> target_ports;        // "targetPorts"

  bool allows(std::string_view agent_id, const Target& target) const;
  // Whether the token may be used at this server; one without an id judges nobody.
  bool allows_server(std::string_view node_id) const;
};

// TMESH_E_INVALID with the reason, or TMESH_E_TOO_LARGE.
Result<Scope> parse_scope(std::string_view text);

// Puts the members that `object` has in the place of those of `scope`, an empty list being no
// restriction, and normalises it; the others stay. Strict as parse_scope. Errors as there.
Result<void> merge_scope(json::Value object, Scope& scope);

// What the database keeps: parse_scope(format_scope(s)) gives the normalised s.
std::string format_scope(const Scope& scope);

}  // namespace tmesh::server
