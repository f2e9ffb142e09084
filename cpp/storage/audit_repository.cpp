#include "cpp/storage/audit_repository.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cpp/storage/keyed_delete.hpp"
#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

#define AUDIT_COLUMNS "id, actor_user_id, action, resource_type, resource_id, details, created_at"

AuditRecord read(RowReader& row) {
  AuditRecord entry;
  entry.id = row.text();
  entry.actor_user_id = row.optional_text();
  entry.action = row.text();
  entry.resource_type = row.text();
  entry.resource_id = row.optional_text();
  entry.details = row.text();
  entry.created_at = row.text();
  return entry;
}

// A moment for comparison with stored timestamps as texts. Fractions lose their trailing
// zeros, and digits sort below 'Z', so a time whose fraction begins a longer one sorts
// behind it: "05.51Z" < "05.5Z" < "05Z".
struct Moment {
  std::string open;                  // without the 'Z': sorts before all that is not earlier,
  std::vector<std::string> earlier;  // but for these, which are

  explicit Moment(std::string_view text) : open(text) {
    if (open.ends_with('Z')) open.pop_back();
    const size_t dot = open.find('.');
    if (dot == std::string::npos) return;
    while (open.ends_with('0')) open.pop_back();
    if (open.ends_with('.')) open.pop_back();
    if (open.size() <= dot) return;
    earlier.push_back(open.substr(0, dot) + 'Z');
    for (size_t end = dot + 2; end < open.size(); ++end) earlier.push_back(open.substr(0, end) + 'Z');
  }
};

#define EXACTLY(column) column " = ? AND " TMESH_SQL_EXACT(column) " = ?"

// The WHERE clause of a list and its values.
class Conditions {
 public:
  void add(std::string_view sql, std::vector<std::string> values) {
    sql_ += sql_.empty() ? " WHERE " : " AND ";
    sql_ += sql;
    for (std::string& value : values) values_.push_back(std::move(value));
  }
  void add_equal(std::string_view sql, const std::string& value) {
    if (!value.empty()) add(sql, {value, value});
  }
  const std::string& sql() const { return sql_; }
  std::vector<Param> params() const { return {values_.begin(), values_.end()}; }

 private:
  std::string sql_;
  std::vector<std::string> values_;
};

// "(?, ?, ?)"
std::string places(const std::vector<std::string>& values) {
  std::string text = "(?";
  for (size_t i = 1; i < values.size(); ++i) text += ", ?";
  return text + ')';
}

Conditions conditions(const AuditFilter& filter) {
  Conditions where;
  where.add_equal(EXACTLY("actor_user_id"), filter.actor_user_id);
  where.add_equal(EXACTLY("action"), filter.action);
  where.add_equal(EXACTLY("resource_type"), filter.resource_type);
  where.add_equal(EXACTLY("resource_id"), filter.resource_id);
  if (!filter.created_from.empty()) {
    const Moment from(filter.created_from);
    where.add("created_at >= ?", {from.open});
    if (!from.earlier.empty()) where.add("created_at NOT IN " + places(from.earlier), from.earlier);
  }
  if (!filter.created_to.empty()) {
    Moment to(filter.created_to);
    std::vector<std::string> values = {to.open, to.open + 'Z'};
    values.insert(values.end(), to.earlier.begin(), to.earlier.end());
    to.earlier.push_back(to.open + 'Z');
    where.add("(created_at < ? OR created_at IN " + places(to.earlier) + ")", std::move(values));
  }
  return where;
}

}  // namespace

Result<std::vector<AuditRecord>> AuditRepository::newest(int limit) {
  const Param params[] = {std::clamp(limit, 1, PageRequest::limit_max)};
  return query_all<AuditRecord>(
      db_, "SELECT " AUDIT_COLUMNS " FROM audit_logs ORDER BY created_at DESC, id DESC LIMIT ?", params,
      read);
}

Result<Page<AuditRecord>> AuditRepository::list(const AuditPageRequest& request, const AuditFilter& filter) {
  std::string after = request.after_created_at;
  if (after.empty() && !request.after_id.empty()) {
    const Param params[] = {request.after_id};
    Result<std::optional<std::string>> found =
        query_one<std::string>(db_, "SELECT created_at FROM audit_logs WHERE id = ?", params,
                               [](RowReader& row) { return row.text(); });
    if (!found) return std::unexpected(found.error());
    if (!*found) return fail(TMESH_E_STATE, "the entry that the list was to go on behind is gone");
    after = std::move(**found);
  }
  Conditions where = conditions(filter);
  if (!after.empty())
    where.add("created_at <= ? AND (created_at < ? OR id < ?)", {after, after, request.after_id});
  const int limit = std::clamp(request.limit, 1, PageRequest::limit_max);
  std::vector<Param> params = where.params();
  params.emplace_back(limit + 1);
  Result<std::vector<AuditRecord>> rows = query_all<AuditRecord>(
      db_,
      "SELECT " AUDIT_COLUMNS " FROM audit_logs" + where.sql() + " ORDER BY created_at DESC, id DESC LIMIT ?",
      params, read);
  if (!rows) return std::unexpected(rows.error());
  Page<AuditRecord> page{std::move(*rows), false};
  if (page.items.size() > static_cast<size_t>(limit)) {
    page.items.pop_back();
    page.has_more = true;
  }
  return page;
}

Result<void> AuditRepository::append(Transaction& tx, const AuditRecord& entry) {
  const Param params[] = {entry.id,
                          Param::nullable(entry.actor_user_id),
                          entry.action,
                          entry.resource_type,
                          Param::nullable(entry.resource_id),
                          entry.details,
                          entry.created_at};
  return change_one(tx.db(), "INSERT INTO audit_logs (" AUDIT_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)",
                    params);
}

Result<uint64_t> AuditRepository::purge(Transaction& tx, std::string_view before, int rows_max) {
  return delete_by_key(tx, "SELECT id FROM audit_logs WHERE created_at < ? ORDER BY created_at, id LIMIT ?",
                       {before}, rows_max, "DELETE FROM audit_logs WHERE id = ?");
}

}  // namespace tmesh::storage
