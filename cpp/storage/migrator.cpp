#include "cpp/storage/migrator.hpp"

#include <algorithm>
#include <string>

#include "cpp/storage/records.hpp"
#include "cpp/storage/required_schema.hpp"
#include "cpp/storage/rows.hpp"
#include "cpp/storage/scripts.hpp"
#include "cpp/storage/sql_splitter.hpp"

namespace tmesh::storage {
namespace {

constexpr int64_t oldest_version = 8;

std::unexpected<Problem> problem(tmesh_code code, std::string text) {
  return std::unexpected(Problem{code, std::move(text)});
}
std::unexpected<Problem> problem(const Error& error) {
  return problem(error.code, error.text);
}

// The version row; 0 for a database without any table.
Opened<int64_t> read_version(Db& db) {
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
  const int64_t* found = row_of(*row);
  if (found == nullptr)
    return problem(TMESH_E_INVALID, "schema_meta has no row with id 1, so the version is unknown");
  if (*found < 1) return problem(TMESH_E_INVALID, "schema_meta holds an impossible version");
  return *found;
}

Opened<void> run_script(Db& db, const char* script) {
  Result<std::vector<std::string_view>> statements = split_sql(script, db.driver());
  if (!statements) return problem(statements.error());
  for (const std::string_view statement : *statements) {
    if (Result<uint64_t> done = db.execute(statement, {}); !done) return problem(done.error());
  }
  return {};
}

// One step in one transaction. `expected` is looked at again under the write lock:
// another program may have done the step since we looked.
Opened<int64_t> run_step(Db& db, int64_t expected, const char* script, bool is_fresh) {
  Result<Transaction> tx = Transaction::write(db);
  if (!tx) return problem(tx.error());
  Opened<int64_t> version = read_version(db);
  if (!version || *version != expected) return version;
  if (Opened<void> done = run_script(db, script); !done) return std::unexpected(done.error());
  if (is_fresh) {
    const Param params[] = {schema_version};
    Result<uint64_t> done = db.execute("INSERT INTO schema_meta (id, version) VALUES (1, ?)", params);
    if (!done) return problem(done.error());
  }
  version = read_version(db);
  if (!version) return version;
  if (*version == expected) return problem(TMESH_E_STATE, "the upgrade script did not advance the version");
  if (Result<void> done = tx->commit(); !done) return problem(done.error());
  return version;
}

const char* upgrade_script(Driver driver) {
  return driver == Driver::sqlite ? v0008_to_v0009_sqlite_sql : v0008_to_v0009_mysql_sql;
}

std::string number(int64_t value) {
  return std::to_string(value);
}

Opened<int64_t> advance(Db& db, int64_t version) {
  if (version == 0) {
    Opened<int64_t> made = run_step(db, 0, ddl_sql, true);
    if (!made) return problem(made.error().code, "the schema cannot be created: " + made.error().text);
    version = *made;
  }
  if (version < oldest_version) {
    return problem(TMESH_E_UNSUPPORTED, "schema version " + number(version) +
                                            " is too old: upgrades begin at version " +
                                            number(oldest_version));
  }
  if (version == oldest_version) {
    Opened<int64_t> done = run_step(db, oldest_version, upgrade_script(db.driver()), false);
    if (!done)
      return problem(done.error().code, "the upgrade from version 8 to 9 failed: " + done.error().text);
    version = *done;
  }
  return version;
}

// The first thing that is missing, by name.
Opened<void> check_required(Db& db, int64_t version) {
  const std::string prefix = "schema version " + number(version) + " lacks ";
  for (const RequiredTable& table : required_tables()) {
    Result<std::vector<std::string>> columns = db.columns(table.name);
    if (!columns) return problem(columns.error());
    if (columns->empty()) {
      return problem(TMESH_E_UNSUPPORTED, prefix + "the table " + table.name + ", which this program needs");
    }
    for (const char* column : table.columns) {
      if (std::ranges::find(*columns, column) == columns->end()) {
        return problem(TMESH_E_UNSUPPORTED,
                       prefix + "the column " + table.name + "." + column + ", which this program needs");
      }
    }
  }
  if (version > schema_version) return {};  // an index is nothing a newer schema owes us
  Result<bool> found = db.has_index(required_index);
  if (!found) return problem(found.error());
  if (!*found) return problem(TMESH_E_UNSUPPORTED, prefix + "the index " + required_index);
  return {};
}

}  // namespace

Opened<SchemaReport> inspect_schema(Db& db) {
  Opened<int64_t> version = read_version(db);
  if (!version) return std::unexpected(version.error());
  return SchemaReport{*version, *version};
}

Opened<SchemaReport> migrate(Db& db, bool auto_init) {
  Opened<int64_t> before = read_version(db);
  if (!before) return std::unexpected(before.error());
  int64_t version = *before;
  if (auto_init) {
    Opened<int64_t> after = advance(db, version);
    if (!after) return std::unexpected(after.error());
    version = *after;
  } else if (version != schema_version) {
    const std::string found =
        version == 0 ? "the database is empty" : "the schema has version " + number(version);
    return problem(TMESH_E_UNSUPPORTED,
                   found + ", but storage.auto_init is off and this program needs exactly version " +
                       number(schema_version));
  }
  if (Opened<void> done = check_required(db, version); !done) return std::unexpected(done.error());
  return SchemaReport{*before, version};
}

}  // namespace tmesh::storage
