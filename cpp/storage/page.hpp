// Lists in id order. Internal to cpp/storage.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "cpp/storage/records.hpp"
#include "cpp/storage/rows.hpp"

namespace tmesh::storage {

// `sql` ends with "... id > ? ORDER BY id LIMIT ?"; `filter` fills the places before.
// One row more than asked for tells whether there is another page.
template <class T, class Map>
Result<Page<T>> query_page(Db& db, std::string_view sql, std::vector<Param> filter,
                           const PageRequest& request, Map map) {
  const int limit = std::clamp(request.limit, 1, PageRequest::limit_max);
  filter.emplace_back(request.after_id);
  filter.emplace_back(limit + 1);
  Result<std::vector<T>> rows = query_all<T>(db, sql, filter, std::move(map));
  if (!rows) return std::unexpected(rows.error());
  Page<T> page{std::move(*rows), false};
  if (page.items.size() > static_cast<size_t>(limit)) {
    page.items.pop_back();
    page.has_more = true;
  }
  return page;
}

}  // namespace tmesh::storage
