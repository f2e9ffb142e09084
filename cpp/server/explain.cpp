#include "cpp/server/explain.hpp"

#include <utility>

#include "cpp/base/address.hpp"
#include "cpp/server/admin_context.hpp"
#include "cpp/server/authorizer.hpp"
#include "cpp/server/policy_lists.hpp"
#include "cpp/server/policy_match.hpp"
#include "cpp/server/scope.hpp"
#include "cpp/storage/migrator.hpp"
#include "cpp/storage/open.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

constexpr int kDenied = kExitFailure;

class Explanation {
 public:
  explicit Explanation(const AdminContext& context) : context_(context) {}

  // Whether anything is allowed.
  AdminFound<bool> run() {
    const std::string& target = context_.request.arguments.front();
    Result<HostPort> parsed = parse_host_port(target);
    if (!parsed || parsed->host.empty()) return admin_usage(target + ": HOST:PORT is needed");
    request_.host = std::move(parsed->host);
    request_.port = parsed->port;
    request_.protocol = context_.option("protocol").value_or("tcp");
    AdminFound<storage::AgentRecord> agent = context_.agent(context_.option("agent").value_or(""));
    if (!agent) return std::unexpected(agent.error());
    request_.agent_id = agent->id;
    AdminFound<std::vector<storage::TokenRecord>> tokens = find_tokens();
    if (!tokens) return std::unexpected(tokens.error());
    AdminFound<std::vector<AdminRow>> policies = judge_policies();
    if (!policies) return std::unexpected(policies.error());
    bool is_any_allowed = false;
    std::vector<AdminRow> answers;
    for (const storage::TokenRecord& token : *tokens) {
      AdminFound<bool> allowed = decide(token, *agent, answers);
      if (!allowed) return std::unexpected(allowed.error());
      is_any_allowed = is_any_allowed || *allowed;
    }
    print(answers, *policies);
    return is_any_allowed;
  }

 private:
  AdminFound<std::vector<storage::TokenRecord>> find_tokens() {
    const auto id = context_.option("token-id");
    const auto named = context_.option("user");
    if (id.has_value() == named.has_value()) return admin_usage("one of --token-id and --user is needed");
    storage::TokenRepository tokens(context_.db);
    if (id) {
      Result<std::optional<storage::TokenRecord>> found = tokens.find(*id);
      if (!found) return admin_failure(std::string(found.error().text));
      const storage::TokenRecord* row = storage::row_of(*found);
      if (row == nullptr) return admin_failure("there is no such token");
      return std::vector<storage::TokenRecord>{*row};
    }
    AdminFound<storage::UserRecord> user = context_.user(*named);
    if (!user) return std::unexpected(user.error());
    AdminFound<std::vector<storage::TokenRecord>> all = context_.all<storage::TokenRecord>(
        [&](const storage::PageRequest& page) { return tokens.list(page, user->id); });
    if (!all) return std::unexpected(all.error());
    std::erase_if(*all, [](const storage::TokenRecord& token) { return token.token_type != "client"; });
    if (all->empty()) return admin_failure("the user has no client token");
    return all;
  }

  AdminFound<bool> decide(const storage::TokenRecord& token, const storage::AgentRecord& agent,
                          std::vector<AdminRow>& answers) {
    request_.token_id = token.id;
    const Result<Grant> grant =
        Authorizer(context_.db, context_.request.clock, context_.option("node").value_or(""))
            .authorize(request_);
    const bool is_decided =
        grant || grant.error().code == TMESH_E_POLICY || grant.error().code == TMESH_E_INVALID;
    if (!is_decided) return admin_failure(std::string(grant.error().text));
    // What cannot be read is shown as the text it is.
    const bool is_scope_good = parse_scope(token.scope).has_value();
    answers.push_back(
        {{"target", format_host_port(request_.host, request_.port)},
         {"protocol", request_.protocol},
         {"agentId", agent.id},
         {"agentName", agent.name},
         {"tokenId", token.id},
         {"ownerUserId", admin_text(token.owner_user_id)},
         {"scope", is_scope_good ? AdminValue(AdminJson{token.scope}) : AdminValue(token.scope)},
         {"allowed", grant.has_value()},
         {"reason", grant ? std::string(allowed_by_) : std::string(grant.error().text)}});
    return grant.has_value();
  }

  // What each policy says on its own. Of what is not valid as a target, nothing.
  AdminFound<std::vector<AdminRow>> judge_policies() {
    const Result<Target> target = normalize_target(request_.protocol, request_.host, request_.port);
    AdminFound<std::vector<storage::PolicyRecord>> policies =
        context_.all<storage::PolicyRecord>([&](const storage::PageRequest& page) {
          return storage::PolicyRepository(context_.db).list(page, request_.agent_id);
        });
    if (!policies) return std::unexpected(policies.error());
    std::vector<AdminRow> rows;
    for (const storage::PolicyRecord& policy : *policies) {
      const Result<PolicyRule> rule = PolicyRule::read(policy);
      const bool allows = target && rule && rule->allows(*target);
      if (allows && allowed_by_.empty()) allowed_by_ = "allowed by " + policy.id;
      rows.push_back({{"policyId", policy.id},
                      {"protocol", policy.protocol},
                      {"targetHost", policy.target_host},
                      {"targetPort", policy.target_port},
                      {"allowedCIDRs", AdminJson{cidr_list_json(policy.allowed_cidrs)}},
                      {"allowedPorts", AdminJson{port_list_json(policy.allowed_ports)}},
                      {"verdict", rule ? std::string(allows ? "allows" : "does not allow")
                                       : std::string("malformed: ") + rule.error().text}});
    }
    return rows;
  }

  void print(const std::vector<AdminRow>& answers, const std::vector<AdminRow>& policies) const {
    std::FILE* const out = context_.request.out;
    if (context_.request.is_json) {
      // Two arrays of the same form that lists have.
      std::fputs("{\"answers\": ", out);
      print_admin_list(out, true, answers);
      std::fputs(", \"policies\": ", out);
      print_admin_list(out, true, policies);
      std::fputs("}\n", out);
      return;
    }
    for (const AdminRow& answer : answers) {
      print_admin_row(out, false, answer);
      std::fputs("\n", out);
    }
    std::fputs("policies of the agent\n", out);
    print_admin_list(out, false, policies);
    std::fputs("\nNot judged here: the agent's own policy, and where a name leads.\n", out);
  }

  const AdminContext& context_;
  StreamRequest request_;
  std::string allowed_by_;
};

AdminFound<bool> explain(const AdminRequest& request) {
  if (request.arguments.size() != 1) return admin_usage("HOST:PORT is missing");
  storage::Opened<std::unique_ptr<storage::Db>> db =
      storage::open_database(request.database, {.create = false});
  if (!db) return admin_failure(db.error().text);
  if (storage::Opened<storage::SchemaReport> schema = storage::migrate(**db, false); !schema)
    return admin_failure(database_name(request.database) + ": " + schema.error().text);
  return Explanation(AdminContext{request, **db, request.clock()}).run();
}

}  // namespace

int run_explain(const AdminRequest& request) {
  const AdminFound<bool> done = explain(request);
  if (!done) {
    (void)std::fprintf(request.err, "explain: %s\n", done.error().text.c_str());
    return done.error().exit_code;
  }
  if (std::fflush(request.out) != 0) return kExitFailure;
  return *done ? kExitOk : kDenied;
}

}  // namespace tmesh::server
