#include "cpp/server/admin_context.hpp"

namespace tmesh::server {

std::string database_name(const storage::DatabaseSettings& settings) {
  return settings.driver == storage::Driver::sqlite ? settings.sqlite_path : "storage.mysql.dsn";
}

std::unexpected<AdminFailure> admin_failure(std::string text) {
  return std::unexpected(AdminFailure{kExitFailure, std::move(text)});
}
std::unexpected<AdminFailure> admin_usage(std::string text) {
  return std::unexpected(AdminFailure{kExitUsage, std::move(text)});
}
std::unexpected<AdminFailure> admin_failure(const Error& error) {
  return std::unexpected(AdminFailure{error.code == TMESH_E_INVALID ? kExitUsage : kExitFailure, error.text});
}

std::vector<std::string_view> AdminContext::options(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const AdminOption& option : request.options) {
    if (option.name == name) values.emplace_back(option.value);
  }
  return values;
}

std::optional<std::string_view> AdminContext::option(std::string_view name) const {
  const std::vector<std::string_view> values = options(name);
  if (values.empty()) return std::nullopt;
  return values.back();
}

AdminFound<storage::UserRecord> AdminContext::user(std::string_view id_or_name) const {
  storage::UserRepository users(db);
  Result<std::optional<storage::UserRecord>> found = users.find(id_or_name);
  if (found && !*found) found = users.find_by_username(id_or_name);
  if (!found) return admin_failure(std::string(found.error().text));
  const storage::UserRecord* row = storage::row_of(*found);
  if (row == nullptr) return admin_failure("there is no such user");
  return *row;
}

AdminFound<storage::AgentRecord> AdminContext::agent(std::string_view id_or_name) const {
  storage::AgentRepository agents(db);
  Result<std::optional<storage::AgentRecord>> found = agents.find(id_or_name);
  if (!found) return admin_failure(std::string(found.error().text));
  if (const storage::AgentRecord* row = storage::row_of(*found)) return *row;
  Result<std::vector<storage::AgentRecord>> named = agents.find_by_name(id_or_name);
  if (!named) return admin_failure(std::string(named.error().text));
  if (named->empty()) return admin_failure("there is no such agent");
  if (named->size() > 1) return admin_failure("several agents have this name: use the id");
  return std::move(named->front());
}

AdminFound<std::string> AdminContext::owner_filter() const {
  const std::optional<std::string_view> named = option("owner");
  if (!named) return std::string();
  AdminFound<storage::UserRecord> found = user(*named);
  if (!found) return std::unexpected(found.error());
  return std::move(found->id);
}

AdminFound<storage::UserRecord> AdminContext::owner() const {
  if (const std::optional<std::string_view> named = option("owner")) {
    AdminFound<storage::UserRecord> found = user(*named);
    if (found && (found->is_disabled || !found->deleted_at.empty())) {
      return admin_failure("the owner is disabled or deleted");
    }
    return found;
  }
  return only_admin("--owner");
}

AdminFound<storage::UserRecord> AdminContext::only_admin(const char* flag) const {
  const auto fetch = [this](const storage::PageRequest& page) {
    return storage::UserRepository(db).list(page, storage::UserFilter::active);
  };
  AdminFound<std::vector<storage::UserRecord>> users = all<storage::UserRecord>(fetch);
  if (!users) return std::unexpected(users.error());
  std::optional<storage::UserRecord> only;
  for (storage::UserRecord& candidate : *users) {
    if (candidate.role != "admin" || candidate.is_disabled) continue;
    if (only) return admin_usage(std::string("there are several administrators: name one with ") + flag);
    only = std::move(candidate);
  }
  if (!only)
    return admin_failure("there is no administrator: create one, or name another user with " +
                         std::string(flag));
  return std::move(*only);
}

void AdminContext::note(std::string_view text) const {
  (void)std::fprintf(request.err, "%.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace tmesh::server
