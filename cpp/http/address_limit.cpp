#include "cpp/http/address_limit.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/base/check.h"

namespace tmesh::http {

AddressLimit::AddressLimit(std::size_t max_count, std::vector<Cidr> exempt)
    : max_count_(max_count), exempt_(std::move(exempt)) {}

bool AddressLimit::acquire(const IpAddress& ip) {
  if (max_count_ == 0 || is_exempt(ip)) return true;
  auto [it, is_new] = counts_.try_emplace(key_of(ip), 0);
  if (it->second >= max_count_) return false;
  ++it->second;
  return true;
}

void AddressLimit::release(const IpAddress& ip) {
  if (max_count_ == 0 || is_exempt(ip)) return;
  auto it = counts_.find(key_of(ip));
  TMESH_ASSERT(it != counts_.end() && it->second > 0);
  if (--it->second == 0) counts_.erase(it);
}

std::size_t AddressLimit::Hash::operator()(const IpAddress& ip) const {
  return std::hash<std::string_view>{}(
      std::string_view(reinterpret_cast<const char*>(ip.bytes), sizeof ip.bytes));
}

IpAddress AddressLimit::key_of(const IpAddress& ip) {
  IpAddress key = ip;
  if (!key.is_v4()) std::fill(std::begin(key.bytes) + 8, std::end(key.bytes), uint8_t{0});
  return key;
}

bool AddressLimit::is_exempt(const IpAddress& ip) const {
  return std::any_of(exempt_.begin(), exempt_.end(),
                     [&](const Cidr& network) { return network.contains(ip); });
}

}  // namespace tmesh::http
