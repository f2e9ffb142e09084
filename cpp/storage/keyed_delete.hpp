// Removing many rows a bounded number at a time. Internal to cpp/storage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpp/storage/rows.hpp"

namespace tmesh::storage {

// `select` gives the keys to remove and ends with "LIMIT ?", for which `rows_max` is added;
// `remove` is "DELETE FROM ... WHERE key = ?". Two steps, because SQLite has no DELETE with
// LIMIT and MySQL none with a limited sub-query. A row that another writer removed in
// between is not counted.
inline Result<uint64_t> delete_by_key(Transaction& tx, std::string_view select, std::vector<Param> filter,
                                      int rows_max, std::string_view remove) {
  filter.emplace_back(rows_max);
  Result<std::vector<std::string>> keys =
      query_all<std::string>(tx.db(), select, filter, [](RowReader& row) { return row.text(); });
  if (!keys) return std::unexpected(keys.error());
  uint64_t removed = 0;
  for (const std::string& key : *keys) {
    const Param params[] = {key};
    Result<uint64_t> done = tx.db().execute(remove, params);
    if (!done) return done;
    removed += *done;
  }
  return removed;
}

}  // namespace tmesh::storage
