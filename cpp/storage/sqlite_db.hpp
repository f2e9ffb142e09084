// The SQLite driver.
//
// The file has mode 0600 when we create it. WAL journal, full synchronisation (a
// revocation that was confirmed survives a power cut), foreign writers awaited for
// `busy_timeout_ms`. Statements are prepared once and kept, at most 64 of them (the
// program has fewer distinct texts; the bound is for text made at run time). Values
// are limited to 16 MiB each.
#pragma once

#include <memory>
#include <string>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

struct SqliteOptions {
  std::string path;
  bool create = true;  // false: a missing file is an error
  int busy_timeout_ms = 5000;
  bool is_read_only = false;  // writes fail, and the journal stays what it is
};

// Opens the file and makes sure that it is a database we can write (or read). Does not look
// at the schema (migrator.hpp). The problem text begins with the path.
Opened<std::unique_ptr<Db>> open_sqlite(const SqliteOptions& options);

}  // namespace tmesh::storage
