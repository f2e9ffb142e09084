#include "cpp/server/admin_api/login_throttle.hpp"

#include <algorithm>

namespace tmesh::server {
namespace {

// No user has a longer name; what is behind it does not make another one.
constexpr std::size_t name_bytes_max = 64;
// What begin() says while only attempts under way are too many.
constexpr uint64_t soon_us = 1'000'000;
constexpr std::size_t ipv6_customer_bytes = 8;  // a /64

void end_attempt(uint64_t& running_count) {
  if (running_count > 0) --running_count;  // 0: the entry was forgotten meanwhile
}

}  // namespace

LoginThrottle::LoginThrottle(Settings settings, std::size_t entries_max)
    : settings_(settings), names_(entries_max), addresses_(entries_max) {}

LoginThrottle::Entry& LoginThrottle::Table::touch(const std::string& key) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    entries_.splice(entries_.end(), entries_, found->second);
    return entries_.back();
  }
  if (entries_.size() >= entries_max_) {
    by_key_.erase(entries_.front().key);
    entries_.pop_front();
  }
  entries_.push_back({.key = key, .failed_at_us = {}});
  by_key_.emplace(key, std::prev(entries_.end()));
  return entries_.back();
}

// A name that was only withdrawn must not push one out that is blocked.
void LoginThrottle::Table::withdraw(const std::string& key, uint64_t now_us) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  Entry& entry = *found->second;
  end_attempt(entry.running_count);
  if (entry.running_count > 0 || !entry.failed_at_us.empty() || entry.blocked_until_us > now_us) return;
  entries_.erase(found->second);
  by_key_.erase(found);
}

std::string LoginThrottle::name_key(std::string_view name) {
  return std::string(name.substr(0, name_bytes_max));
}

std::string LoginThrottle::address_key(const IpAddress& address) {
  const std::size_t used = address.is_v4() ? 4 : ipv6_customer_bytes;
  std::string key(1, static_cast<char>(address.family));
  key.append(reinterpret_cast<const char*>(address.bytes), used);
  return key;
}

void LoginThrottle::forget_old(Entry& entry, uint64_t now_us) const {
  std::erase_if(entry.failed_at_us, [&](uint64_t at_us) { return now_us - at_us >= settings_.window_us; });
}

uint64_t LoginThrottle::wait_us(Entry& entry, uint64_t now_us) const {
  if (entry.blocked_until_us > now_us) return entry.blocked_until_us - now_us;
  forget_old(entry, now_us);
  return entry.failed_at_us.size() + entry.running_count < settings_.failures_max ? 0 : soon_us;
}

void LoginThrottle::note_failure(Entry& entry, uint64_t now_us) const {
  end_attempt(entry.running_count);
  forget_old(entry, now_us);
  entry.failed_at_us.push_back(now_us);
  if (entry.failed_at_us.size() < settings_.failures_max) return;
  entry.failed_at_us.clear();
  entry.blocked_until_us = now_us + settings_.block_us;
}

uint64_t LoginThrottle::begin(std::string_view name, const IpAddress& address, uint64_t now_us) {
  Entry& by_address = addresses_.touch(address_key(address));
  // An address that may not try does not get to fill the table of names.
  if (const uint64_t wait = wait_us(by_address, now_us); wait > 0) return wait;
  Entry& by_name = names_.touch(name_key(name));
  if (const uint64_t wait = wait_us(by_name, now_us); wait > 0) return wait;
  ++by_address.running_count;
  ++by_name.running_count;
  return 0;
}

void LoginThrottle::failed(std::string_view name, const IpAddress& address, uint64_t now_us) {
  note_failure(names_.touch(name_key(name)), now_us);
  note_failure(addresses_.touch(address_key(address)), now_us);
}

void LoginThrottle::succeeded(std::string_view name, const IpAddress& address, uint64_t) {
  Entry& by_name = names_.touch(name_key(name));
  end_attempt(by_name.running_count);
  by_name.failed_at_us.clear();
  end_attempt(addresses_.touch(address_key(address)).running_count);
}

void LoginThrottle::withdrawn(std::string_view name, const IpAddress& address, uint64_t now_us) {
  names_.withdraw(name_key(name), now_us);
  addresses_.withdraw(address_key(address), now_us);
}

}  // namespace tmesh::server
