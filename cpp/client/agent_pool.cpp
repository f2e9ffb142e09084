#include "cpp/client/agent_pool.hpp"

#include <algorithm>
#include <utility>

#include "cpp/base/log.hpp"
#include "cpp/client/status.hpp"

namespace tmesh::client {

AgentPool::AgentPool(const PoolParts& parts, std::string agent_id, Changed changed)
    : parts_(parts), agent_id_(std::move(agent_id)), changed_(changed) {}

void AgentPool::start() {
  is_started_ = true;
  fit();
}

void AgentPool::drain() {
  is_stopping_ = true;
  for (const auto& link : links_) link->drain();
}

void AgentPool::fit() {
  if (!is_started_ || is_stopping_) return;
  while (links_.size() - draining_count() < parts_.settings.min_count) add();
  while (links_.size() - draining_count() > parts_.settings.max_count) shrink();
}

std::size_t AgentPool::draining_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const auto& link) { return link->is_draining(); }));
}

// One that drains is back at once and costs nothing.
void AgentPool::add() {
  const auto drains = std::ranges::find_if(links_, [](const auto& link) { return link->is_draining(); });
  if (drains != links_.end()) return (*drains)->resume();
  uint32_t number = 1;
  auto place = links_.begin();
  for (; place != links_.end() && (*place)->number() == number; ++place) number++;
  auto link = std::make_unique<ServerLink>(parts_.loop, parts_.dialer, parts_.identity, agent_id_, number,
                                           Delegate<void()>::bind<&AgentPool::on_link_change>(this));
  (*links_.insert(place, std::move(link)))->start();
}

// The highest; before it, one that is away, because what takes streams may be all there is.
void AgentPool::shrink() {
  const auto is_away = [](const auto& link) { return !link->is_draining() && link->ready() == nullptr; };
  auto found = std::find_if(links_.rbegin(), links_.rend(), is_away);
  if (found == links_.rend())
    found =
        std::find_if(links_.rbegin(), links_.rend(), [](const auto& link) { return !link->is_draining(); });
  (*found)->drain();
}

void AgentPool::on_link_change() {
  // A hedge and the choice among equals need a round-trip time, and the first heartbeat is far off.
  if (parts_.settings.max_count > 1) {
    for (const auto& link : links_) {
      session::Session* const session = link->ready();
      if (session != nullptr && session->rtt_us() == 0) session->ping();
    }
  }
  changed_(*this);
}

PoolView AgentPool::view() {
  PoolView view;
  for (const auto& link : links_) {
    if (link->is_draining()) continue;
    view.links_count++;
    session::Session* const session = link->ready();
    if (session == nullptr) continue;
    const std::size_t streams = session->live_streams_count();
    view.fewest_streams = view.ready_count == 0 ? streams : std::min(view.fewest_streams, streams);
    view.most_streams = std::max(view.most_streams, streams);
    view.ready_count++;
  }
  return view;
}

PoolChange AgentPool::evaluate() {
  if (!is_started_ || is_stopping_) return PoolChange::none;
  const uint64_t now_us = parts_.timers.now_us();
  if (links_.size() > 1 && now_us - sampled_us_ >= kSampleEvery_us) {
    sampled_us_ = now_us;
    for (const auto& link : links_) {
      if (session::Session* const session = link->ready()) session->ping();
    }
  }
  const PoolDecision decision = decide(parts_.settings, view(), memory_, now_us);
  memory_ = decision.memory;
  if (decision.change == PoolChange::none) return decision.change;
  if (decision.change == PoolChange::grow) {
    add();
  } else {
    shrink();
  }
  log::info(decision.change == PoolChange::grow ? "pool_grow" : "pool_shrink",
            {{"agent", agent_id_}, {"links", links_.size() - draining_count()}});
  return decision.change;
}

bool AgentPool::sweep() {
  std::erase_if(links_, [](const auto& link) { return link->is_draining() && !link->has_streams(); });
  return draining_count() > 0;
}

bool AgentPool::has_streams() {
  return std::ranges::any_of(links_, [](const auto& link) { return link->has_streams(); });
}

ServerLink* AgentPool::best(const tmesh_mux* not_on, const std::vector<const ServerLink*>* except) {
  ServerLink* found = nullptr;
  LinkLoad found_load;
  for (const auto& link : links_) {
    session::Session* const session = link->ready();
    if (session == nullptr || link->is_draining()) continue;
    if (except != nullptr && std::ranges::find(*except, link.get()) != except->end()) continue;
    const LinkLoad load{session->live_streams_count(), session->smoothed_rtt_us(), link->is_silent()};
    if (not_on != nullptr &&
        (session->mux() == not_on || !session->mux()->config.has_open_result || load.is_silent)) {
      continue;
    }
    if (found != nullptr && !is_better(load, found_load)) continue;
    found = link.get();
    found_load = load;
  }
  return found;
}

Result<OpenedStream> AgentPool::open(const OpenRequest& request, bool allow_strict, const tmesh_mux* not_on) {
  ServerLink* link = best(not_on, nullptr);
  if (link == nullptr) return fail(TMESH_E_CLOSED, "the agent has no ready link");
  auto opened = link->open(request, allow_strict);
  // Full, or about to be over: what one link cannot take another one may.
  std::vector<const ServerLink*> tried;
  while (!opened && (opened.error().code == TMESH_E_LIMIT || opened.error().code == TMESH_E_CLOSED)) {
    tried.push_back(link);
    link = best(not_on, &tried);
    if (link == nullptr) break;
    opened = link->open(request, allow_strict);
  }
  return opened;
}

bool AgentPool::is_link_coming() {
  return !has_ready() && std::ranges::any_of(links_, [](const auto& link) { return link->is_link_coming(); });
}

void AgentPool::open_timed_out(const tmesh_stream& stream) {
  for (const auto& link : links_) link->open_timed_out(stream);
}

AgentPool::Carrier AgentPool::carrier_of(const tmesh_mux* mux) {
  for (const auto& link : links_) {
    if (session::Session* const session = link->session_of(mux)) return {link.get(), session};
  }
  return {};
}

void AgentPool::report(session::StatusReport& out) const {
  for (const auto& link : links_) out.add(report_of(*link));
}

}  // namespace tmesh::client
