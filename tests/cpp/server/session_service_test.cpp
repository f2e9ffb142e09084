#include "cpp/server/session_service.hpp"

#include "cpp/server/token_hash.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::server {
namespace {

struct SessionServiceTest : test::ServiceFixture {
  NewSession start(const storage::UserRecord& user, uint64_t ttl_us = 0) {
    return *change([&](SessionService s) { return s.start(user.id, user.password_hash, ttl_us); });
  }
  // "done", or the error's code and text.
  std::string try_start(std::string_view id, std::string_view hash) {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    const ChangeScope scope(*tx, time.now_us, std::string(id));
    const auto made = SessionService(scope).start(id, hash, 0);
    if (made) return "done";
    EXPECT_EQ(made.error().code, TMESH_E_POLICY);
    return made.error().text;
  }
  // The user's name, or what a refusal says.
  std::string who(std::string_view secret) {
    const Result<LiveSession> found = authenticate_session(*db, secret, time.now_us);
    if (found) return found->user.username;
    EXPECT_EQ(found.error().code, TMESH_E_POLICY);
    return found.error().text;
  }
  std::string who(const NewSession& session) { return who(session.secret.reveal()); }
  size_t live_count() {
    return static_cast<size_t>(
        std::stoi(test::scalar(*db, "SELECT COUNT(*) FROM api_tokens WHERE revoked_at IS NULL")));
  }
};

constexpr const char* refused = "no live session has this token";

TEST_F(SessionServiceTest, ASecretNamesItsUserAndSession) {
  const NewSession session = start(bob);
  EXPECT_EQ(session.secret.size(), 43U);
  EXPECT_EQ(session.user.id, bob.id);
  EXPECT_EQ(session.expires_at, "");
  const Result<LiveSession> found = authenticate_session(*db, session.secret.reveal(), time.now_us);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->user.id, bob.id);
  EXPECT_EQ(found->session_id, session.session_id);
  EXPECT_NE(start(bob).secret.reveal(), session.secret.reveal());
}

TEST_F(SessionServiceTest, OnlyTheDigestIsStored) {
  const NewSession session = start(bob);
  EXPECT_EQ(test::scalar(*db, "SELECT token_hash FROM api_tokens"),
            digest_token(session.secret.reveal()).hex);
  for (const char* table : {"api_tokens", "audit_logs", "users"}) {
    const auto columns = *db->columns(table);
    for (const std::string& column : columns) {
      const std::string secret(session.secret.reveal());
      EXPECT_EQ(test::scalar(*db, "SELECT COUNT(*) FROM " + std::string(table) + " WHERE " + column +
                                      " LIKE '%" + secret + "%'"),
                "0");
    }
  }
}

TEST_F(SessionServiceTest, OtherSecretsAreRefused) {
  const NewSession session = start(bob);
  const std::string secret(session.secret.reveal());
  const TokenDigest digest = digest_token(secret);
  for (const std::string& other :
       {std::string(), secret + "x", secret.substr(1), digest.hex, digest.base64url, std::string(513, 'x'),
        std::string("' OR 1=1 --"), std::string("%"), std::string(client.secret.reveal()),
        std::string("\xff\xfe")}) {
    EXPECT_EQ(who(other), refused) << other;
  }
}

TEST_F(SessionServiceTest, RowsOfOlderProgramsMayHoldTheDigestAsBase64url) {
  const NewSession session = start(bob);
  set("api_tokens", session.session_id, "token_hash", digest_token(session.secret.reveal()).base64url);
  EXPECT_EQ(who(session), "bob");
}

TEST_F(SessionServiceTest, TheDigestIsComparedWhole) {
  const NewSession session = start(bob);
  std::string upper = digest_token(session.secret.reveal()).hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  set("api_tokens", session.session_id, "token_hash", upper);
  EXPECT_EQ(who(session), refused);
}

