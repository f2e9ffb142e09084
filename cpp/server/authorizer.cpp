#include "cpp/server/authorizer.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "cpp/server/policy_match.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

std::unexpected<Error> denied(const char* text) {
  return fail(TMESH_E_POLICY, text);
}

// What the decisions of one call rest on: rows within one transaction, each read once.
class View {
 public:
  View(storage::Db& db, storage::WallClock clock, std::string_view node_id)
      : db_(db), clock_(clock), checker_(db, node_id) {}

  Result<Grant> decide(const StreamRequest& request);

 private:
  struct Rights {
    LiveToken live;
    std::string bound_agent_id;  // the only agent it may use; empty: any of its owner's
  };
  using Rules = Result<PolicyRules>;

  const Result<Rights>& rights(const std::string& token_id);
  Result<Rights> read_rights(const std::string& token_id);
  Result<void> check_agent(const std::string& agent_id, const Rights& rights);
  // Of the agent asked for last.
  const Rules& rules(const std::string& agent_id);
  Rules read_rules(const std::string& agent_id);

  storage::Db& db_;
  storage::WallClock clock_;
  TokenChecker checker_;
  std::map<std::string, Result<Rights>> rights_;  // by token
  std::string rules_agent_id_;
  std::optional<Rules> rules_;
};

Result<Grant> View::decide(const StreamRequest& request) {
  if (request.agent_id.empty() || request.agent_id.size() > agent_id_bytes_max)
    return denied("the agent id is empty or too long");
  Result<Target> target = normalize_target(request.protocol, request.host, request.port);
  if (!target) return std::unexpected(target.error());
  const Result<Rights>& token = rights(request.token_id);
  if (!token) return std::unexpected(token.error());
  if (Result<void> good = check_agent(request.agent_id, *token); !good) return std::unexpected(good.error());
  const LiveToken& live = token->live;
  if (!live.scope.allows(request.agent_id, *target)) return denied("the token's scope does not allow it");
  const Rules& policies = rules(request.agent_id);
  if (!policies) return std::unexpected(policies.error());
  if (!policies->allows(*target)) return denied("no policy of the agent allows it");
  Grant grant;
  grant.token_id = request.token_id;
  grant.owner_user_id = live.owner_user_id;
  grant.agent_id = request.agent_id;
  grant.target = std::move(*target);
  grant.expires_at_us = live.expires_at_us;
  return grant;
}

const Result<View::Rights>& View::rights(const std::string& token_id) {
  const auto found = rights_.find(token_id);
  if (found != rights_.end()) return found->second;
  return rights_.emplace(token_id, read_rights(token_id)).first->second;
}

Result<View::Rights> View::read_rights(const std::string& token_id) {
  Result<std::optional<storage::TokenRecord>> found = storage::TokenRepository(db_).find(token_id);
  if (!found) return std::unexpected(found.error());
  const storage::TokenRecord* token = storage::row_of(*found);
  if (token == nullptr) return denied("the token does not exist");
  if (token->token_type != "client") return denied("the token is not a client token");
  Result<LiveToken> live = checker_.check(*token, clock_());
  if (!live) return std::unexpected(live.error());
  return Rights{std::move(*live), token->agent_id};
}

Result<void> View::check_agent(const std::string& agent_id, const Rights& rights) {
  if (!rights.bound_agent_id.empty() && rights.bound_agent_id != agent_id)
    return denied("the token is bound to another agent");
  const Result<const storage::AgentRecord*> agent = checker_.agent(agent_id);
  if (!agent) return std::unexpected(agent.error());
  if (*agent == nullptr) return denied("the agent does not exist");
  if (!(*agent)->is_enabled) return denied("the agent is disabled");
  if ((*agent)->owner_user_id != rights.live.owner_user_id) return denied("the agent has another owner");
  return {};
}

const View::Rules& View::rules(const std::string& agent_id) {
  if (!rules_ || rules_agent_id_ != agent_id) {
    rules_.reset();
    rules_agent_id_ = agent_id;
    rules_ = read_rules(agent_id);
  }
  return *rules_;
}

// Every row, also behind one that would allow: a malformed one refuses all.
View::Rules View::read_rules(const std::string& agent_id) {
  storage::PolicyRepository policies(db_);
  storage::PageRequest next{"", storage::PageRequest::limit_max};
  PolicyRules read;
  while (true) {
    Result<storage::Page<storage::PolicyRecord>> page = policies.list(next, agent_id);
    if (!page) return std::unexpected(page.error());
    for (const storage::PolicyRecord& policy : page->items) {
      Result<PolicyRule> rule = PolicyRule::read(policy);
      if (!rule) return std::unexpected(rule.error());
      read.add(std::move(*rule));
    }
    if (read.size() > Authorizer::policies_max || read.list_bytes() > Authorizer::policy_lists_bytes_max)
      return fail(TMESH_E_INVALID, "the agent has too many policies");
    if (!page->has_more) return read;
    next.after_id = page->items.back().id;
  }
}

}  // namespace

Result<Grant> Authorizer::authorize(const StreamRequest& request) {
  return std::move(authorize(std::span(&request, 1)).front());
}

std::vector<Result<Grant>> Authorizer::authorize(std::span<const StreamRequest> requests) {
  // One view of all rows the decisions rest on.
  Result<storage::Transaction> begun = storage::Transaction::read(db_);
  if (!begun) return std::vector<Result<Grant>>(requests.size(), std::unexpected(begun.error()));
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t at) -> const std::string& { return requests[at].agent_id; });
  std::vector<Result<Grant>> answers(requests.size(), denied("not decided"));
  View view(db_, clock_, node_id_);
  for (const std::size_t at : order) answers[at] = view.decide(requests[at]);
  return answers;
}

}  // namespace tmesh::server
