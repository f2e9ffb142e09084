// How many connections each address has open. Counts; knows no socket.
//
// IPv4 counts by address, IPv6 by /64, which is what one customer gets. Memory: one
// small entry per address with a connection. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cpp/base/address.hpp"

namespace tmesh::http {

class AddressLimit {
 public:
  // max_count 0 = no limit. `exempt` networks are not limited: a reverse proxy in
  // front speaks for everybody.
  AddressLimit(std::size_t max_count, std::vector<Cidr> exempt);

  // Takes a place, or returns false. Every true is given back once.
  bool acquire(const IpAddress& ip);
  void release(const IpAddress& ip);
  std::size_t address_count() const { return counts_.size(); }

 private:
  struct Hash {
    std::size_t operator()(const IpAddress& ip) const;
  };
  static IpAddress key_of(const IpAddress& ip);
  bool is_exempt(const IpAddress& ip) const;

  std::size_t max_count_;
  std::vector<Cidr> exempt_;
  std::unordered_map<IpAddress, std::size_t, Hash> counts_;
};

}  // namespace tmesh::http
