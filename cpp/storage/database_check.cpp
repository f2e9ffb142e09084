#include "cpp/storage/database_check.hpp"

#include <algorithm>

#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "cpp/storage/rows.hpp"
#include "cpp/storage/schema_plan.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::storage {
namespace {

constexpr const char* counted[] = {"users",          "agents",       "agent_policies",
                                   "service_tokens", "server_nodes", "audit_logs"};

std::string join(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

Result<int64_t> number(Db& db, std::string_view sql) {
  Result<std::optional<int64_t>> found =
      query_one<int64_t>(db, sql, {}, [](RowReader& row) { return row.integer(); });
  if (!found) return std::unexpected(found.error());
  return found->value_or(0);
}

// Every row of a list can be read as a record; a malformed one makes decisions fail closed.
template <class Fetch>
Result<void> read_all(Fetch fetch) {
  PageRequest next{"", PageRequest::limit_max};
  while (true) {
    auto page = fetch(next);
    if (!page) return std::unexpected(page.error());
    if (!page->has_more) return {};
    next.after_id = page->items.back().id;
  }
}

DatabaseFinding rows_finding(Db& db) {
  const std::pair<const char*, Result<void>> tables[] = {
      {"users", read_all([&db](const PageRequest& page) { return UserRepository(db).list(page); })},
      {"agents", read_all([&db](const PageRequest& page) { return AgentRepository(db).list(page); })},
      {"agent_policies",
       read_all([&db](const PageRequest& page) { return PolicyRepository(db).list(page, ""); })},
      {"service_tokens", read_all([&db](const PageRequest& page) { return TokenRepository(db).list(page); })},
  };
  for (const auto& [table, done] : tables) {
    if (!done) return {"rows", false, std::string(table) + ": " + done.error().text};
  }
  return {"rows", true, "all can be read"};
}

// What an interrupted clean-up by other programs leaves; it gives nobody any right.
DatabaseFinding owners_finding(Db& db) {
  const std::pair<const char*, const char*> questions[] = {
      {"agents without an owner",
       "SELECT COUNT(*) FROM agents WHERE owner_user_id NOT IN (SELECT id FROM users)"},
      {"policies without an agent",
       "SELECT COUNT(*) FROM agent_policies WHERE agent_id NOT IN (SELECT id FROM agents)"},
  };
  std::vector<std::string> parts;
  for (const auto& [what, sql] : questions) {
    const Result<int64_t> count = number(db, sql);
    if (!count) return {"owners", false, std::string(count.error().text)};
    if (*count != 0) parts.push_back(std::to_string(*count) + ' ' + what + " (of no effect)");
  }
  return {"owners", true, parts.empty() ? "every agent has one" : join(parts)};
}

DatabaseFinding revision_finding(Db& db) {
  const Result<uint64_t> revision = read_revision(db);
  if (!revision) return {"revision", false, std::string(revision.error().text)};
  if (*revision >= uint64_t{1} << 62)
    return {"revision", false, "near its end: " + std::to_string(*revision)};
  return {"revision", true, std::to_string(*revision)};
}

// SQLite's own search for damage, and for rows that break a foreign key.
DatabaseFinding integrity_finding(Db& db) {
  const auto text = [](RowReader& row) { return row.optional_text(); };
  const Result<std::vector<std::string>> damage =
      query_all<std::string>(db, "PRAGMA integrity_check(1)", {}, text);
  if (!damage) return {"integrity", false, std::string(damage.error().text)};
  if (damage->size() != 1 || damage->front() != "ok") {
    return {"integrity", false, "the file is damaged: restore a backup"};
  }
  const Result<std::vector<std::string>> keys =
      query_all<std::string>(db, "PRAGMA foreign_key_check", {}, text);
  if (!keys) return {"integrity", false, std::string(keys.error().text)};
  if (!keys->empty()) return {"integrity", false, "rows break a foreign key in " + keys->front()};
  return {"integrity", true, "the file is whole"};
}

void count_rows(Db& db, DatabaseCheck& check) {
  for (const char* table : counted) {
    const Result<int64_t> rows = number(db, std::string("SELECT COUNT(*) FROM ") + table);
    if (rows) {
      check.counts.push_back({table, *rows});
    } else {
      check.findings.push_back({"rows", false, std::string(table) + ": " + rows.error().text});
    }
  }
}

}  // namespace

bool DatabaseCheck::is_good() const {
  return std::ranges::all_of(findings, &DatabaseFinding::is_good);
}

Opened<DatabaseCheck> check_database(Db& db) {
  Opened<int64_t> version = read_schema_version(db);
  if (!version) return std::unexpected(version.error());
  DatabaseCheck check;
  check.version = *version;
  if (db.driver() == Driver::sqlite) check.findings.push_back(integrity_finding(db));
  const Opened<SchemaPlan> plan = plan_schema(db);
  if (!plan) {
    check.findings.push_back({"migrations", false, plan.error().text});
    return check;
  }
  for (const SchemaStep& step : plan->steps) check.pending_steps.push_back(step.name);
  check.findings.push_back({"migrations", plan->steps.empty(),
                            plan->steps.empty() ? "none pending" : "pending: " + join(check.pending_steps)});
  const Opened<std::vector<std::string>> gaps = schema_gaps(db, *version);
  if (!gaps) {
    check.findings.push_back({"schema", false, gaps.error().text});
    return check;
  }
  check.findings.push_back(
      {"schema", gaps->empty(),
       gaps->empty() ? "all tables, columns and indexes are there" : "lacks " + join(*gaps)});
  if (!gaps->empty()) return check;
  check.findings.push_back(revision_finding(db));
  check.findings.push_back(rows_finding(db));
  check.findings.push_back(owners_finding(db));
  count_rows(db, check);
  return check;
}

}  // namespace tmesh::storage
