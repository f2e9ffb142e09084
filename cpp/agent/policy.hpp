// The agent's own check of the addresses it is about to dial (STORAGE 3, "the agent
// checks again"): against DNS rebinding, metadata services and mistakes of the server.
//
// Decides on RESOLVED addresses, so it runs inside the dial, once per address; a denied
// address drops out of the race. Order of the rules, first match decides:
//
//   1. deny list                 -> denied
//   2. allow list names a network inside a built-in denial that matches -> permitted
//   3. built-in denials          -> denied
//   4. allow list is not empty   -> permitted exactly if the address is in it
//   5. otherwise                 -> permitted
//
// So a non-empty allow list is the whole world, and "0.0.0.0/0" in it does not open the
// metadata service: a built-in denial is lifted only by an entry that lies inside the
// denied network, which nobody writes by accident ("169.254.169.254/32", "127.0.0.0/8").
//
// IPv4 inside IPv6 (::ffff:0:0/96, ::/96, 64:ff9b::/96, 2002::/16) is judged as IPv4;
// the lists are compared with both forms. Immutable; pure; allocates only in the
// constructor. Names are not looked at, except that loopback is for IP literals and
// for "localhost": any other name that resolves to it is somebody's rebinding.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cpp/base/address.hpp"

namespace tmesh::agent {

enum class Verdict : uint8_t {
  permitted,
  in_deny_list,
  not_in_allow_list,
  link_local,
  metadata_service,
  multicast,
  unspecified,
  broadcast,
  loopback_by_name,
};

// Stable lower-case name for counters and logs; no address in it.
const char* verdict_name(Verdict verdict);

class Policy {
 public:
  Policy() = default;
  Policy(std::span<const Cidr> allow, std::span<const Cidr> deny);

  // host: what the OPEN_STREAM named; is_name: it was a name, not a literal.
  Verdict judge(const IpAddress& address, std::string_view host, bool is_name) const;
  bool permits(const IpAddress& address, std::string_view host, bool is_name) const {
    return judge(address, host, is_name) == Verdict::permitted;
  }

 private:
  bool lifts(const Cidr& denial, const IpAddress& address) const;

  std::vector<Cidr> allow_;
  std::vector<Cidr> deny_;
};

}  // namespace tmesh::agent
