// A migrated database with the usual rows, for tests of the services above it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cpp/server/agent_service.hpp"
#include "cpp/server/authorizer.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/server/policy_service.hpp"
#include "cpp/server/token_service.hpp"
#include "cpp/server/user_service.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/open.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::test {

inline storage::DatabaseSettings sqlite_settings(const std::string& path) {
  storage::DatabaseSettings settings;
  settings.sqlite_path = path;
  return settings;
}

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

  // Runs `change_rows` with a ChangeScope or one of the services, and commits.
  template <class Change>
  auto change(Change change_rows) {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    EXPECT_TRUE(tx);
    const server::ChangeScope scope(*tx, time.now_us, "");
    auto made = change_rows(scope);
    EXPECT_TRUE(made) << (made ? "" : made.error().text);
    EXPECT_TRUE(tx->commit());
    return made;
  }

  void SetUp() override {
    alice = *change([](server::UserService s) { return s.create("alice", "admin", "hash"); });
    bob = *change([](server::UserService s) { return s.create("bob", "user", "hash"); });
    home = *change([this](server::AgentService s) { return s.create("home", alice); });
    policy = add_policy("*.example.com:443");
    client = *change([this](server::TokenService s) {
      return s.create({server::TokenType::client, alice.id, {}, {}, {}});
    });
    agent_token = *change([this](server::TokenService s) {
      return s.create({server::TokenType::agent, alice.id, home.id, {}, {}});
    });
  }
  storage::PolicyRecord add_policy(const char* pattern, const char* protocol = "tcp") {
    return *change([&](server::PolicyService s) {
      return s.create(home.id, *server::parse_target_pattern(pattern), protocol);
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
