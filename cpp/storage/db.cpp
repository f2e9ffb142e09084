#include "cpp/storage/db.hpp"

#include "cpp/base/utf8.hpp"

namespace tmesh::storage {

Result<void> check_sizes(Params params) {
  for (const Param& param : params) {
    if (param.text().size() > text_bytes_max) {
      return fail(TMESH_E_TOO_LARGE, "a value is too large for the database");
    }
  }
  return {};
}

Result<void> check_values(Params params) {
  for (const Param& param : params) {
    if (!utf8_valid(param.text())) return fail(TMESH_E_INVALID, "a text is not UTF-8");
  }
  return check_sizes(params);
}

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
