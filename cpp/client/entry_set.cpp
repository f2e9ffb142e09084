#include "cpp/client/entry_set.hpp"

#include <algorithm>
#include <utility>

#include "cpp/base/log.hpp"

namespace tmesh::client {
namespace {

using Protocol = config::Tunnel::Protocol;

bool is_same(const config::Credentials& a, const config::Credentials& b) {
  return a.username == b.username && a.password.equals(b.password.reveal());
}

// Whether an entry made with either would do the same for the tunnel.
bool is_same(const EntryDeps& a, const EntryDeps& b, const config::Tunnel& tunnel) {
  if (a.handshake_timeout_us != b.handshake_timeout_us || a.open_timeout_us != b.open_timeout_us ||
      a.link_wait_us != b.link_wait_us || a.validator != b.validator) {
    return false;
  }
  if (tunnel.protocol == Protocol::udp && a.udp_idle_timeout_us != b.udp_idle_timeout_us) return false;
  if (tunnel.auth == config::Tunnel::Auth::password && !is_same(a.socks5, b.socks5)) return false;
  return tunnel.auth != config::Tunnel::Auth::basic || is_same(a.http_proxy, b.http_proxy);
}

bool is_udp(const config::Tunnel& tunnel) {
  return tunnel.protocol == Protocol::udp;
}

// Whether the tunnel may listen only once the other one does not any more.
bool is_in_the_way(const Served& other, const config::Tunnel& tunnel) {
  if (!tunnel.socket_path.empty()) return other.tunnel->socket_path == tunnel.socket_path;
  return other.tunnel->socket_path.empty() && tunnel.listen.port != 0 && other.port == tunnel.listen.port &&
         is_udp(*other.tunnel) == is_udp(tunnel);
}

bool is_same_place(const Served& old, const config::Tunnel& tunnel) {
  if (is_udp(*old.tunnel) != is_udp(tunnel)) return false;
  const bool keeps_port = tunnel.socket_path.empty() && tunnel.listen.port == 0;
  if (keeps_port) return old.tunnel->socket_path.empty() && old.tunnel->listen == tunnel.listen;
  return is_in_the_way(old, tunnel) && old.tunnel->listen.host == tunnel.listen.host;
}

Served served(const EntrySet::Running& running) {
  return {&running.tunnel, &running.deps, running.entry->port()};
}

std::string place_of(const config::Tunnel& tunnel) {
  return tunnel.socket_path.empty() ? format_host_port(tunnel.listen.host, tunnel.listen.port)
                                    : "unix:" + tunnel.socket_path;
}

}  // namespace

TunnelPlan plan_tunnels(const std::vector<Served>& running, const std::vector<config::Tunnel>& wanted,
                        const EntryDeps& deps) {
  TunnelPlan plan;
  std::vector<bool> is_wanted(running.size(), false);
  for (const config::Tunnel& tunnel : wanted) {
    const auto old = std::find_if(running.begin(), running.end(),
                                  [&](const Served& other) { return other.tunnel->name == tunnel.name; });
    if (old == running.end()) {
      plan.wanted.push_back({TunnelPlan::Step::add, 0});
      continue;
    }
    const auto index = static_cast<std::size_t>(old - running.begin());
    is_wanted[index] = true;
    auto step = TunnelPlan::Step::move;
    if (*old->tunnel == tunnel && is_same(*old->deps, deps, tunnel)) {
      step = TunnelPlan::Step::keep;
    } else if (is_same_place(*old, tunnel)) {
      step = TunnelPlan::Step::replace;
    }
    plan.wanted.push_back({step, index});
  }
  for (std::size_t i = 0; i < running.size(); i++) {
    if (!is_wanted[i]) plan.obsolete.push_back(i);
  }
  return plan;
}

EntrySet::EntrySet(Timers& timers, Entry::Broken broken, Delegate<void()> left, Make make)
    : timers_(timers), broken_(broken), left_(left), make_(make) {}

std::vector<EntrySet::Failure> EntrySet::apply(const std::vector<config::Tunnel>& wanted,
                                               const EntryDeps& deps) {
  std::vector<Served> before;
  before.reserve(running_.size());
  for (const auto& running : running_) before.push_back(served(*running));
  const TunnelPlan plan = plan_tunnels(before, wanted, deps);
  std::vector<Failure> failures;
  std::vector<std::unique_ptr<Running>> places(wanted.size());
  for (const std::size_t index : plan.obsolete) leave(std::move(running_[index]));
  // Twice: what could not listen the first time may have waited for another one to move.
  std::vector<std::size_t> again;
  for (std::size_t n = 0; n < wanted.size(); n++) {
    const TunnelPlan::Item& item = plan.wanted[n];
    if (item.step == TunnelPlan::Step::keep) {
      places[n] = std::move(running_[item.running]);
    } else if (item.step == TunnelPlan::Step::replace) {
      places[n] = replaced(std::move(running_[item.running]), wanted[n], deps, failures);
    } else if (auto fresh = started(wanted[n], deps, nullptr)) {
      if (item.step == TunnelPlan::Step::move) leave(std::move(running_[item.running]));
      places[n] = std::move(fresh);
    } else {
      again.push_back(n);
    }
  }
  const auto is_in_somebodys_way = [&](std::size_t index) {
    return std::any_of(again.begin(), again.end(),
                       [&](std::size_t n) { return is_in_the_way(before[index], wanted[n]); });
  };
  std::vector<std::pair<std::size_t, Running>> moved;  // to come back if the move fails
  for (const std::size_t n : again) {
    const TunnelPlan::Item& item = plan.wanted[n];
    if (item.step != TunnelPlan::Step::move || !is_in_somebodys_way(item.running)) continue;
    std::unique_ptr<Running>& old = running_[item.running];
    config::Tunnel back = old->tunnel;
    back.listen.port = old->entry->port();
    moved.emplace_back(n, Running{std::move(back), old->deps, nullptr});
    leave(std::move(old));
  }
  for (const std::size_t n : again) places[n] = started(wanted[n], deps, &failures);
  for (const std::size_t n : again) {
    const TunnelPlan::Item& item = plan.wanted[n];
    if (item.step != TunnelPlan::Step::move) continue;
    const auto left =
        std::find_if(moved.begin(), moved.end(), [&](const auto& one) { return one.first == n; });
    if (left == moved.end()) {
      if (places[n]) {
        leave(std::move(running_[item.running]));
      } else {
        places[n] = std::move(running_[item.running]);
      }
    } else if (!places[n]) {
      places[n] = restored(left->second.tunnel, left->second.deps);
    }
  }
  std::erase(places, nullptr);
  running_ = std::move(places);
  if (!sweep_.active()) sweep();
  return failures;
}

std::unique_ptr<EntrySet::Running> EntrySet::started(const config::Tunnel& tunnel, const EntryDeps& deps,
                                                     std::vector<Failure>* failures) {
  std::unique_ptr<Running> running(new Running{tunnel, deps, make_(deps, tunnel, broken_)});
  const Result<void> listening = running->entry->listen();
  if (!listening) {
    if (failures != nullptr) failures->push_back({tunnel.name, place_of(tunnel), listening.error().text});
    return nullptr;
  }
  log::info("entry_open", {{"entry", tunnel.name},
                           {"protocol", config::protocol_name(tunnel.protocol)},
                           {"port", running->entry->port()}});
  return running;
}

// What it could not become was reported already.
std::unique_ptr<EntrySet::Running> EntrySet::restored(const config::Tunnel& tunnel, const EntryDeps& deps) {
  std::unique_ptr<Running> back = started(tunnel, deps, nullptr);
  if (back == nullptr) log::error("entry_lost", {{"entry", tunnel.name}});
  return back;
}

std::unique_ptr<EntrySet::Running> EntrySet::replaced(std::unique_ptr<Running> old,
                                                      const config::Tunnel& tunnel, const EntryDeps& deps,
                                                      std::vector<Failure>& failures) {
  config::Tunnel at_same_port = tunnel;
  if (tunnel.socket_path.empty()) at_same_port.listen.port = old->entry->port();
  config::Tunnel back = old->tunnel;
  back.listen.port = at_same_port.listen.port;
  const EntryDeps old_deps = old->deps;
  leave(std::move(old));
  std::unique_ptr<Running> fresh = started(at_same_port, deps, &failures);
  if (fresh == nullptr) return restored(back, old_deps);
  fresh->tunnel.listen.port = tunnel.listen.port;  // as it is written, for the next comparison
  return fresh;
}

void EntrySet::leave(std::unique_ptr<Running> running) {
  log::info("entry_closed", {{"entry", running->tunnel.name}, {"locals", running->entry->locals_count()}});
  running->entry->stop_listening();
  // The replies of an association leave through the socket that its successor needs; and it has
  // no connection that could be lost.
  if (is_udp(running->tunnel)) return;
  leaving_.push_back({running->tunnel.agent_id, std::move(running->entry)});
}

void EntrySet::sweep() {
  sweep_.release();
  const std::size_t before = leaving_.size();
  // What became idle in the meantime (a kept-alive connection) is closed by this, too.
  for (Leaving& leaving : leaving_) leaving.entry->stop_listening();
  std::erase_if(leaving_, [](const Leaving& leaving) { return leaving.entry->locals_count() == 0; });
  if (!leaving_.empty()) sweep_ = timers_.after(kSweep_us, Delegate<void()>::bind<&EntrySet::sweep>(this));
  if (leaving_.size() < before) left_();
}

void EntrySet::stop_listening() {
  for (const auto& running : running_) running->entry->stop_listening();
}

std::size_t EntrySet::locals_count() const {
  std::size_t count = 0;
  for (const auto& running : running_) count += running->entry->locals_count();
  for (const Leaving& leaving : leaving_) count += leaving.entry->locals_count();
  return count;
}

std::set<std::string> EntrySet::agents() const {
  std::set<std::string> ids;
  for (const auto& running : running_) ids.insert(running->tunnel.agent_id);
  for (const Leaving& leaving : leaving_) ids.insert(leaving.agent_id);
  return ids;
}

}  // namespace tmesh::client
