// The list columns of `agent_policies`: JSON array text or comma text. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/result.hpp"

namespace tmesh::server {

struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
  bool contains(uint16_t port) const { return first <= port && port <= last; }
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

inline constexpr size_t list_items_max = 1024;  // as for the ports of a token scope

// An empty text and "[]" are the empty list. TMESH_E_INVALID: anything that is not
// one of the two forms in full, including an empty item and a backwards range.
Result<std::vector<Cidr>> parse_cidr_list(std::string_view text);
Result<std::vector<PortRange>> parse_port_list(std::string_view text);
// "443" or "8000-8100". TMESH_E_INVALID.
Result<PortRange> parse_port_range(std::string_view text);

// What the columns keep. CIDRs are a JSON array. Ports are sorted and what overlaps or
// touches is one range; without a range they are a JSON array too, else comma text, which
// deployed servers read as well. Each range is forwards and begins above 0.
std::string format_cidr_list(const std::vector<std::string>& cidrs);
std::string format_port_list(std::vector<PortRange> ports);

// For readers: the column's items as a JSON array, ranges as texts ("8000-8100"). A text that
// is no list is the only item, so that nobody takes it for "no restriction".
std::string cidr_list_json(std::string_view text);
std::string port_list_json(std::string_view text);

}  // namespace tmesh::server
