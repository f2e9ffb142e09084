#include "cpp/server/agent_registry.hpp"

#include <algorithm>

namespace tmesh::server {

namespace {

bool is_better(const RegisteredLink& a, const RegisteredLink& b) {
  if (a.is_suspect() != b.is_suspect()) return b.is_suspect();
  const uint64_t a_load = (a.streams_count() + 1) * uint64_t{b.health_percent()};
  const uint64_t b_load = (b.streams_count() + 1) * uint64_t{a.health_percent()};
  if (a_load != b_load) return a_load < b_load;
  // 0 is not known, which is worse than any time.
  if (a.rtt_us() != b.rtt_us()) return a.rtt_us() - 1 < b.rtt_us() - 1;
  return a.last_heard_us() > b.last_heard_us();
}

}  // namespace

AgentRegistry::Registration AgentRegistry::add(RegisteredLink& link) {
  auto& links = agents_[link.agent_id];
  const auto same = std::find_if(links.begin(), links.end(), [&](const RegisteredLink* l) {
    return l->connection_id == link.connection_id;
  });
  if (same != links.end()) {
    if (link.epoch <= (*same)->epoch) return Registration::stale_epoch;
    RegisteredLink* const old = *same;
    *same = &link;
    by_number_.erase(old->link_number);
    by_number_[link.link_number = ++last_number_] = &link;
    old->on_replaced();
    return Registration::registered;
  }
  if (links.size() >= max_links_per_agent_) {
    if (links.empty()) agents_.erase(link.agent_id);
    return Registration::too_many;
  }
  for (RegisteredLink* other : links) other->probe();
  links.push_back(&link);
  by_number_[link.link_number = ++last_number_] = &link;
  return Registration::registered;
}

void AgentRegistry::remove(RegisteredLink& link) {
  const auto agent = agents_.find(link.agent_id);
  if (agent == agents_.end()) return;
  if (std::erase(agent->second, &link) != 0) by_number_.erase(link.link_number);
  if (agent->second.empty()) agents_.erase(agent);
}

RegisteredLink* AgentRegistry::select(std::string_view agent_id, uint32_t needed) const {
  const auto agent = agents_.find(agent_id);
  if (agent == agents_.end()) return nullptr;
  RegisteredLink* best = nullptr;
  for (RegisteredLink* link : agent->second) {
    if (!link->takes_opens() || (link->capabilities() & needed) != needed) continue;
    if (best == nullptr || is_better(*link, *best)) best = link;
  }
  return best;
}

void AgentRegistry::note_open(uint64_t link_number, uint64_t opened_us, OpenEnd end) {
  const auto found = by_number_.find(link_number);
  if (found == by_number_.end()) return;
  RegisteredLink& link = *found->second;
  // A link that was heard of lives: it was the target that was slow.
  if (end == OpenEnd::silent && link.last_heard_us() > opened_us) return;
  link.note_open(end == OpenEnd::answered);
}

std::size_t AgentRegistry::links_count(std::string_view agent_id) const {
  const auto agent = agents_.find(agent_id);
  return agent == agents_.end() ? 0 : agent->second.size();
}

}  // namespace tmesh::server
