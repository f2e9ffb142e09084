// The list columns of `agent_policies`: JSON array text or comma text. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/result.hpp"

namespace tmesh::server {

struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
  bool contains(uint16_t port) const { return first <= port && port <= last; }
};

inline constexpr size_t list_items_max = 1024;  // as for the ports of a token scope

// An empty text and "[]" are the empty list. TMESH_E_INVALID: anything that is not
// one of the two forms in full, including an empty item and a backwards range.
Result<std::vector<Cidr>> parse_cidr_list(std::string_view text);
Result<std::vector<PortRange>> parse_port_list(std::string_view text);

}  // namespace tmesh::server
