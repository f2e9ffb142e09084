#include "cpp/server/user_service.hpp"

#include <functional>
#include <string>

#include "cpp/server/password.hpp"
#include "cpp/server/session_service.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::server {
namespace {

struct UserServiceTest : test::ServiceFixture {
  // What `work(UserService&, UserRecord&)` says when it is refused, "done" otherwise;
  // committed only then.
  template <class Work>
  std::string on(const std::string& id, Work work) {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    const ChangeScope scope(*tx, time.now_us, "user-actor");
    UserService users(scope);
    auto user = users.find(id);
    EXPECT_TRUE(user && *user);
    if (Result<void> done = work(users, **user); !done) return done.error().text;
    EXPECT_TRUE(tx->commit());
    // What the caller is told is what is stored.
    const storage::UserRecord stored = row(id);
    EXPECT_EQ((*user)->username, stored.username);
    EXPECT_EQ((*user)->role, stored.role);
    EXPECT_EQ((*user)->password_hash, stored.password_hash);
    EXPECT_EQ((*user)->is_disabled, stored.is_disabled);
    EXPECT_EQ((*user)->deleted_at, stored.deleted_at);
    EXPECT_EQ((*user)->updated_at, stored.updated_at);
    return "done";
  }
  std::string disable(const std::string& id, bool is_disabled = true) {
    return on(id,
              [&](UserService& s, storage::UserRecord& user) { return s.set_disabled(user, is_disabled); });
  }
  std::string remove(const std::string& id) {
    return on(id, [](UserService& s, storage::UserRecord& user) { return s.remove(user); });
  }
  std::string restore(const std::string& id) {
    return on(id, [](UserService& s, storage::UserRecord& user) { return s.restore(user); });
  }
  std::string set_role(const std::string& id, const char* role) {
    return on(id, [&](UserService& s, storage::UserRecord& user) { return s.set_role(user, role); });
  }
  std::string rename(const std::string& id, const std::string& name) {
    return on(id, [&](UserService& s, storage::UserRecord& user) { return s.rename(user, name); });
  }
  std::string create(const std::string& name, const char* role = "user") {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    const ChangeScope scope(*tx, time.now_us, "");
    const Result<storage::UserRecord> made = UserService(scope).create(name, role, "hash");
    if (!made) return made.error().text;
    EXPECT_TRUE(tx->commit());
    return "done";
  }
  storage::UserRecord row(const std::string& id) { return **storage::UserRepository(*db).find(id); }
  storage::AuditRecord last_entry() { return storage::AuditRepository(*db).newest(1)->front(); }
  uint64_t revision() { return *storage::read_revision(*db); }
  std::string session_of(const storage::UserRecord& user) {
    const auto made =
        *change([&](SessionService s) { return s.start(user.id, row(user.id).password_hash, 0); });
    return std::string(made.secret.reveal());
  }
  bool is_accepted(const std::string& secret) {
    return authenticate_session(*db, secret, time.now_us).has_value();
  }
};

TEST_F(UserServiceTest, NamesHaveThreeTo64OfAFewCharacters) {
  for (const std::string& name : {std::string("abc"), std::string(64, 'x'), std::string("A.b_c-9")}) {
    EXPECT_TRUE(check_username(name)) << name;
  }
  for (const std::string& name :
       {std::string("ab"), std::string(65, 'x'), std::string("a b"), std::string("a\nb"),
        std::string("abc\0", 4), std::string("abc\x7f"), std::string("\xc3\xa4\xc3\xb6\xc3\xbc"),
        std::string("ab\xff"), std::string("a'; DROP TABLE users; --"), std::string()}) {
    EXPECT_EQ(create(name), "a user name has 3 to 64 letters, digits, '.', '_' or '-'") << name;
  }
}

TEST_F(UserServiceTest, NamesDifferInMoreThanCase) {
  EXPECT_EQ(create("ALICE"),
            "the user name is taken (upper and lower case are the same; names of deleted users stay taken)");
  EXPECT_EQ(rename(bob.id, "Alice"),
            "the user name is taken (upper and lower case are the same; names of deleted users stay taken)");
  time.now_us += 1'000'000;
  EXPECT_EQ(rename(bob.id, "BOB"), "done");
  EXPECT_EQ(row(bob.id).username, "BOB");
  EXPECT_EQ(last_entry().details, R"({"username":"BOB"})");
}

TEST_F(UserServiceTest, RolesAreAdminAndUser) {
  for (const char* role : {"", "Admin", "root", "admin'--"}) {
    EXPECT_EQ(create("carol", role), "a role is admin or user");
    EXPECT_EQ(set_role(bob.id, role), "a role is admin or user");
  }
}

TEST_F(UserServiceTest, EveryChangeIsAudited) {
  const std::pair<std::function<std::string()>, const char*> changes[] = {
      {[this] { return disable(bob.id); }, "user.disable"},
      {[this] { return disable(bob.id, false); }, "user.enable"},
      {[this] { return set_role(bob.id, "admin"); }, "user.update"},
      {[this] { return rename(bob.id, "bob2"); }, "user.update"},
      {[this] { return remove(bob.id); }, "user.delete"},
      {[this] { return restore(bob.id); }, "user.restore"},
  };
  for (const auto& [run, action] : changes) {
    time.now_us += 1'000'000;
    EXPECT_EQ(run(), "done") << action;
    const storage::AuditRecord entry = last_entry();
    EXPECT_EQ(entry.action, action);
    EXPECT_EQ(entry.resource_type, "user");
    EXPECT_EQ(entry.resource_id, bob.id);
    EXPECT_EQ(entry.actor_user_id, "user-actor");
  }
}

TEST_F(UserServiceTest, RightsChangeWithTheirRevision) {
  uint64_t before = revision();
  EXPECT_EQ(disable(bob.id), "done");
  EXPECT_EQ(revision(), ++before);
  EXPECT_EQ(disable(bob.id), "done") << "is so already";
  EXPECT_EQ(revision(), before);
  EXPECT_EQ(disable(bob.id, false), "done");
  EXPECT_EQ(revision(), ++before);
  EXPECT_EQ(remove(bob.id), "done");
  EXPECT_EQ(revision(), ++before);
  EXPECT_EQ(restore(bob.id), "done");
  EXPECT_EQ(revision(), ++before);
  EXPECT_EQ(set_role(bob.id, "admin"), "done");
  EXPECT_EQ(rename(bob.id, "robert"), "done");
  EXPECT_EQ(revision(), before);
}

TEST_F(UserServiceTest, TheLastAdministratorStays) {
  EXPECT_EQ(disable(alice.id), "this is the last administrator");
  EXPECT_EQ(remove(alice.id), "this is the last administrator");
  EXPECT_EQ(set_role(alice.id, "user"), "this is the last administrator");
  EXPECT_EQ(set_role(bob.id, "admin"), "done");
  EXPECT_EQ(disable(bob.id), "done");
  EXPECT_EQ(remove(alice.id), "this is the last administrator") << "the other is disabled";
  EXPECT_EQ(disable(bob.id, false), "done");
  EXPECT_EQ(remove(alice.id), "done");
  EXPECT_EQ(set_role(bob.id, "user"), "this is the last administrator") << "the other is deleted";
}

TEST_F(UserServiceTest, WhoIsDeletedIsOnlyRestored) {
  EXPECT_EQ(restore(bob.id), "the user is not deleted");
  EXPECT_EQ(disable(bob.id), "done");
  EXPECT_EQ(remove(bob.id), "done");
  const char* deleted = "the user is deleted; restore it first";
  EXPECT_EQ(remove(bob.id), "the user is deleted already");
  EXPECT_EQ(disable(bob.id, false), deleted);
  EXPECT_EQ(set_role(bob.id, "admin"), deleted);
  EXPECT_EQ(rename(bob.id, "bob2"), deleted);
  EXPECT_EQ(on(bob.id, [](UserService& s, storage::UserRecord& u) { return s.reset_password(u, "h"); }),
            deleted);
  EXPECT_EQ(on(bob.id, [](UserService& s, storage::UserRecord& u) { return s.change_password(u, "h"); }),
            deleted);
  EXPECT_EQ(restore(bob.id), "done");
  EXPECT_TRUE(row(bob.id).is_disabled);
}

TEST_F(UserServiceTest, SessionsEndWithTheRightToThem) {
  const auto reset = [this](const std::string& id) {
    return on(id, [](UserService& s, storage::UserRecord& user) { return s.reset_password(user, "hash2"); });
  };
  const std::string of_alice = session_of(alice);
  std::string secret = session_of(bob);
  EXPECT_EQ(disable(bob.id), "done");
  EXPECT_EQ(disable(bob.id, false), "done");
  EXPECT_FALSE(is_accepted(secret)) << "not revived by enable";
  secret = session_of(bob);
  EXPECT_EQ(remove(bob.id), "done");
  EXPECT_EQ(restore(bob.id), "done");
  EXPECT_FALSE(is_accepted(secret)) << "not revived by restore";
  secret = session_of(bob);
  EXPECT_EQ(reset(bob.id), "done");
  EXPECT_FALSE(is_accepted(secret));
  secret = session_of(bob);
  EXPECT_EQ(on(bob.id, [](UserService& s, storage::UserRecord& u) { return s.change_password(u, "hash3"); }),
            "done");
  EXPECT_TRUE(is_accepted(secret)) << "the user's own change keeps them";
  EXPECT_TRUE(is_accepted(of_alice));
}

TEST_F(UserServiceTest, PasswordHashesAreInNoAuditEntry) {
  on(bob.id, [](UserService& s, storage::UserRecord& user) { return s.reset_password(user, "SECRETHASH"); });
  on(bob.id, [](UserService& s, storage::UserRecord& user) { return s.change_password(user, "SECRETHASH"); });
  EXPECT_EQ(row(bob.id).password_hash, "SECRETHASH");
  EXPECT_EQ(test::scalar(*db,
                         "SELECT COUNT(*) FROM audit_logs WHERE details LIKE '%SECRET%' OR resource_id "
                         "LIKE '%SECRET%' OR action LIKE '%SECRET%'"),
            "0");
}

TEST_F(UserServiceTest, TheFirstAdministratorIsTheOnlyOneMadeSo) {
  const auto first = [this] {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    const ChangeScope scope(*tx, time.now_us, "");
    const auto made = UserService(scope).create_first_admin("admin-1", "hash");
    return std::string(made ? made->role : made.error().text);
  };
  EXPECT_EQ(first(), "there is an administrator already");
  set("users", alice.id, "disabled", 1);
  EXPECT_EQ(first(), "there is an administrator already");
  set("users", alice.id, "deleted_at", "2027-01-01T00:00:00Z");
  EXPECT_EQ(first(), "admin");
}

TEST(Password, Has12To128Characters) {
  EXPECT_TRUE(check_password(std::string(12, 'p')));
  EXPECT_TRUE(check_password(std::string(128, 'p')));
  EXPECT_TRUE(check_password("correct horse battery \xe2\x82\xac"));
  std::string euros;
  for (int i = 0; i < 128; ++i) euros += "\xe2\x82\xac";
  EXPECT_TRUE(check_password(euros)) << "characters, not bytes";
  for (const std::string& text : {std::string(), std::string(11, 'p'), std::string(129, 'p'), euros + "x",
                                  std::string(1 << 20, 'p'), std::string("\xe2\x82\xac\xe2\x82\xac")}) {
    const Result<void> checked = check_password(text);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, TMESH_E_INVALID);
    EXPECT_STREQ(checked.error().text, "a password has 12 to 128 characters");
  }
}

TEST(Password, HasNoControlCharactersAndIsUtf8) {
  const std::string good(12, 'p');
  for (const std::string& bad :
       {std::string("\n"), std::string(1, '\0'), std::string("\x7f"), std::string("\xc2\x85"),
        std::string("\xff"), std::string("\xc0\x80"), std::string("\xed\xa0\x80")}) {
    const Result<void> checked = check_password(good + bad);
    ASSERT_FALSE(checked);
    EXPECT_STREQ(checked.error().text, "a password is UTF-8 without control characters");
  }
}

}  // namespace
}  // namespace tmesh::server
