#include "cpp/base/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "cpp/base/parse.hpp"

namespace tmesh {
namespace {

constexpr std::size_t kHostNameBytesMax = 253;  // RFC 1035 section 2.3.4, as text
constexpr std::array<uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

bool is_mapped(const uint8_t* bytes) {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes);
}

void clear_behind(IpAddress& ip, unsigned prefix_bits) {
  for (unsigned i = 0; i < sizeof ip.bytes; ++i) {
    const unsigned first_bit = i * 8;
    if (first_bit >= prefix_bits) {
      ip.bytes[i] = 0;
    } else if (prefix_bits - first_bit < 8) {
      ip.bytes[i] = static_cast<uint8_t>(ip.bytes[i] & (0xFF00u >> (prefix_bits - first_bit)));
    }
  }
}

// As parse_ip, but a mapped address stays IPv6: a network needs its own prefix first.
Result<IpAddress> parse_ip_raw(std::string_view text) {
  char copy[INET6_ADDRSTRLEN];
  if (text.empty() || text.size() >= sizeof copy || text.find('\0') != std::string_view::npos) {
    return fail(TMESH_E_INVALID, "must be an IP address");
  }
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  IpAddress ip;
  if (inet_pton(AF_INET, copy, ip.bytes) == 1) {
    ip.family = 4;
    return ip;
  }
  if (inet_pton(AF_INET6, copy, ip.bytes) == 1) {
    ip.family = 6;
    return ip;
  }
  return fail(TMESH_E_INVALID, "must be an IP address");
}

}  // namespace

IpAddress ip_from_bytes(const uint8_t* bytes, bool is_v4) {
  IpAddress ip;
  if (!is_v4 && is_mapped(bytes)) {
    bytes += kMappedPrefix.size();
    is_v4 = true;
  }
  ip.family = is_v4 ? 4 : 6;
  std::copy_n(bytes, is_v4 ? 4 : 16, ip.bytes);
  return ip;
}

Result<IpAddress> parse_ip(std::string_view text) {
  const Result<IpAddress> raw = parse_ip_raw(text);
  if (!raw) return raw;
  return ip_from_bytes(raw->bytes, raw->is_v4());
}

std::string format_ip(const IpAddress& ip) {
  if (ip.is_v4()) {
    // Every open comes by here, and inet_ntop goes through sprintf.
    std::string text = std::to_string(ip.bytes[0]);
    for (unsigned i = 1; i < 4; ++i) {
      text += '.';
      text += std::to_string(ip.bytes[i]);
    }
    return text;
  }
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, ip.bytes, text, sizeof text);
  return text;
}

bool is_loopback(const IpAddress& ip) {
  if (ip.is_v4()) return ip.bytes[0] == 127;
  return std::all_of(ip.bytes, ip.bytes + 15, [](uint8_t b) { return b == 0; }) && ip.bytes[15] == 1;
}

bool Cidr::contains(const IpAddress& ip) const {
  IpAddress other = ip;
  if (ip.is_v4() && !base.is_v4()) {
    // An IPv6 network may contain the whole mapped block (::/0 does).
    other = IpAddress{.family = 6};
    std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), other.bytes);
    std::copy_n(ip.bytes, 4, other.bytes + kMappedPrefix.size());
  }
  if (other.family != base.family) return false;
  clear_behind(other, prefix_bits);
  return other == base;
}

Result<Cidr> parse_cidr(std::string_view text) {
  constexpr const char* reason = "must be a network such as 10.0.0.0/8 or fd00::/8";
  const std::size_t slash = text.find('/');
  const Result<IpAddress> ip = parse_ip_raw(text.substr(0, slash));
  if (!ip) return fail(TMESH_E_INVALID, reason);
  const unsigned bits = ip->is_v4() ? 32 : 128;
  unsigned prefix = bits;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const Result<uint64_t> value = parse_uint(digits);
    if (!value || *value > bits || digits.size() > 3) return fail(TMESH_E_INVALID, reason);
    prefix = static_cast<unsigned>(*value);
  }
  Cidr cidr{*ip, static_cast<uint8_t>(prefix)};
  if (!ip->is_v4() && is_mapped(ip->bytes) && prefix >= 96) {
    cidr.base = ip_from_bytes(ip->bytes, false);
    cidr.prefix_bits = static_cast<uint8_t>(prefix - 96);
  }
  clear_behind(cidr.base, cidr.prefix_bits);
  return cidr;
}

std::string format_cidr(const Cidr& cidr) {
  return format_ip(cidr.base) + "/" + std::to_string(cidr.prefix_bits);
}

Result<uint16_t> parse_port(std::string_view text) {
  const Result<uint64_t> value = parse_uint(text);
  if (!value || *value == 0 || *value > 65535) return fail(TMESH_E_INVALID, "must be a port from 1 to 65535");
  return static_cast<uint16_t>(*value);
}

bool is_host_name(std::string_view host) {
  if (host.empty() || host.size() > kHostNameBytesMax) return false;
  return std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

Result<HostPort> parse_host_port(std::string_view text) {
  HostPort out;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find("]:");
    if (end == std::string_view::npos) return fail(TMESH_E_INVALID, "must be [address]:port");
    out.host = text.substr(1, end - 1);
    const Result<IpAddress> ip = parse_ip_raw(out.host);
    if (!ip || ip->is_v4()) return fail(TMESH_E_INVALID, "must have an IPv6 address in the brackets");
    port = text.substr(end + 2);
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return fail(TMESH_E_INVALID, "must be host:port");
    out.host = text.substr(0, colon);
    if (out.host.find(':') != std::string::npos) {
      return fail(TMESH_E_INVALID, "must have an IPv6 address in brackets, as in [::1]:80");
    }
    if (!out.host.empty() && !is_host_name(out.host)) {
      return fail(TMESH_E_INVALID, "must have a host of letters, digits, '-', '_' and '.'");
    }
    port = text.substr(colon + 1);
  }
  const Result<uint64_t> number = parse_uint(port);
  if (!number || *number > 65535) return fail(TMESH_E_INVALID, "must have a port from 0 to 65535");
  out.port = static_cast<uint16_t>(*number);
  return out;
}

std::string format_host_port(std::string_view host, uint16_t port) {
  std::string out;
  if (host.find(':') != std::string_view::npos) {
    out.append("[").append(host).append("]");
  } else {
    out.append(host);
  }
  return out.append(":").append(std::to_string(port));
}

bool is_loopback_host(std::string_view host) {
  if (ascii_lower(host) == "localhost") return true;
  const Result<IpAddress> ip = parse_ip(host);
  return ip && is_loopback(*ip);
}

}  // namespace tmesh
