// Ids for an `IN (…)`. Internal to cpp/storage.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "cpp/storage/db.hpp"
#include "cpp/storage/id_text.hpp"

namespace tmesh::storage {

// The number of places is rounded up, and the last id repeated, so that lists of any
// length make few different statements to prepare.
class IdList {
 public:
  // Not empty.
  IdList(const Db& db, std::span<const std::string> ids) {
    for (const std::string& id : ids) texts_.push_back(stored_id(db, id));
    std::size_t count = 1;
    while (count < texts_.size()) count *= 2;
    places_count_ = count;
  }
  std::string places() const {
    std::string text = "?";
    for (std::size_t i = 1; i < places_count_; ++i) text += ", ?";
    return text;
  }
  // Points into this object.
  void append_to(std::vector<Param>& params) const {
    for (std::size_t i = 0; i < places_count_; ++i) {
      params.emplace_back(texts_[std::min(i, texts_.size() - 1)]);
    }
  }

 private:
  std::vector<std::string> texts_;
  std::size_t places_count_ = 0;
};

}  // namespace tmesh::storage
