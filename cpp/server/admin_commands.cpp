#include "cpp/server/admin_commands.hpp"

#include <algorithm>

#include "cpp/base/nearest.hpp"
#include "cpp/server/admin_context.hpp"
#include "cpp/storage/migrator.hpp"
#include "cpp/storage/open.hpp"

namespace tmesh::server {
namespace {

std::string proposal(std::string_view name, std::span<const std::string_view> candidates,
                     std::string_view prefix) {
  const std::string_view best = nearest(name, candidates);
  return best.empty() ? std::string() : "; did you mean " + std::string(prefix) + std::string(best) + "?";
}

AdminFound<const AdminVerb*> find_verb(const AdminRequest& request) {
  std::vector<std::string_view> known;
  for (const AdminVerb& verb : admin_verbs()) {
    if (request.resource != verb.resource) continue;
    if (request.verb == verb.verb) return &verb;
    known.emplace_back(verb.verb);
  }
  if (known.empty()) return admin_usage("unknown command");
  return admin_usage("unknown command" + proposal(request.verb, known, request.resource + " "));
}

AdminResult check_option(const AdminVerb& verb, const AdminRequest& request, const AdminOption& option) {
  const auto found = std::ranges::find(verb.flags, option.name,
                                       [](const AdminFlag& flag) { return std::string_view(flag.name); });
  if (found == verb.flags.end()) {
    std::vector<std::string_view> known;
    for (const AdminFlag& flag : verb.flags) known.emplace_back(flag.name);
    return admin_usage("unknown flag --" + option.name + proposal(option.name, known, "--"));
  }
  const auto count = std::ranges::count(request.options, option.name, &AdminOption::name);
  if (count > 1 && !found->is_repeatable) return admin_usage("--" + option.name + " is given more than once");
  if (found->value_name != nullptr && option.value.empty())
    return admin_usage("--" + option.name + " needs a value");
  return {};
}

AdminResult check_usage(const AdminRequest& request) {
  AdminFound<const AdminVerb*> verb = find_verb(request);
  if (!verb) return std::unexpected(verb.error());
  for (const AdminOption& option : request.options) {
    if (AdminResult good = check_option(**verb, request, option); !good) return good;
  }
  for (const AdminFlag& flag : (*verb)->flags) {
    if (flag.is_required &&
        std::ranges::find(request.options, flag.name, &AdminOption::name) == request.options.end()) {
      const std::string value = flag.value_name == nullptr ? "" : std::string(" ") + flag.value_name;
      return admin_usage(std::string("--") + flag.name + value + " is missing");
    }
  }
  const size_t wanted = (*verb)->argument != nullptr ? 1 : 0;
  if (request.arguments.size() < wanted) return admin_usage(std::string((*verb)->argument) + " is missing");
  if (request.arguments.size() > wanted) return admin_usage("unexpected argument");
  if (wanted == 1 && request.arguments.front().empty())
    return admin_usage(std::string((*verb)->argument) + " is empty");
  return {};
}

AdminResult run(const AdminRequest& request) {
  if (AdminResult good = check_usage(request); !good) return good;
  // The first administrator may come before the server ever ran.
  const bool is_first = request.resource == "admin" && request.verb == "bootstrap" && request.auto_init;
  storage::Opened<std::unique_ptr<storage::Db>> db =
      storage::open_database(request.database, {.create = is_first});
  if (!db) return admin_failure(db.error().text);
  if (storage::Opened<storage::SchemaReport> schema = storage::migrate(**db, request.auto_init); !schema) {
    return admin_failure(database_name(request.database) + ": " + schema.error().text);
  }
  const AdminContext context{request, **db, request.clock()};
  if (request.resource == "user") return run_user_command(context);
  if (request.resource == "admin") return run_admin_command(context);
  if (request.resource == "audit") return run_audit_command(context);
  if (request.resource == "agent") return run_agent_command(context);
  if (request.resource == "node") return run_node_command(context);
  if (request.resource == "policy") return run_policy_command(context);
  return run_token_command(context);
}

}  // namespace

int run_admin(const AdminRequest& request) {
  const AdminResult done = run(request);
  if (!done) {
    (void)std::fprintf(request.err, "%s %s: %s\n", request.resource.c_str(), request.verb.c_str(),
                       done.error().text.c_str());
    return done.error().exit_code;
  }
  if (std::fflush(request.out) != 0) {
    (void)std::fprintf(request.err, "%s %s: done, but the output could not be written\n",
                       request.resource.c_str(), request.verb.c_str());
    return kExitFailure;
  }
  return kExitOk;
}

}  // namespace tmesh::server