TEST_F(SessionServiceTest, EndsAtItsExpiry) {
  const NewSession session = start(bob, 3'600'000'000);
  EXPECT_EQ(session.expires_at, "2027-01-15T09:00:00Z");
  time.now_us += 3'599'999'999;
  EXPECT_EQ(who(session), "bob");
  time.now_us += 1;
  EXPECT_EQ(who(session), refused);
}

TEST_F(SessionServiceTest, AnExpiryThatCannotBeReadHasPassed) {
  const NewSession session = start(bob);
  set("api_tokens", session.session_id, "expires_at", "never");
  EXPECT_EQ(who(session), refused);
}

TEST_F(SessionServiceTest, WithoutAnExpiryItLasts) {
  const NewSession session = start(bob, 0);
  time.now_us += 100LL * 365 * 86'400'000'000;
  EXPECT_EQ(who(session), "bob");
}

TEST_F(SessionServiceTest, EndedSessionsAreRefusedAndOthersGoOn) {
  const NewSession first = start(bob);
  const NewSession second = start(bob);
  ASSERT_TRUE(change([&](SessionService s) { return s.end(first.session_id); }));
  EXPECT_EQ(who(first), refused);
  EXPECT_EQ(who(second), "bob");
  ASSERT_TRUE(change([&](SessionService s) { return s.end(first.session_id); })) << "again: no change";
  ASSERT_TRUE(change([&](SessionService s) { return s.end("session-gone"); }));
}

TEST_F(SessionServiceTest, RowsOfTheUserCountToo) {
  const NewSession session = start(bob);
  // As another program would leave it, which does not know our sessions.
  set("users", bob.id, "disabled", 1);
  EXPECT_EQ(who(session), refused);
  set("users", bob.id, "disabled", 0);
  EXPECT_EQ(who(session), "bob");
  set("users", bob.id, "deleted_at", "2027-01-01T00:00:00Z");
  EXPECT_EQ(who(session), refused);
  set("api_tokens", session.session_id, "user_id", "user-gone");
  EXPECT_EQ(who(session), refused);
}

TEST_F(SessionServiceTest, StartsOnlyForWhoStillHasThatPassword) {
  const char* refusal = "the user may not log in, or has another password by now";
  EXPECT_EQ(try_start(bob.id, bob.password_hash), "done");
  EXPECT_EQ(try_start(bob.id, "another hash"), refusal);
  EXPECT_EQ(try_start(bob.id, ""), refusal);
  EXPECT_EQ(try_start("user-gone", bob.password_hash), refusal);
  set("users", bob.id, "disabled", 1);
  EXPECT_EQ(try_start(bob.id, bob.password_hash), refusal);
  set("users", bob.id, "disabled", 0);
  set("users", bob.id, "deleted_at", "2027-01-01T00:00:00Z");
  EXPECT_EQ(try_start(bob.id, bob.password_hash), refusal);
}

TEST_F(SessionServiceTest, TheOldestEndsBeyondTheBound) {
  const NewSession first = start(bob);
  time.now_us += 1'000'000;
  const NewSession second = start(bob);
  const NewSession of_alice = start(alice);
  for (int i = 2; i < SessionService::live_sessions_max; ++i) {
    time.now_us += 1'000'000;
    start(bob);
  }
  EXPECT_EQ(who(first), "bob");
  time.now_us += 1'000'000;
  const NewSession last = start(bob);
  EXPECT_EQ(who(first), refused);
  EXPECT_EQ(who(second), "bob");
  EXPECT_EQ(who(last), "bob");
  EXPECT_EQ(who(of_alice), "alice");
  EXPECT_EQ(live_count(), static_cast<size_t>(SessionService::live_sessions_max) + 1);
}

TEST_F(SessionServiceTest, ALoginIsAuditedAsTheUsers) {
  Result<storage::Transaction> tx = storage::Transaction::write(*db);
  const ChangeScope scope(*tx, time.now_us + 1'000'000, bob.id);
  ASSERT_TRUE(SessionService(scope).start(bob.id, bob.password_hash, 0));
  ASSERT_TRUE(tx->commit());
  const storage::AuditRecord entry = storage::AuditRepository(*db).newest(1)->front();
  EXPECT_EQ(entry.action, "user.login");
  EXPECT_EQ(entry.actor_user_id, bob.id);
  EXPECT_EQ(entry.resource_id, bob.id);
  EXPECT_EQ(entry.details, "{}");
}

TEST_F(SessionServiceTest, ABrokenDatabaseIsNoRefusal) {
  const NewSession session = start(bob);
  test::run_sql(*db, "ALTER TABLE api_tokens RENAME TO elsewhere");
  const Result<LiveSession> found = authenticate_session(*db, session.secret.reveal(), time.now_us);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, TMESH_E_IO);
}

}  // namespace
}  // namespace tmesh::server
