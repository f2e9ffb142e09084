// A migrated database with the usual rows, for tests of the services above it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cpp/server/admin_service.hpp"
#include "cpp/server/authorizer.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::test {

// alice owns the agent `home`, which may reach *.example.com:443 by tcp; `client` is
// her token, `agent_token` the agent's.
struct ServiceFixture : testing::Test {
  TempDir dir;
  std::string path = dir.file("x.db");
  FakeClock time;
  std::unique_ptr<storage::Db> db = open_migrated(path);
  storage::UserRecord alice;
  storage::UserRecord bob;
  storage::AgentRecord home;
  storage::PolicyRecord policy;
  server::CreatedToken client;
  server::CreatedToken agent_token;

  // Runs `change(AdminService&)` and commits.
  template <class Change>
  auto change(Change change_rows) {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    EXPECT_TRUE(tx);
    server::AdminService service(*tx, time.now_us, "");
    auto made = change_rows(service);
    EXPECT_TRUE(made) << (made ? "" : made.error().text);
    EXPECT_TRUE(tx->commit());
    return made;
  }

  void SetUp() override {
    alice = *change([](server::AdminService& s) { return s.create_user("alice", "admin", "hash"); });
    bob = *change([](server::AdminService& s) { return s.create_user("bob", "user", "hash"); });
    home = *change([this](server::AdminService& s) { return s.create_agent("home", alice); });
    policy = add_policy("*.example.com:443");
    client = *change([this](server::AdminService& s) {
      return s.create_token({server::TokenType::client, alice.id, {}, {}, {}});
    });
    agent_token = *change([this](server::AdminService& s) {
      return s.create_token({server::TokenType::agent, alice.id, home.id, {}, {}});
    });
  }
  storage::PolicyRecord add_policy(const char* pattern, const char* protocol = "tcp") {
    return *change([&](server::AdminService& s) {
      return s.create_policy(home.id, *server::parse_target_pattern(pattern), protocol);
    });
  }
  // A raw UPDATE of one column of one row.
  void set(const std::string& table, const std::string& id, const std::string& column, storage::Param value) {
    const storage::Param params[] = {value, id};
    Result<uint64_t> done = db->execute("UPDATE " + table + " SET " + column + " = ? WHERE id = ?", params);
    ASSERT_TRUE(done);
    ASSERT_EQ(*done, 1U);
  }
};

}  // namespace tmesh::test
