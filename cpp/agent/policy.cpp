#include "cpp/agent/policy.hpp"

#include <algorithm>
#include <cstddef>

namespace tmesh::agent {
namespace {

struct Denial {
  Cidr network;
  Verdict verdict;
};

constexpr Cidr v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint8_t prefix_bits) {
  return Cidr{IpAddress{4, {a, b, c, d}}, prefix_bits};
}

constexpr Cidr v6(const uint16_t (&groups)[8], uint8_t prefix_bits) {
  IpAddress ip{6, {}};
  for (unsigned i = 0; i < 8; ++i) {
    ip.bytes[2 * i] = static_cast<uint8_t>(groups[i] >> 8);
    ip.bytes[2 * i + 1] = static_cast<uint8_t>(groups[i]);
  }
  return Cidr{ip, prefix_bits};
}

// The metadata addresses stand first: lifting link-local does not lift them.
constexpr Denial kDenials[] = {
    {v4(169, 254, 169, 254, 32), Verdict::metadata_service},  // AWS, Azure, GCP and others
    {v4(169, 254, 170, 2, 32), Verdict::metadata_service},    // AWS container credentials
    {v4(100, 100, 100, 200, 32), Verdict::metadata_service},  // Alibaba Cloud
    {v4(168, 63, 129, 16, 32), Verdict::metadata_service},    // Azure wire server
    {v6({0xFD00, 0xEC2, 0, 0, 0, 0, 0, 0x254}, 128), Verdict::metadata_service},
    {v4(169, 254, 0, 0, 16), Verdict::link_local},
    {v6({0xFE80}, 10), Verdict::link_local},
    {v4(224, 0, 0, 0, 4), Verdict::multicast},
    {v6({0xFF00}, 8), Verdict::multicast},
    {v4(0, 0, 0, 0, 8), Verdict::unspecified},  // Linux connects 0.0.0.0 to this machine
    {v6({0}, 128), Verdict::unspecified},
    {v4(255, 255, 255, 255, 32), Verdict::broadcast},
};

constexpr Cidr kLoopback4 = v4(127, 0, 0, 0, 8);
constexpr Cidr kLoopback6 = v6({0, 0, 0, 0, 0, 0, 0, 1}, 128);

constexpr Cidr kMapped = v6({0, 0, 0, 0, 0, 0xFFFF}, 96);
constexpr Cidr kCompatible = v6({0}, 96);  // RFC 4291 2.5.5.1, long deprecated
constexpr Cidr kNat64 = v6({0x64, 0xFF9B}, 96);
constexpr Cidr kSixToFour = v6({0x2002}, 16);

bool is_special_v6(const IpAddress& ip) {  // :: and ::1 lie in ::/96 but are no IPv4
  return std::all_of(ip.bytes, ip.bytes + 15, [](uint8_t b) { return b == 0; }) && ip.bytes[15] <= 1;
}

IpAddress unmap(const IpAddress& ip) {
  if (ip.is_v4() || is_special_v6(ip)) return ip;
  if (kMapped.contains(ip) || kCompatible.contains(ip) || kNat64.contains(ip)) {
    return ip_from_bytes(ip.bytes + 12, true);
  }
  if (kSixToFour.contains(ip)) return ip_from_bytes(ip.bytes + 2, true);
  return ip;
}

bool is_in(const std::vector<Cidr>& list, const IpAddress& raw, const IpAddress& unmapped) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Cidr& c) { return c.contains(raw) || c.contains(unmapped); });
}

// "localhost" and what lies under it (RFC 6761): answered by the resolver itself.
bool is_localhost(std::string_view host) {
  constexpr std::string_view kWord = "localhost";
  if (host.ends_with('.')) host.remove_suffix(1);
  if (host.size() < kWord.size()) return false;
  const std::string_view tail = host.substr(host.size() - kWord.size());
  const bool is_word = std::equal(tail.begin(), tail.end(), kWord.begin(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
  return is_word && (host.size() == kWord.size() || host[host.size() - kWord.size() - 1] == '.');
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::permitted:
      return "permitted";
    case Verdict::in_deny_list:
      return "in_deny_list";
    case Verdict::not_in_allow_list:
      return "not_in_allow_list";
    case Verdict::link_local:
      return "link_local";
    case Verdict::metadata_service:
      return "metadata_service";
    case Verdict::multicast:
      return "multicast";
    case Verdict::unspecified:
      return "unspecified";
    case Verdict::broadcast:
      return "broadcast";
    case Verdict::loopback_by_name:
      return "loopback_by_name";
  }
  return "unknown";
}

Policy::Policy(std::span<const Cidr> allow, std::span<const Cidr> deny)
    : allow_(allow.begin(), allow.end()), deny_(deny.begin(), deny.end()) {}

bool Policy::lifts(const Cidr& denial, const IpAddress& address) const {
  return std::any_of(allow_.begin(), allow_.end(), [&](const Cidr& c) {
    return c.prefix_bits >= denial.prefix_bits && denial.contains(c.base) && c.contains(address);
  });
}

Verdict Policy::judge(const IpAddress& address, std::string_view host, bool is_name) const {
  const IpAddress ip = unmap(address);
  if (is_in(deny_, address, ip)) return Verdict::in_deny_list;
  for (const Denial& denial : kDenials) {
    if (!denial.network.contains(ip)) continue;
    return lifts(denial.network, ip) ? Verdict::permitted : denial.verdict;
  }
  for (const Cidr& loopback : {kLoopback4, kLoopback6}) {
    if (!loopback.contains(ip)) continue;
    if (lifts(loopback, ip)) return Verdict::permitted;
    if (is_name && !is_localhost(host)) return Verdict::loopback_by_name;
  }
  if (!allow_.empty() && !is_in(allow_, address, ip)) return Verdict::not_in_allow_list;
  return Verdict::permitted;
}

}  // namespace tmesh::agent
