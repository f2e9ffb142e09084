// One change of the database as a unit, tried again where locks undid it.
#pragma once

#include <type_traits>
#include <utility>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

// A deadlock or a lock that is not given in time undoes a transaction whole, so it can
// be run again; more often than this it is not bad luck but load.
inline constexpr int change_attempts_max = 3;

// Runs `work(Transaction&) -> Result<T>` in a write transaction and commits it; nothing is
// in the database unless it succeeds. `work` may run several times and must not have other
// effects. TMESH_E_TIMEOUT: every attempt lost its locks.
template <class Work>
auto change(Db& db, Work work) -> std::invoke_result_t<Work&, Transaction&> {
  for (int attempt = 1;; ++attempt) {
    auto done = [&]() -> std::invoke_result_t<Work&, Transaction&> {
      Result<Transaction> tx = Transaction::write(db);
      if (!tx) return std::unexpected(tx.error());
      auto made = work(*tx);
      if (!made) return made;
      if (Result<void> committed = tx->commit(); !committed) return std::unexpected(committed.error());
      return made;
    }();
    if (done || done.error().code != TMESH_E_TIMEOUT || attempt == change_attempts_max) return done;
  }
}

}  // namespace tmesh::storage
