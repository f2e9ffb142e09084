// Ids that others chose, in columns of type VARBINARY. Internal to cpp/storage.
//
// SQLite gives such a column numeric affinity: a text that reads as a number is stored as
// that number ("007" becomes 7, and one in a million random hex ids reads as a float). Ids
// of ours begin with a letter; those of agents and operators may not, so there they are
// stored behind a '='. MySQL stores what it is given.
#pragma once

#include <string>
#include <string_view>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

inline constexpr char id_guard = '=';

inline std::string stored_id(const Db& db, std::string_view id) {
  const char first = id.empty() ? 'a' : id.front();
  const bool is_letter = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_';
  if (db.driver() != Driver::sqlite || is_letter) return std::string(id);
  return id_guard + std::string(id);
}

// What stored_id() was given.
inline std::string plain_id(const Db& db, std::string id) {
  if (db.driver() == Driver::sqlite && id.starts_with(id_guard)) id.erase(0, 1);
  return id;
}

}  // namespace tmesh::storage
