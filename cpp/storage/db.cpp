#include "cpp/storage/db.hpp"

namespace tmesh::storage {

Result<Transaction> Transaction::start(Db& db, bool is_write) {
  if (Result<void> begun = db.begin(is_write); !begun) return std::unexpected(begun.error());
  return Transaction(db);
}

Result<Transaction> Transaction::write(Db& db) {
  return start(db, true);
}
Result<Transaction> Transaction::read(Db& db) {
  return start(db, false);
}

Transaction::~Transaction() {
  if (db_ != nullptr) db_->rollback();
}

Result<void> Transaction::commit() {
  Result<void> done = db_->commit();
  if (!done) db_->rollback();
  db_ = nullptr;
  return done;
}

}  // namespace tmesh::storage
