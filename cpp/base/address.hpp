// Addresses as values: IP literals, networks, host:port pairs. No resolver, no
// socket types; pure functions and small structs.
//
// An IPv4-mapped IPv6 address (::ffff:a.b.c.d) always becomes the IPv4 address, so
// that it cannot slip past a rule written for IPv4 (LESSONS P-G5).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"

namespace tmesh {

struct IpAddress {
  uint8_t family = 0;      // 4 or 6; 0 = no address
  uint8_t bytes[16] = {};  // IPv4 uses the first four, the rest stays zero

  bool is_v4() const { return family == 4; }
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// Strict text forms only ("127.1", "0x7f.1" and "01.2.3.4" are not addresses); no
// brackets, no zone. INVALID otherwise.
Result<IpAddress> parse_ip(std::string_view text);
// From the 4 or 16 bytes of a socket address; mapped addresses become IPv4.
IpAddress ip_from_bytes(const uint8_t* bytes, bool is_v4);
// Canonical text (RFC 5952 as inet_ntop prints it).
std::string format_ip(const IpAddress& ip);
bool is_loopback(const IpAddress& ip);  // 127.0.0.0/8, ::1

struct Cidr {
  IpAddress base;  // bits behind the prefix are zero
  uint8_t prefix_bits = 0;

  bool contains(const IpAddress& ip) const;
  friend bool operator==(const Cidr&, const Cidr&) = default;
};

// "10.0.0.0/8", "fd00::/8"; a bare address counts as its own /32 or /128. Set bits
// behind the prefix are cleared. A network inside ::ffff:0:0/96 becomes IPv4; one
// that contains that block (prefix below 96) stays IPv6. INVALID otherwise.
Result<Cidr> parse_cidr(std::string_view text);
std::string format_cidr(const Cidr& cidr);

struct HostPort {
  std::string host;  // without brackets; empty for ":80" (every local address)
  uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "name:80", "10.0.0.1:80", "[::1]:80", ":80". The port is required, 0..65535; a
// bare IPv6 address is refused because its port would be a guess; so are zones,
// and names of anything but letters, digits, '-', '_' and '.', up to 253 bytes.
// INVALID otherwise.
Result<HostPort> parse_host_port(std::string_view text);
std::string format_host_port(std::string_view host, uint16_t port);

// 1..65535 in decimal. INVALID otherwise.
Result<uint16_t> parse_port(std::string_view text);

// Whether a host name has the form above (an IP literal has it too, except IPv6).
bool is_host_name(std::string_view host);

// Whether a listener on this host can be reached from this machine only:
// "localhost" and loopback literals. The empty host is not.
bool is_loopback_host(std::string_view host);

}  // namespace tmesh
