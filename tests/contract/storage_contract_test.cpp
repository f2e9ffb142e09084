// What every database driver must do, as one suite over all drivers (requirement
// K9). A driver that cannot be tested here says "deferred" and is never silent.
#include "tests/contract/contract_fixture.hpp"

namespace tmesh::storage {
namespace {

TEST_P(Contract, UsersKeepTheirValues) {
  UserRecord alice = user("alice");
  alice.role = "admin";
  must([&](Transaction& tx) { return UserRepository::create(tx, alice); });
  const auto found = *UserRepository(*db).find("user-alice");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->username, "alice");
  EXPECT_EQ(found->role, "admin");
  EXPECT_EQ(found->password_hash, "hash");
  EXPECT_FALSE(found->is_disabled);
  EXPECT_EQ(found->deleted_at, "");
  EXPECT_EQ(found->created_at, now);
  EXPECT_FALSE(*UserRepository(*db).find("user-nobody"));
  EXPECT_EQ((*UserRepository(*db).find_by_username("alice"))->id, "user-alice");
  must([](Transaction& tx) { return UserRepository::set_password_hash(tx, "user-alice", "other", later); });
  must([](Transaction& tx) { return UserRepository::set_disabled(tx, "user-alice", true, later); });
  EXPECT_EQ((*UserRepository(*db).find("user-alice"))->password_hash, "other");
  EXPECT_TRUE((*UserRepository(*db).find("user-alice"))->is_disabled);
  EXPECT_EQ((*UserRepository(*db).find("user-alice"))->updated_at, later);
}

TEST_P(Contract, ActiveAdminsAreCounted) {
  for (const char* name : {"a-one", "a-two", "a-three"}) {
    UserRecord admin = user(name);
    admin.role = "admin";
    must([&](Transaction& tx) { return UserRepository::create(tx, admin); });
  }
  must([](Transaction& tx) { return UserRepository::create(tx, user("plain")); });
  EXPECT_EQ(*UserRepository(*db).count_active_admins(), 3);
  must([](Transaction& tx) { return UserRepository::set_disabled(tx, "user-a-one", true, now); });
  must([](Transaction& tx) { return UserRepository::mark_deleted(tx, "user-a-two", now); });
  EXPECT_EQ(*UserRepository(*db).count_active_admins(), 1);
}

TEST_P(Contract, ADeletedUserKeepsItsNameAndCanBeRestored) {
  must([](Transaction& tx) { return UserRepository::create(tx, user("alice")); });
  must([](Transaction& tx) { return UserRepository::mark_deleted(tx, "user-alice", later); });
  EXPECT_EQ((*UserRepository(*db).find_by_username("alice"))->deleted_at, later);
  UserRecord again = user("alice");
  again.id = "user-other";
  EXPECT_EQ(apply([&](Transaction& tx) { return UserRepository::create(tx, again); }).error().code,
            TMESH_E_STATE);
  EXPECT_EQ(
      apply([](Transaction& tx) { return UserRepository::mark_deleted(tx, "user-alice", now); }).error().code,
      TMESH_E_STATE);
  must([](Transaction& tx) { return UserRepository::restore(tx, "user-alice", now); });
  EXPECT_EQ((*UserRepository(*db).find("user-alice"))->deleted_at, "");
  EXPECT_EQ(
      apply([](Transaction& tx) { return UserRepository::restore(tx, "user-alice", now); }).error().code,
      TMESH_E_STATE);
}

TEST_P(Contract, AgentsAreFoundByIdAndName) {
  fill();
  AgentRecord twin = agent("twin");
  twin.name = "home";
  must([&](Transaction& tx) { return AgentRepository::create(tx, twin); });
  EXPECT_EQ((*AgentRepository(*db).find("agent-home"))->owner_user_id, "user-alice");
  EXPECT_EQ(AgentRepository(*db).find_by_name("home")->size(), 2U);
  EXPECT_TRUE(AgentRepository(*db).find_by_name("none")->empty());
  must([](Transaction& tx) { return AgentRepository::rename(tx, "agent-twin", "second", later); });
  must([](Transaction& tx) { return AgentRepository::set_enabled(tx, "agent-twin", false, later); });
  must([](Transaction& tx) { return AgentRepository::set_owner(tx, "agent-twin", "user-bob", later); });
  const auto found = *AgentRepository(*db).find("agent-twin");
  EXPECT_EQ(found->name, "second");
  EXPECT_FALSE(found->is_enabled);
  EXPECT_EQ(found->owner_user_id, "user-bob");
  EXPECT_EQ(AgentRepository(*db).list({}, "user-bob")->items.size(), 1U);
  EXPECT_EQ(AgentRepository(*db).list({})->items.size(), 2U);
}

// Also where somebody else made the table, with a comparison that is not so exact.
TEST_P(Contract, AgentNamesAreComparedByteByByte) {
  fill();
  int made = 0;
  for (const char* name : {"Home", "home ", "h\xc3\xb6me"}) {
    AgentRecord twin = agent("twin" + std::to_string(++made));
    twin.name = name;
    must([&](Transaction& tx) { return AgentRepository::create(tx, twin); });
  }
  for (const char* others : {"utf8mb4 COLLATE utf8mb4_general_ci", "latin1"}) {
    if (is_mysql()) {
      test::run_sql(*db, std::string("ALTER TABLE agents CONVERT TO CHARACTER SET ") + others);
    }
    for (const char* name : {"home", "Home", "home ", "h\xc3\xb6me"}) {
      const auto found = AgentRepository(*db).find_by_name(name);
      ASSERT_TRUE(found) << found.error().text;
      ASSERT_EQ(found->size(), 1U) << name << ' ' << others;
      EXPECT_EQ(found->front().name, name);
    }
    EXPECT_TRUE(AgentRepository(*db).find_by_name("HOME")->empty());
  }
}

TEST_P(Contract, AFreshSchemaTellsUpperFromLowerCase) {
  must([](Transaction& tx) { return UserRepository::create(tx, user("alice")); });
  UserRecord other = user("Alice");
  must([&](Transaction& tx) { return UserRepository::create(tx, other); });
  for (const char* name : {"Alice", "alice"}) {
    const auto found = *UserRepository(*db).find_by_username(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->id, std::string("user-") + name);
  }
  EXPECT_FALSE(*UserRepository(*db).find_by_username("ALICE"));
  EXPECT_FALSE(*UserRepository(*db).find_by_username("alice "));
}

TEST_P(Contract, RemovingAnAgentRemovesItsPoliciesOnly) {
  fill();
  must([](Transaction& tx) { return AgentRepository::create(tx, agent("other")); });
  must([](Transaction& tx) { return PolicyRepository::create(tx, policy("two", "agent-other")); });
  must([](Transaction& tx) { return AgentRepository::remove(tx, "agent-home", now); });
  EXPECT_FALSE(*AgentRepository(*db).find("agent-home"));
  EXPECT_FALSE(*PolicyRepository(*db).find("policy-one"));
  EXPECT_TRUE(*PolicyRepository(*db).find("policy-two"));
}

TEST_P(Contract, PoliciesKeepTheirValues) {
  fill();
  PolicyRecord changed = policy("one", "ignored");
  changed.target_host = "10.0.0.0/8";
  changed.target_port = 0;
  changed.protocol = "udp";
  changed.allowed_cidrs = "[\"10.1.0.0/16\"]";
  changed.allowed_ports = "[]";
  changed.updated_at = later;
  must([&](Transaction& tx) { return PolicyRepository::update(tx, changed); });
  const auto found = *PolicyRepository(*db).find("policy-one");
  EXPECT_EQ(found->agent_id, "agent-home");
  EXPECT_EQ(found->target_host, "10.0.0.0/8");
  EXPECT_EQ(found->target_port, 0);
  EXPECT_EQ(found->protocol, "udp");
  EXPECT_EQ(found->allowed_cidrs, "[\"10.1.0.0/16\"]");
  EXPECT_EQ(found->updated_at, later);
  EXPECT_EQ(found->created_at, now);
}

TEST_P(Contract, TokensAreFoundByEitherSpellingOfTheirHash) {
  fill();
  EXPECT_EQ((*TokenRepository(*db).find_by_hash("hash-of-one", "x"))->id, "stok_one");
  EXPECT_EQ((*TokenRepository(*db).find_by_hash("x", "hash-of-one"))->id, "stok_one");
  EXPECT_FALSE(*TokenRepository(*db).find_by_hash("x", "y"));
  TokenRecord twin = token("two");
  twin.token_hash = "hash-of-one";
  EXPECT_EQ(apply([&](Transaction& tx) { return TokenRepository::create(tx, twin); }).error().code,
            TMESH_E_STATE);
}

TEST_P(Contract, AbsentTokenValuesAreNull) {
  fill();
  const auto found = *TokenRepository(*db).find("stok_one");
  EXPECT_EQ(found->agent_id + found->node_id + found->expires_at + found->revoked_at + found->last_used_at,
            "");
  EXPECT_EQ(test::scalar(*db,
                         "SELECT COUNT(*) FROM service_tokens WHERE agent_id IS NULL AND node_id IS NULL AND "
                         "expires_at IS NULL AND revoked_at IS NULL AND last_used_at IS NULL"),
            "1");
}

TEST_P(Contract, ATokenIsRevokedOnce) {
  fill();
  must([](Transaction& tx) { return TokenRepository::revoke(tx, "stok_one", later); });
  EXPECT_EQ((*TokenRepository(*db).find("stok_one"))->revoked_at, later);
  EXPECT_EQ(apply([](Transaction& tx) { return TokenRepository::revoke(tx, "stok_one", now); }).error().code,
            TMESH_E_STATE);
  EXPECT_EQ((*TokenRepository(*db).find("stok_one"))->revoked_at, later);
}

TEST_P(Contract, RotationReplacesATokenInOneUnit) {
  fill();
  must([](Transaction& tx) { return TokenRepository::rotate(tx, "stok_one", token("two")); });
  EXPECT_NE((*TokenRepository(*db).find("stok_one"))->revoked_at, "");
  EXPECT_EQ((*TokenRepository(*db).find("stok_two"))->revoked_at, "");
  // The second half fails: the first is undone.
  TokenRecord twin = token("three");
  twin.token_hash = "hash-of-two";
  EXPECT_FALSE(apply([&](Transaction& tx) { return TokenRepository::rotate(tx, "stok_two", twin); }));
  EXPECT_EQ((*TokenRepository(*db).find("stok_two"))->revoked_at, "");
}

TEST_P(Contract, ListsComeInPagesInIdOrder) {
  for (const char* name : {"c", "a", "e", "b", "d"}) {
    must([&](Transaction& tx) { return TokenRepository::create(tx, token(name)); });
  }
  TokenRepository tokens(*db);
  PageRequest next{"", 2};
  std::string seen;
  int pages = 0;
  while (true) {
    const auto page = tokens.list(next);
    ASSERT_TRUE(page);
    ++pages;
    for (const TokenRecord& item : page->items) seen += item.id.back();
    if (!page->has_more) break;
    next.after_id = page->items.back().id;
  }
  EXPECT_EQ(seen, "abcde");
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(tokens.list({"", 0})->items.size(), 1U) << "a limit below 1 is 1";
  EXPECT_EQ(tokens.list({"", 100'000})->items.size(), 5U);
  EXPECT_FALSE(tokens.list({"", 5})->has_more) << "exactly full";
}

TEST_P(Contract, AuditEntriesComeNewestFirst) {
  must([](Transaction& tx) {
    return AuditRepository::append(tx, {"audit-a", "", "user.create", "user", "user-alice", "{}", now});
  });
  must([](Transaction& tx) {
    return AuditRepository::append(tx, {"audit-b", "user-alice", "user.delete", "user", "", "{}", later});
  });
  const auto entries = *AuditRepository(*db).newest(10);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].action, "user.delete");
  EXPECT_EQ(entries[0].actor_user_id, "user-alice");
  EXPECT_EQ(entries[1].resource_id, "user-alice");
  EXPECT_EQ(AuditRepository(*db).newest(1)->size(), 1U);
}

TEST_P(Contract, NodesTellWhetherTheyLive) {
  test::run_sql(
      *db,
      "INSERT INTO server_nodes (id, name, address, metadata, enabled, expires_at, created_at, updated_at) "
      "VALUES ('server-1', 'one', 'x', '{}', 0, '2027-01-15T08:00:00Z', 'x', 'x')");
  const auto node = *NodeRepository(*db).find("server-1");
  ASSERT_TRUE(node);
  EXPECT_FALSE(node->is_enabled);
  EXPECT_EQ(node->expires_at, now);
  EXPECT_EQ(node->deleted_at, "");
  EXPECT_FALSE(*NodeRepository(*db).find("server-2"));
}

TEST_P(Contract, AMalformedRowIsAnErrorAndNotADefault) {
  fill();
  make_text("users", "disabled");
  test::run_sql(*db, "UPDATE users SET disabled = 'no' WHERE id = 'user-alice'");
  EXPECT_EQ(UserRepository(*db).find("user-alice").error().code, TMESH_E_INVALID);
  test::run_sql(*db, "UPDATE agents SET enabled = 2");
  EXPECT_EQ(AgentRepository(*db).find("agent-home").error().code, TMESH_E_INVALID);
  make_text("agent_policies", "target_port");
  test::run_sql(*db, "UPDATE agent_policies SET target_port = 'https'");
  EXPECT_EQ(PolicyRepository(*db).list({}, "agent-home").error().code, TMESH_E_INVALID);
}

TMESH_BOTH_ENGINES(Contract);

}  // namespace
}  // namespace tmesh::storage
