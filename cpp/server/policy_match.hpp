// Whether one row of `agent_policies` allows one target.
//
//   protocol       equal after normalisation
//   target_host    "*" any; "*.example.com" its sub-domains; a CIDR (addresses only);
//                  an address; a host name (case and trailing dot do not matter)
//   target_port    equal; 0 = any
//   allowed_cidrs  empty = any; else the target is an address inside one of them
//   allowed_ports  empty = any; else contains the port
// The two lists are JSON arrays or comma text (ports there may be ranges "a-b").
// IPv4-mapped IPv6 compares as IPv4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/result.hpp"
#include "cpp/server/policy_lists.hpp"
#include "cpp/server/target.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

// A row in the form in which it is compared: reading one takes far longer than asking it,
// and a batch of decisions asks it once per stream.
class PolicyRule {
 public:
  // TMESH_E_INVALID: a row that cannot be read in full, because what cannot be read may be
  // the restriction somebody relied on: an empty or over-long host, a misused wildcard, a
  // bad CIDR, a port outside 0..65535, a list that is neither form or has over 1024 items.
  // An unknown protocol and a text that is no host name (deployed rows may hold such) are
  // readable and allow nothing.
  static Result<PolicyRule> read(const storage::PolicyRecord& policy);

  bool allows(const Target& target) const;

  // The only Target::host that it can allow, for a name and a single address; else empty.
  std::string only_host() const;

  // What the two lists take in memory.
  std::size_t list_bytes() const {
    return cidrs_.capacity() * sizeof(Cidr) + ports_.capacity() * sizeof(PortRange);
  }

 private:
  enum class Host : uint8_t { nothing, any, subdomains, name, network };

  Result<void> read_host(std::string_view text);
  bool allows_host(const Target& target) const;

  Host host_ = Host::nothing;
  uint16_t port_ = 0;     // 0: any
  std::string protocol_;  // empty: none that exists
  std::string name_;      // subdomains, name
  Cidr network_;          // network; an address is its own
  std::vector<Cidr> cidrs_;
  std::vector<PortRange> ports_;
};

// All rules of an agent, those about one host found by it: long lists are of such.
class PolicyRules {
 public:
  void add(PolicyRule rule);
  bool allows(const Target& target) const;

  std::size_t size() const { return size_; }
  std::size_t list_bytes() const { return list_bytes_; }

 private:
  std::unordered_map<std::string, std::vector<PolicyRule>> by_host_;
  std::vector<PolicyRule> others_;
  std::size_t size_ = 0;
  std::size_t list_bytes_ = 0;
};

}  // namespace tmesh::server
