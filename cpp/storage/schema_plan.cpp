#include "cpp/storage/schema_plan.hpp"

#include <algorithm>
#include <string>

#include "cpp/storage/records.hpp"
#include "cpp/storage/required_schema.hpp"
#include "cpp/storage/rows.hpp"
#include "cpp/storage/scripts.hpp"
#include "cpp/storage/sql_splitter.hpp"

namespace tmesh::storage {
namespace {

// Where DDL cannot be rolled back, version 0 marks a schema whose creation has begun.
constexpr const char* begin_creation =
    "INSERT INTO schema_meta (id, version) SELECT 1, 0 FROM (SELECT 1) one "
    "WHERE NOT EXISTS (SELECT 1 FROM (SELECT id FROM schema_meta WHERE id = 1) m)";
constexpr const char* end_creation = "UPDATE schema_meta SET version = 9 WHERE id = 1 AND version = 0";
static_assert(schema_version == 9);

Opened<std::vector<std::string>> statements_of(const char* script, Driver driver) {
  Result<std::vector<std::string_view>> pieces = split_sql(script, driver);
  if (!pieces) return problem(pieces.error());
  return std::vector<std::string>(pieces->begin(), pieces->end());
}

Opened<SchemaStep> creation_step(Driver driver) {
  Opened<std::vector<std::string>> statements = statements_of(ddl_sql, driver);
  if (!statements) return std::unexpected(statements.error());
  // The first statement of the script creates schema_meta.
  statements->insert(statements->begin() + 1, begin_creation);
  statements->emplace_back(end_creation);
  return SchemaStep{"create schema version " + std::to_string(schema_version), std::move(*statements)};
}

Opened<SchemaStep> upgrade_step(Driver driver) {
  const char* script = driver == Driver::sqlite ? v0008_to_v0009_sqlite_sql : v0008_to_v0009_mysql_sql;
  Opened<std::vector<std::string>> statements = statements_of(script, driver);
  if (!statements) return std::unexpected(statements.error());
  return SchemaStep{"upgrade schema version 8 to 9", std::move(*statements)};
}

std::string widening(const WideColumn& column) {
  return std::string("ALTER TABLE ") + column.table + " MODIFY COLUMN " + column.name + ' ' + column.type;
}

// SQLite stores 64 bits whatever the column's type says. A column that is not there is
// another matter (schema_gaps).
Opened<bool> is_narrow(Db& db, const WideColumn& column) {
  if (db.driver() == Driver::sqlite) return false;
  const Param params[] = {column.table, column.name};
  const auto count = [](RowReader& row) { return row.integer(); };
  Result<std::optional<int64_t>> found =
      query_one<int64_t>(db,
                         "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() "
                         "AND table_name = ? AND column_name = ? AND data_type <> 'bigint'",
                         params, count);
  if (!found) return problem(found.error());
  return found->value_or(0) != 0;
}

Opened<std::vector<const WideColumn*>> narrow_columns(Db& db) {
  std::vector<const WideColumn*> narrow;
  for (const WideColumn& column : wide_columns()) {
    Opened<bool> found = is_narrow(db, column);
    if (!found) return std::unexpected(found.error());
    if (*found) narrow.push_back(&column);
  }
  return narrow;
}

bool is_only_schema_meta(const std::vector<std::string>& tables) {
  return tables.size() == 1 && tables.front() == "schema_meta";
}

}  // namespace

Opened<int64_t> read_schema_version(Db& db) {
  Result<std::vector<std::string>> tables = db.tables();
  if (!tables) return problem(tables.error());
  if (tables->empty()) return 0;
  if (std::ranges::find(*tables, "schema_meta") == tables->end()) {
    return problem(TMESH_E_INVALID, "not a TunnelMesh database: it has tables, but no table schema_meta");
  }
  const auto version = [](RowReader& row) { return row.integer(); };
  Result<std::optional<int64_t>> row =
      query_one<int64_t>(db, "SELECT version FROM schema_meta WHERE id = 1", {}, version);
  if (!row) return problem(row.error().code, std::string("schema_meta cannot be read: ") + row.error().text);
  const bool can_be_cut_short = db.driver() == Driver::mysql;
  const int64_t* found = row_of(*row);
  if (found == nullptr) {
    if (can_be_cut_short && is_only_schema_meta(*tables)) return 0;
    return problem(TMESH_E_INVALID, "schema_meta has no row with id 1, so the version is unknown");
  }
  if (*found < (can_be_cut_short ? 0 : 1)) {
    return problem(TMESH_E_INVALID, "schema_meta holds an impossible version");
  }
  return *found;
}

Opened<SchemaPlan> plan_new_schema(Driver driver) {
  Opened<SchemaStep> step = creation_step(driver);
  if (!step) return std::unexpected(step.error());
  return SchemaPlan{0, {std::move(*step)}};
}

Opened<SchemaPlan> plan_schema(Db& db) {
  Opened<int64_t> version = read_schema_version(db);
  if (!version) return std::unexpected(version.error());
  if (*version == 0) return plan_new_schema(db.driver());
  if (*version < schema_version_oldest) {
    return problem(TMESH_E_UNSUPPORTED, "schema version " + std::to_string(*version) +
                                            " is too old: upgrades begin at version " +
                                            std::to_string(schema_version_oldest));
  }
  SchemaPlan plan{*version, {}};
  if (*version == schema_version_oldest) {
    Opened<SchemaStep> step = upgrade_step(db.driver());
    if (!step) return std::unexpected(step.error());
    plan.steps.push_back(std::move(*step));
  }
  Opened<std::vector<const WideColumn*>> narrow = narrow_columns(db);
  if (!narrow) return std::unexpected(narrow.error());
  if (!narrow->empty()) {
    SchemaStep step{"make room for 64-bit numbers", {}};
    for (const WideColumn* column : *narrow) step.statements.push_back(widening(*column));
    plan.steps.push_back(std::move(step));
  }
  return plan;
}

Opened<std::vector<std::string>> schema_gaps(Db& db, int64_t version) {
  std::vector<std::string> gaps;
  for (const RequiredTable& table : required_tables()) {
    Result<std::vector<std::string>> columns = db.columns(table.name);
    if (!columns) return problem(columns.error());
    if (columns->empty()) {
      gaps.push_back(std::string("the table ") + table.name);
      continue;
    }
    for (const char* column : table.columns) {
      if (std::ranges::find(*columns, column) == columns->end()) {
        gaps.push_back(std::string("the column ") + table.name + '.' + column);
      }
    }
  }
  Opened<std::vector<const WideColumn*>> narrow = narrow_columns(db);
  if (!narrow) return std::unexpected(narrow.error());
  for (const WideColumn* column : *narrow) {
    gaps.push_back(std::string("room for 64-bit numbers in ") + column->table + '.' + column->name);
  }
  if (version > schema_version) return gaps;
  Result<bool> found = db.has_index(required_index);
  if (!found) return problem(found.error());
  if (!*found) gaps.push_back(std::string("the index ") + required_index);
  return gaps;
}

Opened<bool> is_statement_done(Db& db, std::string_view statement) {
  constexpr std::string_view create_index = "CREATE INDEX ";
  if (const size_t at = statement.find(create_index); at != std::string_view::npos) {
    std::string_view name = statement.substr(at + create_index.size());
    name = name.substr(0, name.find(' '));
    Result<bool> found = db.has_index(name);
    if (!found) return problem(found.error());
    return *found;
  }
  for (const WideColumn& column : wide_columns()) {
    if (statement != widening(column)) continue;
    Opened<bool> narrow = is_narrow(db, column);
    if (!narrow) return std::unexpected(narrow.error());
    return !*narrow;
  }
  return false;
}

}  // namespace tmesh::storage
