#include "cpp/server/schema_commands.hpp"

#include <unistd.h>

#include <string>
#include <string_view>

#include "cpp/base/exit_code.hpp"
#include "cpp/base/json.hpp"
#include "cpp/server/admin_context.hpp"
#include "cpp/storage/database_check.hpp"
#include "cpp/storage/migrator.hpp"

namespace tmesh::server {
namespace {

using storage::Opened;

int failed(const SchemaRequest& request, const char* command, std::string_view why) {
  (void)std::fprintf(request.err, "%s: %.*s\n", command, static_cast<int>(why.size()), why.data());
  return kExitFailure;
}

// Everything was done; the exit code says whether its report arrived.
int print(const SchemaRequest& request, const char* command, const std::string& text, int exit_code) {
  (void)std::fwrite(text.data(), 1, text.size(), request.out);
  if (std::fflush(request.out) != 0) return failed(request, command, "the output could not be written");
  return exit_code;
}

// Without the comments of the script, which are for its readers.
std::string statement_text(std::string_view statement) {
  std::string text;
  while (!statement.empty()) {
    const size_t end = statement.find('\n');
    const std::string_view line = statement.substr(0, end);
    if (line.find_first_not_of(' ') != std::string_view::npos && !line.starts_with("--")) {
      text += "     ";
      text += line;
      text += '\n';
    }
    statement = end == std::string_view::npos ? std::string_view() : statement.substr(end + 1);
  }
  if (!text.empty()) text.insert(text.size() - 1, ";");
  return text;
}

std::string plan_text(const storage::SchemaPlan& plan, bool has_statements) {
  std::string text;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    text += std::to_string(i + 1) + ". " + plan.steps[i].name + '\n';
    if (!has_statements) continue;
    for (const std::string& statement : plan.steps[i].statements) text += statement_text(statement);
  }
  return text;
}

std::string plan_json(const storage::SchemaPlan& plan, int64_t version_after, bool is_dry_run) {
  std::string text;
  json::Writer writer(text, json::Writer::Style::indented);
  writer.begin_object().member("versionBefore", plan.version).member("version", version_after);
  writer.member("dryRun", is_dry_run).key("steps").begin_array();
  for (const storage::SchemaStep& step : plan.steps) {
    writer.begin_object().member("name", std::string_view(step.name)).key("statements").begin_array();
    for (const std::string& statement : step.statements) writer.string(statement);
    writer.end_array().end_object();
  }
  writer.end_array().end_object();
  return text + '\n';
}

std::string version_text(int64_t version) {
  return version == 0 ? "an empty database" : "schema version " + std::to_string(version);
}

// The file is not even made: nothing is changed.
bool is_missing_file(const storage::DatabaseSettings& database) {
  return database.driver == storage::Driver::sqlite && !database.sqlite_path.empty() &&
         ::access(database.sqlite_path.c_str(), F_OK) != 0;
}

Opened<storage::SchemaPlan> dry_plan(const SchemaRequest& request) {
  if (is_missing_file(request.database)) return storage::plan_new_schema(storage::Driver::sqlite);
  Opened<std::unique_ptr<storage::Db>> db = storage::open_database(request.database, {.is_read_only = true});
  if (!db) return std::unexpected(db.error());
  return storage::plan_schema(**db);
}

std::string finding_line(const storage::DatabaseFinding& finding) {
  std::string line = std::string(finding.is_good ? "ok    " : "WRONG ") + finding.name;
  line.resize(std::max<size_t>(line.size() + 2, 20), ' ');
  return line + finding.text + '\n';
}

std::string check_text(const storage::DatabaseCheck& check) {
  std::string text = version_text(check.version) + '\n';
  for (const storage::DatabaseFinding& finding : check.findings) text += finding_line(finding);
  for (const storage::DatabaseCount& count : check.counts) {
    std::string line = std::string("      ") + count.table;
    line.resize(std::max<size_t>(line.size() + 2, 24), ' ');
    text += line + std::to_string(count.rows) + '\n';
  }
  return text;
}

std::string check_json(const storage::DatabaseCheck& check) {
  std::string text;
  json::Writer writer(text, json::Writer::Style::indented);
  writer.begin_object().member("ok", check.is_good()).member("version", check.version);
  writer.key("pendingSteps").begin_array();
  for (const std::string& step : check.pending_steps) writer.string(step);
  writer.end_array().key("findings").begin_array();
  for (const storage::DatabaseFinding& finding : check.findings) {
    writer.begin_object().member("name", finding.name).member("ok", finding.is_good);
    writer.member("text", std::string_view(finding.text)).end_object();
  }
  writer.end_array().key("rows").begin_object();
  for (const storage::DatabaseCount& count : check.counts) writer.member(count.table, count.rows);
  writer.end_object().end_object();
  return text + '\n';
}

}  // namespace

int run_migrate(const SchemaRequest& request, bool is_dry_run) {
  constexpr const char* command = "migrate";
  const auto in_database = [&](const std::string& why) {
    return failed(request, command, database_name(request.database) + ": " + why);
  };
  if (is_dry_run) {
    const Opened<storage::SchemaPlan> plan = dry_plan(request);
    if (!plan) return in_database(plan.error().text);
    if (request.is_json) return print(request, command, plan_json(*plan, plan->version, true), kExitOk);
    const std::string text = version_text(plan->version) + '\n' + plan_text(*plan, true) +
                             (plan->steps.empty() ? "nothing to do\n" : "nothing was changed (--dry-run)\n");
    return print(request, command, text, kExitOk);
  }
  Opened<std::unique_ptr<storage::Db>> db = storage::open_database(request.database, {.create = true});
  if (!db) return failed(request, command, db.error().text);
  const Opened<storage::SchemaPlan> plan = storage::plan_schema(**db);
  if (!plan) return in_database(plan.error().text);
  const Opened<storage::SchemaReport> done = storage::migrate(**db, true);
  if (!done) return in_database(done.error().text);
  if (request.is_json) return print(request, command, plan_json(*plan, done->version, false), kExitOk);
  const std::string text = plan_text(*plan, false) + (plan->steps.empty() ? "nothing to do: " : "done: ") +
                           version_text(done->version) + '\n';
  return print(request, command, text, kExitOk);
}

int run_db_check(const SchemaRequest& request) {
  constexpr const char* command = "db check";
  Opened<std::unique_ptr<storage::Db>> db = storage::open_database(request.database, {.is_read_only = true});
  if (!db) return failed(request, command, db.error().text);
  const Opened<storage::DatabaseCheck> check = storage::check_database(**db);
  if (!check) return failed(request, command, database_name(request.database) + ": " + check.error().text);
  const std::string text = request.is_json ? check_json(*check) : check_text(*check);
  return print(request, command, text, check->is_good() ? kExitOk : kExitFailure);
}

}  // namespace tmesh::server
