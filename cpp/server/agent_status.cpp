#include "cpp/server/agent_status.hpp"

#include <algorithm>

#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

Result<std::vector<const char*>> agent_statuses(storage::Db& db, std::span<const storage::AgentRecord> agents,
                                                int64_t now_us) {
  const std::string now = storage::format_timestamp(now_us);
  std::vector<const char*> statuses;
  statuses.reserve(agents.size());
  while (!agents.empty()) {
    const auto part = agents.first(std::min(agents.size(), storage::LeaseRepository::ids_max));
    agents = agents.subspan(part.size());
    std::vector<std::string> ids;
    for (const storage::AgentRecord& agent : part) ids.push_back(agent.id);
    const Result<std::vector<std::string>> online = storage::LeaseRepository(db).online(ids, now);
    if (!online) return std::unexpected(online.error());
    for (const std::string& id : ids)
      statuses.push_back(std::ranges::binary_search(*online, id) ? "online" : "offline");
  }
  return statuses;
}

}  // namespace tmesh::server
