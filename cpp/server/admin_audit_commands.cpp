// audit
#include <algorithm>

#include "cpp/base/json.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/server/admin_context.hpp"
#include "cpp/storage/audit_repository.hpp"

namespace tmesh::server {
namespace {

AdminRow describe(const storage::AuditRecord& entry) {
  // Details that cannot be read are shown as the text they are.
  const bool is_json = json::parse(entry.details).has_value();
  return {{"createdAt", entry.created_at},
          {"action", entry.action},
          {"resourceType", entry.resource_type},
          {"resourceId", admin_text(entry.resource_id)},
          {"actorUserId", admin_text(entry.actor_user_id)},
          {"details", is_json ? AdminValue(AdminJson{entry.details}) : AdminValue(entry.details)},
          {"id", entry.id}};
}

AdminFound<std::string> time_option(const AdminContext& context, const char* name) {
  const std::optional<std::string_view> text = context.option(name);
  if (!text) return std::string();
  if (!storage::parse_timestamp(*text)) {
    return admin_usage(std::string("--") + name + " is not a time like 2027-01-31T00:00:00Z");
  }
  return std::string(*text);
}

AdminFound<storage::AuditFilter> filter_options(const AdminContext& context) {
  const auto text = [&context](const char* name) { return std::string(context.option(name).value_or("")); };
  storage::AuditFilter filter;
  if (const std::optional<std::string_view> actor = context.option("actor")) {
    AdminFound<storage::UserRecord> user = context.user(*actor);
    if (!user) return std::unexpected(user.error());
    filter.actor_user_id = user->id;
  }
  filter.action = text("action");
  filter.resource_type = text("resource-type");
  filter.resource_id = text("resource-id");
  AdminFound<std::string> from = time_option(context, "from");
  if (!from) return std::unexpected(from.error());
  AdminFound<std::string> to = time_option(context, "to");
  if (!to) return std::unexpected(to.error());
  filter.created_from = std::move(*from);
  filter.created_to = std::move(*to);
  return filter;
}

}  // namespace

AdminResult run_audit_command(const AdminContext& context) {
  AdminFound<storage::AuditFilter> filter = filter_options(context);
  if (!filter) return std::unexpected(filter.error());
  constexpr uint64_t rows_max = 10'000;  // what a terminal or a script can be given at once
  uint64_t wanted = 50;
  if (const std::optional<std::string_view> text = context.option("limit")) {
    const Result<uint64_t> number = parse_uint(*text);
    if (!number || *number < 1 || *number > rows_max) return admin_usage("--limit is from 1 to 10000");
    wanted = *number;
  }
  std::vector<AdminRow> rows;
  storage::AuditPageRequest next;
  for (bool has_more = true; has_more && rows.size() < wanted;) {
    next.limit = static_cast<int>(std::min<uint64_t>(wanted - rows.size(), storage::PageRequest::limit_max));
    Result<storage::Page<storage::AuditRecord>> page =
        storage::AuditRepository(context.db).list(next, *filter);
    if (!page) return admin_failure(page.error());
    for (const storage::AuditRecord& entry : page->items) rows.push_back(describe(entry));
    has_more = page->has_more;
    if (!has_more) break;
    next.after_created_at = page->items.back().created_at;
    next.after_id = page->items.back().id;
  }
  context.print(rows);
  return {};
}

}  // namespace tmesh::server
