#include "cpp/server/agent_registry.hpp"

#include <algorithm>

namespace tmesh::server {

namespace {

bool is_better(const RegisteredLink& a, const RegisteredLink& b) {
  if (a.is_suspect() != b.is_suspect()) return b.is_suspect();
  if (a.streams_count() != b.streams_count()) return a.streams_count() < b.streams_count();
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
    old->on_replaced();
    return Registration::registered;
  }
  if (links.size() >= max_links_per_agent_) {
    if (links.empty()) agents_.erase(link.agent_id);
    return Registration::too_many;
  }
  for (RegisteredLink* other : links) other->probe();
  links.push_back(&link);
  return Registration::registered;
}

void AgentRegistry::remove(RegisteredLink& link) {
  const auto agent = agents_.find(link.agent_id);
  if (agent == agents_.end()) return;
  std::erase(agent->second, &link);
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

std::size_t AgentRegistry::links_count(std::string_view agent_id) const {
  const auto agent = agents_.find(agent_id);
  return agent == agents_.end() ? 0 : agent->second.size();
}

}  // namespace tmesh::server
