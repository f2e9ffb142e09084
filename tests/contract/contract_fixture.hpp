// A database of one engine with the present schema, and records to put into it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/contract/engine.hpp"
#include "tests/contract/records.hpp"

namespace tmesh::storage {

constexpr const char* now = "2027-01-15T08:00:00Z";
constexpr const char* later = "2027-01-15T09:00:00Z";

inline UserRecord user(const std::string& name) {
  return test::user_row(name, now);
}
inline AgentRecord agent(const std::string& name) {
  return test::agent_row(name, now);
}
inline PolicyRecord policy(const std::string& name, const std::string& agent_id) {
  return test::policy_row(name, agent_id, now);
}
inline TokenRecord token(const std::string& name) {
  return test::token_row(name, now);
}

using Change = std::function<Result<void>(Transaction&)>;

class Contract : public test::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    db = open();
    const Opened<SchemaReport> report = migrate(*db, true);
    ASSERT_TRUE(report) << report.error().text;
  }
  void TearDown() override {
    db.reset();
    EngineTest::TearDown();
  }

  Result<void> apply(const Change& change) {
    Result<Transaction> tx = Transaction::write(*db);
    if (!tx) return std::unexpected(tx.error());
    if (Result<void> done = change(*tx); !done) return done;
    return tx->commit();
  }
  void must(const Change& change) {
    const Result<void> done = apply(change);
    ASSERT_TRUE(done) << done.error().text;
  }
  void fill() {
    must([](Transaction& tx) { return UserRepository::create(tx, user("alice")); });
    must([](Transaction& tx) { return UserRepository::create(tx, user("bob")); });
    must([](Transaction& tx) { return AgentRepository::create(tx, agent("home")); });
    must([](Transaction& tx) { return PolicyRepository::create(tx, policy("one", "agent-home")); });
    must([](Transaction& tx) { return TokenRepository::create(tx, token("one")); });
  }
  uint64_t revision() { return *read_revision(*db); }

  // SQLite keeps any value in any column; MySQL only what its type allows. Somebody may have
  // changed that.
  void make_text(const std::string& table, const std::string& column) {
    if (is_mysql()) {
      test::run_sql(*db, "ALTER TABLE " + table + " MODIFY COLUMN " + column + " VARCHAR(64) NOT NULL");
    }
  }

  std::unique_ptr<Db> db;
};

}  // namespace tmesh::storage
