#include "cpp/server/authorizer.hpp"

#include <algorithm>
#include <iterator>

#include "cpp/server/policy_match.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

std::unexpected<Error> denied(const char* text) {
  return fail(TMESH_E_POLICY, text);
}

// Looks at every row even after one that allows: a malformed one refuses all.
Result<bool> any_allows(const std::vector<storage::PolicyRecord>& policies, const Target& target) {
  bool is_allowed = false;
  for (const storage::PolicyRecord& policy : policies) {
    const Result<bool> allows = policy_allows(policy, target);
    if (!allows) return allows;
    is_allowed = is_allowed || *allows;
  }
  return is_allowed;
}

}  // namespace

Result<Grant> Authorizer::authorize(const StreamRequest& request) {
  return std::move(authorize(std::span(&request, 1)).front());
}

std::vector<Result<Grant>> Authorizer::authorize(std::span<const StreamRequest> requests) {
  std::vector<Result<Grant>> answers;
  answers.reserve(requests.size());
  // One view of all rows the decisions rest on.
  Result<storage::Transaction> begun = storage::Transaction::read(db_);
  View view;
  for (const StreamRequest& request : requests) {
    answers.push_back(begun ? decide(request, view) : std::unexpected(begun.error()));
  }
  return answers;
}

Result<Grant> Authorizer::decide(const StreamRequest& request, View& view) {
  if (request.agent_id.empty() || request.agent_id.size() > agent_id_bytes_max)
    return denied("the agent id is empty or too long");
  Result<Target> target = normalize_target(request.protocol, request.host, request.port);
  if (!target) return std::unexpected(target.error());
  const Rights& live = rights(request, view);
  if (!live) return std::unexpected(live.error());
  if (!live->scope.allows(request.agent_id, *target)) return denied("the token's scope does not allow it");
  const Result<bool> allowed = any_policy_allows(request.agent_id, *target, view);
  if (!allowed) return std::unexpected(allowed.error());
  if (!*allowed) return denied("no policy of the agent allows it");
  return Grant{request.token_id, live->owner_user_id, request.agent_id, std::move(*target),
               live->expires_at_us};
}

const Authorizer::Rights& Authorizer::rights(const StreamRequest& request, View& view) {
  std::pair key(request.token_id, request.agent_id);
  const auto found = view.rights.find(key);
  if (found != view.rights.end()) return found->second;
  return view.rights.emplace(std::move(key), read_rights(request)).first->second;
}

Authorizer::Rights Authorizer::read_rights(const StreamRequest& request) {
  Result<std::optional<storage::TokenRecord>> found = storage::TokenRepository(db_).find(request.token_id);
  if (!found) return std::unexpected(found.error());
  const storage::TokenRecord* token = storage::row_of(*found);
  if (token == nullptr) return denied("the token does not exist");
  if (token->token_type != "client") return denied("the token is not a client token");
  Result<LiveToken> live = check_token(db_, *token, clock_());
  if (!live) return live;
  if (!token->agent_id.empty() && token->agent_id != request.agent_id)
    return denied("the token is bound to another agent");

  Result<std::optional<storage::AgentRecord>> bound = storage::AgentRepository(db_).find(request.agent_id);
  if (!bound) return std::unexpected(bound.error());
  const storage::AgentRecord* agent = storage::row_of(*bound);
  if (agent == nullptr) return denied("the agent does not exist");
  if (!agent->is_enabled) return denied("the agent is disabled");
  if (agent->owner_user_id != live->owner_user_id) return denied("the agent has another owner");
  return live;
}

Result<bool> Authorizer::any_policy_allows(const std::string& agent_id, const Target& target, View& view) {
  if (const auto kept = view.policies.find(agent_id); kept != view.policies.end())
    return any_allows(kept->second, target);
  constexpr int page_rows = 100;
  storage::PolicyRepository policies(db_);
  storage::PageRequest next{"", page_rows};
  Policies read;
  bool is_allowed = false;
  for (int rows = 0; rows < policies_max; rows += page_rows) {
    Result<storage::Page<storage::PolicyRecord>> page = policies.list(next, agent_id);
    if (!page) return std::unexpected(page.error());
    const Result<bool> allows = any_allows(page->items, target);
    if (!allows) return allows;
    is_allowed = is_allowed || *allows;
    if (page->has_more) next.after_id = page->items.back().id;
    std::ranges::move(page->items, std::back_inserter(read));
    if (page->has_more) continue;
    if (view.policies_count + read.size() <= policies_kept_max) {
      view.policies_count += read.size();
      view.policies.emplace(agent_id, std::move(read));
    }
    return is_allowed;
  }
  return fail(TMESH_E_INVALID, "the agent has too many policies");
}

}  // namespace tmesh::server
