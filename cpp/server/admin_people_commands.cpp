// user and agent
#include "cpp/server/admin_context.hpp"
#include "cpp/server/password.hpp"

namespace tmesh::server {
namespace {

AdminRow describe(const storage::UserRecord& user) {
  return {{"id", user.id},
          {"username", user.username},
          {"role", user.role},
          {"disabled", user.is_disabled},
          {"deletedAt", admin_text(user.deleted_at)},
          {"createdAt", admin_text(user.created_at)},
          {"updatedAt", admin_text(user.updated_at)}};
}

AdminRow describe(const storage::AgentRecord& agent) {
  return {{"id", agent.id},
          {"name", agent.name},
          {"ownerUserId", agent.owner_user_id},
          {"enabled", agent.is_enabled},
          {"createdAt", admin_text(agent.created_at)},
          {"updatedAt", admin_text(agent.updated_at)}};
}

template <class T>
std::vector<AdminRow> describe_all(const std::vector<T>& records) {
  std::vector<AdminRow> rows;
  rows.reserve(records.size());
  for (const T& record : records) rows.push_back(describe(record));
  return rows;
}

AdminResult create_user(const AdminContext& context) {
  const Secret password = new_password();
  const Result<std::string> hash = hash_password(password.reveal());
  if (!hash) return admin_failure(hash.error());
  const std::string_view role = context.option("role").value_or("user");
  AdminFound<storage::UserRecord> made = context.change(
      [&](AdminService& service) { return service.create_user(context.argument(), role, *hash); });
  if (!made) return std::unexpected(made.error());
  AdminRow row = describe(*made);
  row.push_back({"password", std::string(password.reveal())});
  context.print(row);
  context.note("note: the password is shown only this once");
  return {};
}

AdminResult list_users(const AdminContext& context) {
  const auto fetch = [&](const storage::PageRequest& page) {
    return storage::UserRepository(context.db).list(page);
  };
  AdminFound<std::vector<storage::UserRecord>> users = context.all<storage::UserRecord>(fetch);
  if (!users) return std::unexpected(users.error());
  context.print(describe_all(*users));
  return {};
}

AdminResult change_user(const AdminContext& context, const storage::UserRecord& user) {
  const std::string& verb = context.request.verb;
  AdminFound<void> done = context.change([&](AdminService& service) {
    if (verb == "delete") return service.delete_user(user);
    return service.set_user_disabled(user, verb == "disable");
  });
  if (!done) return std::unexpected(done.error());
  AdminFound<storage::UserRecord> now = context.user(user.id);
  if (!now) return std::unexpected(now.error());
  context.print(describe(*now));
  return {};
}

AdminResult create_agent(const AdminContext& context) {
  AdminFound<storage::UserRecord> owner = context.owner();
  if (!owner) return std::unexpected(owner.error());
  AdminFound<storage::AgentRecord> made =
      context.change([&](AdminService& service) { return service.create_agent(context.argument(), *owner); });
  if (!made) return std::unexpected(made.error());
  context.print(describe(*made));
  return {};
}

AdminResult list_agents(const AdminContext& context) {
  std::string owner_id;
  if (const std::optional<std::string_view> named = context.option("owner")) {
    AdminFound<storage::UserRecord> owner = context.user(*named);
    if (!owner) return std::unexpected(owner.error());
    owner_id = owner->id;
  }
  const auto fetch = [&](const storage::PageRequest& page) {
    return storage::AgentRepository(context.db).list(page, owner_id);
  };
  AdminFound<std::vector<storage::AgentRecord>> agents = context.all<storage::AgentRecord>(fetch);
  if (!agents) return std::unexpected(agents.error());
  context.print(describe_all(*agents));
  return {};
}

AdminResult change_agent(const AdminContext& context, const storage::AgentRecord& agent) {
  const std::string& verb = context.request.verb;
  AdminFound<void> done = context.change([&](AdminService& service) {
    if (verb == "delete") return service.delete_agent(agent);
    return service.set_agent_enabled(agent, verb == "enable");
  });
  if (!done) return std::unexpected(done.error());
  storage::AgentRecord now = agent;  // what was deleted is shown as it was
  if (verb != "delete") {
    AdminFound<storage::AgentRecord> found = context.agent(agent.id);
    if (!found) return std::unexpected(found.error());
    now = *found;
  }
  context.print(describe(now));
  return {};
}

}  // namespace

AdminResult run_user_command(const AdminContext& context) {
  if (context.request.verb == "create") return create_user(context);
  if (context.request.verb == "list") return list_users(context);
  AdminFound<storage::UserRecord> user = context.user(context.argument());
  if (!user) return std::unexpected(user.error());
  if (context.request.verb != "show") return change_user(context, *user);
  context.print(describe(*user));
  return {};
}

AdminResult run_agent_command(const AdminContext& context) {
  if (context.request.verb == "create") return create_agent(context);
  if (context.request.verb == "list") return list_agents(context);
  AdminFound<storage::AgentRecord> agent = context.agent(context.argument());
  if (!agent) return std::unexpected(agent.error());
  if (context.request.verb != "show") return change_agent(context, *agent);
  context.print(describe(*agent));
  return {};
}

}  // namespace tmesh::server
