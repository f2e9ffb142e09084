// Table `agent_policies`: what an agent's targets may be. Stateless; the database is
// borrowed. `now` is a timestamp text. Errors are those of db.hpp; a change of a row
// that is not there is TMESH_E_STATE.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cpp/storage/records.hpp"
#include "cpp/storage/revision_bump.hpp"

namespace tmesh::storage {

class PolicyRepository {
 public:
  explicit PolicyRepository(Db& db) : db_(db) {}
  // What find() and the count read stays as it is until the transaction ends; for changes that
  // depend on it.
  explicit PolicyRepository(Transaction& tx) : db_(tx.db()), lock_(tx.db().lock_suffix()) {}

  Result<std::optional<PolicyRecord>> find(std::string_view id);
  // `agent_id` empty: of all agents.
  Result<Page<PolicyRecord>> list(const PageRequest& request, std::string_view agent_id);

  Result<int64_t> count_of_agent(std::string_view agent_id);

  // Each of these steps the revision.
  static Result<void> create(Transaction& tx, const PolicyRecord& policy);
  // Replaces everything but id, agent and creation time.
  static Result<void> update(Transaction& tx, const PolicyRecord& policy);
  static Result<void> remove(Transaction& tx, std::string_view id, std::string_view now);

 private:
  Db& db_;
  std::string_view lock_;
};

}  // namespace tmesh::storage
