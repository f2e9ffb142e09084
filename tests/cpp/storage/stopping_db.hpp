// A database on which something happens at the n-th call: how tests end a program between
// any two of its statements. The product knows nothing of it.
#pragma once

#include <csignal>
#include <functional>
#include <optional>

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cpp/storage/db.hpp"

namespace tmesh::test {

// Forwards to another Db. Before each call that reaches the database, begin and commit
// among them, `before(n)` is asked with the number of the call, from 0; what it returns
// as an error becomes the result of the call.
class StoppingDb final : public storage::Db {
 public:
  using Before = std::function<Result<void>(int)>;
  StoppingDb(storage::Db& inner, Before before) : inner_(inner), before_(std::move(before)) {}

  int calls() const { return calls_; }

  storage::Driver driver() const override { return inner_.driver(); }
  std::string_view lock_suffix() const override { return inner_.lock_suffix(); }
  Result<uint64_t> execute(std::string_view sql, storage::Params params) override {
    if (Result<void> go = step(); !go) return std::unexpected(go.error());
    return inner_.execute(sql, params);
  }
  Result<void> query(std::string_view sql, storage::Params params,
                     Delegate<bool(const storage::Row&)> on_row) override {
    if (Result<void> go = step(); !go) return go;
    return inner_.query(sql, params, on_row);
  }
  Result<std::vector<std::string>> tables() override { return inner_.tables(); }
  Result<std::vector<std::string>> columns(std::string_view table) override { return inner_.columns(table); }
  Result<bool> has_index(std::string_view name) override { return inner_.has_index(name); }
  Result<uint64_t> foreign_commits() override { return inner_.foreign_commits(); }

 private:
  Result<void> step() { return before_(calls_++); }

  Result<void> begin(bool is_write) override {
    if (Result<void> go = step(); !go) return go;
    Result<storage::Transaction> tx =
        is_write ? storage::Transaction::write(inner_) : storage::Transaction::read(inner_);
    if (!tx) return std::unexpected(tx.error());
    transaction_.emplace(std::move(*tx));
    return {};
  }
  Result<void> commit() override {
    if (Result<void> go = step(); !go) return go;
    Result<void> done = transaction_->commit();
    transaction_.reset();
    return done;
  }
  void rollback() override { transaction_.reset(); }

  storage::Db& inner_;
  Before before_;
  int calls_ = 0;
  std::optional<storage::Transaction> transaction_;
};

// Runs `work(StoppingDb&)` in a process of its own that is killed before its n-th call of
// the database. False when the work was over before: it has fewer calls than that.
template <class Open, class Work>
bool killed_before_call(int n, Open open, Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto inner = open();
    StoppingDb db(*inner, [n](int call) -> Result<void> {
      if (call == n) ::raise(SIGKILL);
      return {};
    });
    work(db);
    if (db.calls() == n) ::raise(SIGKILL);  // behind its last call, with the connection open
    ::_exit(0);
  }
  EXPECT_GT(child, 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0) << status;
  return WIFSIGNALED(status);
}

}  // namespace tmesh::test
