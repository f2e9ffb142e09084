#include "cpp/server/agent_service.hpp"

#include <utility>

#include "cpp/base/json.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/utf8.hpp"
#include "cpp/server/ids.hpp"
#include "cpp/server/owner.hpp"
#include "cpp/storage/agent_repository.hpp"

namespace tmesh::server {
namespace {

using storage::AgentRepository;

// UTF-8 that a terminal can be shown as it is, without space at an end.
bool is_plain_text(std::string_view text, size_t bytes_max) {
  if (text.empty() || text.size() > bytes_max || trim(text).size() != text.size()) return false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_next(text, at);
    if (c.size_bytes == 0 || c.code_point < 0x20 || (c.code_point >= 0x7f && c.code_point < 0xa0))
      return false;
    at += c.size_bytes;
  }
  return true;
}

Result<std::string> stored_capabilities(const std::vector<std::string>& capabilities) {
  bool is_good = capabilities.size() <= AgentService::capabilities_max;
  std::string text;
  json::Writer out(text);
  out.begin_array();
  for (const std::string& capability : capabilities) {
    is_good = is_good && is_plain_text(capability, AgentService::capability_bytes_max);
    if (is_good) out.string(capability);
  }
  out.end_array();
  if (!is_good)
    return fail(TMESH_E_INVALID, "capabilities are at most 64 texts of 1 to 64 printable bytes each");
  return text;
}

}  // namespace

Result<void> check_agent_name(std::string_view name) {
  constexpr size_t name_bytes_max = 255;  // the column's width
  if (!is_plain_text(name, name_bytes_max))
    return fail(TMESH_E_INVALID, "an agent name has 1 to 255 printable bytes, and no space at an end");
  return {};
}

std::string capabilities_json(const storage::AgentRecord& agent) {
  const Result<json::Document> document = json::parse(agent.capabilities);
  return document && document->root().is_array() ? agent.capabilities : "[]";
}

Result<std::optional<storage::AgentRecord>> AgentService::find(std::string_view id) const {
  return AgentRepository(scope_.tx()).find(id);
}

Result<void> AgentService::check_new_owner(std::string_view user_id) const {
  if (Result<void> good = check_live_owner(scope_, user_id); !good) return good;
  const Result<int64_t> agents = AgentRepository(scope_.tx()).count_of_owner(user_id);
  if (!agents) return std::unexpected(agents.error());
  if (*agents >= agents_per_owner_max) return fail(TMESH_E_STATE, "the owner has 1000 agents already");
  return {};
}

Result<storage::AgentRecord> AgentService::create(std::string_view name, const storage::UserRecord& owner,
                                                  const AgentOptions& options) {
  if (Result<void> good = check_agent_name(name); !good) return std::unexpected(good.error());
  Result<std::string> capabilities = stored_capabilities(options.capabilities);
  if (!capabilities) return std::unexpected(capabilities.error());
  if (Result<void> good = check_new_owner(owner.id); !good) return std::unexpected(good.error());
  storage::AgentRecord agent;
  agent.id = new_agent_id();
  agent.name = name;
  agent.owner_user_id = owner.id;
  agent.capabilities = std::move(*capabilities);
  agent.is_enabled = options.is_enabled;
  agent.created_at = scope_.now();
  agent.updated_at = scope_.now();
  if (Result<void> done = AgentRepository::create(scope_.tx(), agent); !done)
    return std::unexpected(done.error());
  if (Result<void> done = scope_.audit("agent.create", "agent", agent.id); !done)
    return std::unexpected(done.error());
  return agent;
}

Result<void> AgentService::rename(storage::AgentRecord& agent, std::string_view name) {
  if (Result<void> good = check_agent_name(name); !good) return good;
  if (agent.name == name) return {};
  if (Result<void> done = AgentRepository::rename(scope_.tx(), agent.id, name, scope_.now()); !done)
    return done;
  agent.name = name;
  agent.updated_at = scope_.now();
  return scope_.audit("agent.rename", "agent", agent.id);
}

Result<void> AgentService::set_capabilities(storage::AgentRecord& agent,
                                            const std::vector<std::string>& capabilities) {
  Result<std::string> text = stored_capabilities(capabilities);
  if (!text) return std::unexpected(text.error());
  if (agent.capabilities == *text) return {};
  if (Result<void> done = AgentRepository::set_capabilities(scope_.tx(), agent.id, *text, scope_.now());
      !done)
    return done;
  agent.capabilities = std::move(*text);
  agent.updated_at = scope_.now();
  return scope_.audit("agent.describe", "agent", agent.id);
}

Result<void> AgentService::set_enabled(storage::AgentRecord& agent, bool is_enabled) {
  if (agent.is_enabled == is_enabled) return {};
  if (Result<void> done = AgentRepository::set_enabled(scope_.tx(), agent.id, is_enabled, scope_.now());
      !done)
    return done;
  agent.is_enabled = is_enabled;
  agent.updated_at = scope_.now();
  return scope_.audit(is_enabled ? "agent.enable" : "agent.disable", "agent", agent.id);
}

Result<void> AgentService::set_owner(storage::AgentRecord& agent, std::string_view owner_user_id) {
  if (agent.owner_user_id == owner_user_id) return {};
  if (Result<void> good = check_new_owner(owner_user_id); !good) return good;
  if (Result<void> done = AgentRepository::set_owner(scope_.tx(), agent.id, owner_user_id, scope_.now());
      !done)
    return done;
  agent.owner_user_id = owner_user_id;
  agent.updated_at = scope_.now();
  return scope_.audit("agent.change_owner", "agent", agent.id);
}

Result<void> AgentService::remove(const storage::AgentRecord& agent) {
  if (Result<void> done = AgentRepository::remove(scope_.tx(), agent.id, scope_.now()); !done) return done;
  return scope_.audit("agent.delete", "agent", agent.id);
}

}  // namespace tmesh::server
