#include "cpp/server/authorizer.hpp"

#include "cpp/server/policy_match.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

std::unexpected<Error> denied(const char* text) {
  return fail(TMESH_E_POLICY, text);
}

}  // namespace

Result<Grant> Authorizer::authorize(const StreamRequest& request) {
  if (request.agent_id.empty() || request.agent_id.size() > agent_id_bytes_max)
    return denied("the agent id is empty or too long");
  Result<Target> target = normalize_target(request.protocol, request.host, request.port);
  if (!target) return std::unexpected(target.error());
  // One view of all rows the decision rests on.
  Result<storage::Transaction> view = storage::Transaction::read(db_);
  if (!view) return std::unexpected(view.error());
  return decide(request, std::move(*target));
}

Result<Grant> Authorizer::decide(const StreamRequest& request, Target target) {
  Result<std::optional<storage::TokenRecord>> found = storage::TokenRepository(db_).find(request.token_id);
  if (!found) return std::unexpected(found.error());
  const storage::TokenRecord* token = storage::row_of(*found);
  if (token == nullptr) return denied("the token does not exist");
  if (token->token_type != "client") return denied("the token is not a client token");
  Result<LiveToken> live = check_token(db_, *token, clock_());
  if (!live) return std::unexpected(live.error());
  if (!token->agent_id.empty() && token->agent_id != request.agent_id)
    return denied("the token is bound to another agent");

  Result<std::optional<storage::AgentRecord>> bound = storage::AgentRepository(db_).find(request.agent_id);
  if (!bound) return std::unexpected(bound.error());
  const storage::AgentRecord* agent = storage::row_of(*bound);
  if (agent == nullptr) return denied("the agent does not exist");
  if (!agent->is_enabled) return denied("the agent is disabled");
  if (agent->owner_user_id != live->owner_user_id) return denied("the agent has another owner");
  if (!live->scope.allows(request.agent_id, target)) return denied("the token's scope does not allow it");

  const Result<bool> allowed = any_policy_allows(request.agent_id, target);
  if (!allowed) return std::unexpected(allowed.error());
  if (!*allowed) return denied("no policy of the agent allows it");
  return Grant{request.token_id, live->owner_user_id, request.agent_id, std::move(target),
               live->expires_at_us};
}

// Reads every row even after one that allows: a malformed one refuses all.
Result<bool> Authorizer::any_policy_allows(const std::string& agent_id, const Target& target) {
  constexpr int page_rows = 100;
  storage::PolicyRepository policies(db_);
  storage::PageRequest next{"", page_rows};
  bool is_allowed = false;
  for (int rows = 0; rows < policies_max; rows += page_rows) {
    Result<storage::Page<storage::PolicyRecord>> page = policies.list(next, agent_id);
    if (!page) return std::unexpected(page.error());
    for (const storage::PolicyRecord& policy : page->items) {
      const Result<bool> allows = policy_allows(policy, target);
      if (!allows) return allows;
      is_allowed = is_allowed || *allows;
    }
    if (!page->has_more) return is_allowed;
    next.after_id = page->items.back().id;
  }
  return fail(TMESH_E_INVALID, "the agent has too many policies");
}

}  // namespace tmesh::server
