// `migrate` and `db check`: the schema of the configured database, for a person or a script.
//
// Blocking; own and keep nothing. 0 = done, or nothing wrong; 1 = failed, or something is.
#pragma once

#include <cstdio>

#include "cpp/storage/open.hpp"

namespace tmesh::server {

struct SchemaRequest {
  storage::DatabaseSettings database;
  bool is_json = false;
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

// Does what the server does at its start when storage.auto_init is on, whatever that key
// says. A dry run prints the steps and their statements and changes nothing.
[[nodiscard]] int run_migrate(const SchemaRequest& request, bool is_dry_run);

// Changes nothing, an upgrade included.
[[nodiscard]] int run_db_check(const SchemaRequest& request);

}  // namespace tmesh::server
