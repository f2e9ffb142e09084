// Which writes step the revision of rights (requirement D6), and what a revision may be, on every engine.
#include "tests/contract/contract_fixture.hpp"

namespace tmesh::storage {
namespace {

struct Write {
  const char* name;
  int steps;
  Change change;
};

// Requirement D6, "exactly these".
TEST_P(Contract, ExactlyTheWritesOfD6StepTheRevision) {
  const Write writes[] = {
      {"user create", 0, [](Transaction& tx) { return UserRepository::create(tx, user("carol")); }},
      {"user password", 0,
       [](Transaction& tx) { return UserRepository::set_password_hash(tx, "user-bob", "h", later); }},
      {"agent rename", 0,
       [](Transaction& tx) { return AgentRepository::rename(tx, "agent-home", "new", later); }},
      {"token last used", 0,
       [](Transaction& tx) { return TokenRepository::touch_last_used(tx, "stok_one", later); }},
      {"token secret read", 0,
       [](Transaction& tx) { return TokenRepository::touch_secret_read(tx, "stok_one", later); }},
      {"audit", 0,
       [](Transaction& tx) {
         return AuditRepository::append(tx, {"audit-a", "", "x", "user", "", "{}", now});
       }},
      {"user disable", 1,
       [](Transaction& tx) { return UserRepository::set_disabled(tx, "user-bob", true, later); }},
      {"user enable", 1,
       [](Transaction& tx) { return UserRepository::set_disabled(tx, "user-bob", false, later); }},
      {"user delete", 1, [](Transaction& tx) { return UserRepository::mark_deleted(tx, "user-bob", later); }},
      {"user restore", 1, [](Transaction& tx) { return UserRepository::restore(tx, "user-bob", later); }},
      {"agent create", 1, [](Transaction& tx) { return AgentRepository::create(tx, agent("two")); }},
      {"agent disable", 1,
       [](Transaction& tx) { return AgentRepository::set_enabled(tx, "agent-two", false, later); }},
      {"agent enable", 1,
       [](Transaction& tx) { return AgentRepository::set_enabled(tx, "agent-two", true, later); }},
      {"agent owner", 1,
       [](Transaction& tx) { return AgentRepository::set_owner(tx, "agent-two", "user-bob", later); }},
      {"policy create", 1,
       [](Transaction& tx) { return PolicyRepository::create(tx, policy("two", "agent-two")); }},
      {"policy update", 1,
       [](Transaction& tx) { return PolicyRepository::update(tx, policy("two", "agent-two")); }},
      {"policy delete", 1, [](Transaction& tx) { return PolicyRepository::remove(tx, "policy-two", later); }},
      {"agent delete", 1, [](Transaction& tx) { return AgentRepository::remove(tx, "agent-two", later); }},
      {"token create", 1, [](Transaction& tx) { return TokenRepository::create(tx, token("two")); }},
      {"token scope", 1,
       [](Transaction& tx) { return TokenRepository::set_scope(tx, "stok_two", "{}", later); }},
      {"token expiry", 1,
       [](Transaction& tx) { return TokenRepository::set_expiry(tx, "stok_two", later, later); }},
      {"token rotate", 1,
       [](Transaction& tx) { return TokenRepository::rotate(tx, "stok_two", token("three")); }},
      {"token revoke", 1, [](Transaction& tx) { return TokenRepository::revoke(tx, "stok_three", later); }},
  };
  fill();
  for (const Write& write : writes) {
    const uint64_t before = revision();
    must(write.change);
    EXPECT_EQ(revision() - before, static_cast<uint64_t>(write.steps)) << write.name;
  }
  EXPECT_EQ(test::scalar(*db, "SELECT updated_at FROM authorization_revision"), later);
}

TEST_P(Contract, AChangeOfNothingIsAnErrorAndStepsNothing) {
  const Write writes[] = {
      {"user disable", 0,
       [](Transaction& tx) { return UserRepository::set_disabled(tx, "none", true, now); }},
      {"user delete", 0, [](Transaction& tx) { return UserRepository::mark_deleted(tx, "none", now); }},
      {"user restore", 0, [](Transaction& tx) { return UserRepository::restore(tx, "none", now); }},
      {"user password", 0,
       [](Transaction& tx) { return UserRepository::set_password_hash(tx, "none", "h", now); }},
      {"agent enable", 0,
       [](Transaction& tx) { return AgentRepository::set_enabled(tx, "none", true, now); }},
      {"agent owner", 0, [](Transaction& tx) { return AgentRepository::set_owner(tx, "none", "x", now); }},
      {"agent rename", 0, [](Transaction& tx) { return AgentRepository::rename(tx, "none", "x", now); }},
      {"agent delete", 0, [](Transaction& tx) { return AgentRepository::remove(tx, "none", now); }},
      {"policy update", 0, [](Transaction& tx) { return PolicyRepository::update(tx, policy("none", "x")); }},
      {"policy delete", 0, [](Transaction& tx) { return PolicyRepository::remove(tx, "none", now); }},
      {"token scope", 0, [](Transaction& tx) { return TokenRepository::set_scope(tx, "none", "{}", now); }},
      {"token expiry", 0, [](Transaction& tx) { return TokenRepository::set_expiry(tx, "none", "", now); }},
      {"token revoke", 0, [](Transaction& tx) { return TokenRepository::revoke(tx, "none", now); }},
      {"token rotate", 0, [](Transaction& tx) { return TokenRepository::rotate(tx, "none", token("two")); }},
      {"token used", 0, [](Transaction& tx) { return TokenRepository::touch_last_used(tx, "none", now); }},
      {"token read", 0, [](Transaction& tx) { return TokenRepository::touch_secret_read(tx, "none", now); }},
  };
  fill();
  const uint64_t before = revision();
  for (const Write& write : writes) {
    const Result<void> done = apply(write.change);
    ASSERT_FALSE(done) << write.name;
    EXPECT_EQ(done.error().code, TMESH_E_STATE) << write.name;
  }
  EXPECT_EQ(revision(), before);
}

TEST_P(Contract, ARolledBackChangeStepsNothing) {
  fill();
  const uint64_t before = revision();
  {
    Result<Transaction> tx = Transaction::write(*db);
    ASSERT_TRUE(TokenRepository::revoke(*tx, "stok_one", now));
    EXPECT_EQ(revision(), before + 1) << "seen inside";
  }
  EXPECT_EQ(revision(), before);
  EXPECT_EQ((*TokenRepository(*db).find("stok_one"))->revoked_at, "");
}

TEST_P(Contract, WithoutARevisionNoRightsChange) {
  fill();
  test::run_sql(*db, "DELETE FROM authorization_revision");
  EXPECT_EQ(read_revision(*db).error().code, TMESH_E_INVALID);
  EXPECT_EQ(apply([](Transaction& tx) { return TokenRepository::revoke(tx, "stok_one", now); }).error().code,
            TMESH_E_INVALID);
  EXPECT_EQ((*TokenRepository(*db).find("stok_one"))->revoked_at, "");
  must([](Transaction& tx) { return TokenRepository::touch_last_used(tx, "stok_one", now); });
}

TEST_P(Contract, TheRevisionNeverPasses63Bits) {
  fill();
  test::run_sql(*db, "UPDATE authorization_revision SET revision = 9223372036854775806");
  must([](Transaction& tx) { return UserRepository::set_disabled(tx, "user-bob", true, now); });
  EXPECT_EQ(revision(), 9223372036854775807U);
  EXPECT_EQ(apply([](Transaction& tx) { return UserRepository::set_disabled(tx, "user-bob", false, now); })
                .error()
                .code,
            TMESH_E_INVALID);
  EXPECT_EQ(revision(), 9223372036854775807U);
  EXPECT_TRUE((*UserRepository(*db).find("user-bob"))->is_disabled);
}

TEST_P(Contract, AnImpossibleRevisionIsAnInconsistency) {
  test::run_sql(*db, "UPDATE authorization_revision SET revision = 9223372036854775808");
  EXPECT_EQ(read_revision(*db).error().code, TMESH_E_INVALID) << "above 63 bits";
  make_text("authorization_revision", "revision");
  for (const char* value : {"-1", "'many'", "'1.5'", "''"}) {
    test::run_sql(*db, std::string("UPDATE authorization_revision SET revision = ") + value);
    const Result<uint64_t> read = read_revision(*db);
    ASSERT_FALSE(read) << value;
    EXPECT_EQ(read.error().code, TMESH_E_INVALID) << value;
  }
}

TEST_P(Contract, TwoConnectionsSeeEachOthersCommits) {
  fill();
  std::unique_ptr<Db> other = open();
  const uint64_t before = *read_revision(*other);
  must([](Transaction& tx) { return TokenRepository::revoke(tx, "stok_one", now); });
  EXPECT_EQ(*read_revision(*other), before + 1);
  EXPECT_EQ((*TokenRepository(*other).find("stok_one"))->revoked_at, now);
}

}  // namespace
}  // namespace tmesh::storage
