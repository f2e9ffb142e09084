// Table `server_nodes`: the servers of the installation. Errors are those of db.hpp; a
// change of a row that is not there is TMESH_E_STATE. `now` is a timestamp text.
#pragma once

#include <optional>
#include <string_view>

#include "cpp/storage/db.hpp"
#include "cpp/storage/presence_records.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::storage {

class NodeRepository {
 public:
  explicit NodeRepository(Db& db) : db_(db) {}

  Result<std::optional<NodeRecord>> find(std::string_view id);
  // Deleted ones too.
  Result<Page<NodeRecord>> list(const PageRequest& request);

  // What a server says of itself changes no rights: no step of the revision.

  // A new life of this server: inserts the row (name: the id), or keeps what administrators
  // decided and steps the epoch. Gives the row as it is then, whose owner may be disabled or
  // deleted; then only `epoch` and `address` were changed.
  static Result<NodeRecord> start(Transaction& tx, std::string_view id, std::string_view address,
                                  std::string_view expires_at, std::string_view now);
  // Puts a row back that somebody removed, with the epoch that its server has.
  static Result<void> restore_row(Transaction& tx, const NodeRecord& node);
  // False: no such row, or another life of this server began.
  static Result<bool> heartbeat(Transaction& tx, std::string_view id, int64_t epoch,
                                std::string_view expires_at, std::string_view now);
  static Result<void> rename(Transaction& tx, std::string_view id, std::string_view name,
                             std::string_view now);

  // Tokens may name servers, so each of these steps the revision. A row that is deleted
  // already, or is not, is TMESH_E_STATE.
  static Result<void> set_enabled(Transaction& tx, std::string_view id, bool is_enabled,
                                  std::string_view now);
  static Result<void> mark_deleted(Transaction& tx, std::string_view id, std::string_view now);
  static Result<void> restore(Transaction& tx, std::string_view id, std::string_view now);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
