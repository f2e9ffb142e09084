// Table `agents`. Stateless; the database is borrowed. `now` is a timestamp text.
// Errors are those of db.hpp; a change of a row that is not there is TMESH_E_STATE.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cpp/storage/records.hpp"
#include "cpp/storage/revision_bump.hpp"

namespace tmesh::storage {

class AgentRepository {
 public:
  explicit AgentRepository(Db& db) : db_(db) {}
  // What find() and the count read stays as it is until the transaction ends; for changes that
  // depend on it.
  explicit AgentRepository(Transaction& tx) : db_(tx.db()), lock_(tx.db().lock_suffix()) {}

  Result<std::optional<AgentRecord>> find(std::string_view id);
  // Names are for people and not unique: the first two with this name, so that the
  // caller can tell "none", "this one" and "which one?".
  Result<std::vector<AgentRecord>> find_by_name(std::string_view name);
  // `owner_user_id` empty: everybody's.
  Result<Page<AgentRecord>> list(const PageRequest& request, std::string_view owner_user_id = {});

  Result<int64_t> count_of_owner(std::string_view owner_user_id);

  // Neither a display name nor what an agent says it can do changes rights: no step of the
  // revision.
  static Result<void> rename(Transaction& tx, std::string_view id, std::string_view name,
                             std::string_view now);
  static Result<void> set_capabilities(Transaction& tx, std::string_view id, std::string_view capabilities,
                                       std::string_view now);

  // Each of these steps the revision.
  static Result<void> create(Transaction& tx, const AgentRecord& agent);
  static Result<void> set_enabled(Transaction& tx, std::string_view id, bool is_enabled,
                                  std::string_view now);
  static Result<void> set_owner(Transaction& tx, std::string_view id, std::string_view owner_user_id,
                                std::string_view now);
  // Removes the agent and its policies (one step); its tokens stay and are no longer valid.
  static Result<void> remove(Transaction& tx, std::string_view id, std::string_view now);

 private:
  Db& db_;
  std::string_view lock_;
};

}  // namespace tmesh::storage
