// Users, sessions and the audit log on both engines.
#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/session_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::storage {
namespace {

constexpr const char* now = "2027-01-15T08:00:00Z";
constexpr const char* later = "2027-01-15T09:00:00Z";

class People : public test::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped()) return;
    db = open();
    ASSERT_TRUE(migrate(*db, true));
  }
  template <class Work>
  void must(Work work) {
    const auto done = change(*db, work);
    ASSERT_TRUE(done) << done.error().text;
  }
  void add_user(const std::string& name, const char* role = "user") {
    must([&](Transaction& tx) {
      return UserRepository::create(tx, {"user-" + name, name, role, "hash", false, "", now, now});
    });
  }
  void add_session(const std::string& name, const char* created = now, const char* expires = "") {
    must([&](Transaction& tx) {
      return SessionRepository::create(
          tx, {"session-" + name, "user-alice", "hash-of-" + name, expires, "", created});
    });
  }
  void add_entry(const std::string& id, const std::string& created, const std::string& action = "user.create",
                 const std::string& actor = "", const std::string& resource = "user-alice") {
    must([&](Transaction& tx) {
      return AuditRepository::append(tx, {"audit-" + id, actor, action, "user", resource, "{}", created});
    });
  }
  std::string listed(UserFilter filter) {
    const Result<Page<UserRecord>> page = UserRepository(*db).list({}, filter);
    EXPECT_TRUE(page);
    std::string names;
    for (const UserRecord& user : page->items) names += user.username + ' ';
    return names;
  }
  // The ids without "audit-".
  std::string entries(const AuditFilter& filter, AuditPageRequest request = {}) {
    const Result<Page<AuditRecord>> page = AuditRepository(*db).list(request, filter);
    if (!page) return page.error().text;
    std::string ids;
    for (const AuditRecord& entry : page->items) ids += entry.id.substr(6) + ' ';
    return ids + (page->has_more ? "..." : "");
  }
  bool is_revoked(const std::string& name) {
    const auto found = SessionRepository(*db).find_by_hash("hash-of-" + name, "-");
    EXPECT_TRUE(found && *found);
    return !(*found)->revoked_at.empty();
  }

  std::unique_ptr<Db> db;
};

TEST_P(People, UsersAreListedByStatus) {
  add_user("alice");
  add_user("bob");
  add_user("carol");
  must([](Transaction& tx) { return UserRepository::set_disabled(tx, "user-alice", true, now); });
  must([](Transaction& tx) { return UserRepository::mark_deleted(tx, "user-bob", now); });
  EXPECT_EQ(listed(UserFilter::active), "alice carol ");
  EXPECT_EQ(listed(UserFilter::deleted), "bob ");
  EXPECT_EQ(listed(UserFilter::all), "alice bob carol ");
}

TEST_P(People, UserNamesAreFoundByteByByte) {
  add_user("Alice");
  EXPECT_TRUE(*UserRepository(*db).find_by_username("Alice"));
  for (const char* other : {"alice", "ALICE", "Alice ", "\xc3\x81lice", ""}) {
    EXPECT_FALSE(*UserRepository(*db).find_by_username(other)) << other;
  }
}

TEST_P(People, ANameIsTakenInAnyCase) {
  add_user("Alice");
  EXPECT_TRUE(*UserRepository(*db).is_username_taken("aLICE"));
  EXPECT_FALSE(*UserRepository(*db).is_username_taken("aLICE", "user-Alice"));
  EXPECT_FALSE(*UserRepository(*db).is_username_taken("alic"));
  EXPECT_FALSE(*UserRepository(*db).is_username_taken("alice%"));
  must([](Transaction& tx) { return UserRepository::mark_deleted(tx, "user-Alice", now); });
  EXPECT_TRUE(*UserRepository(*db).is_username_taken("alice"));
}

TEST_P(People, AdministratorsAreCounted) {
  for (const char* name : {"alice", "bob", "carol"}) add_user(name, "admin");
  add_user("dave");
  must([](Transaction& tx) { return UserRepository::set_disabled(tx, "user-alice", true, now); });
  must([](Transaction& tx) { return UserRepository::mark_deleted(tx, "user-bob", now); });
  EXPECT_EQ(*UserRepository(*db).count_active_admins(), 1);
  EXPECT_EQ(*UserRepository(*db).count_admins(), 2);
  must([](Transaction& tx) { return UserRepository::set_role(tx, "user-carol", "user", now); });
  must([](Transaction& tx) -> Result<void> {
    EXPECT_EQ(*UserRepository(tx).count_active_admins(), 0);
    return {};
  });
}

TEST_P(People, NameRoleAndPasswordAreNoRights) {
  add_user("alice");
  const uint64_t before = *read_revision(*db);
  must([](Transaction& tx) { return UserRepository::set_role(tx, "user-alice", "admin", later); });
  must([](Transaction& tx) { return UserRepository::set_username(tx, "user-alice", "alice2", later); });
  must([](Transaction& tx) { return UserRepository::set_password_hash(tx, "user-alice", "h2", later); });
  add_session("one");
  must([](Transaction& tx) { return SessionRepository::revoke_all_of_user(tx, "user-alice", later); });
  EXPECT_EQ(*read_revision(*db), before);
  const auto user = *UserRepository(*db).find("user-alice");
  EXPECT_EQ(user->username + user->role + user->password_hash + user->updated_at,
            std::string("alice2") + "admin" + "h2" + later);
}

TEST_P(People, AReadForAChangeHoldsTheRow) {
  add_user("alice");
  const std::unique_ptr<Db> other = open(100);
  Result<Transaction> tx = Transaction::write(*db);
  ASSERT_TRUE(tx);
  ASSERT_TRUE(UserRepository(*tx).find("user-alice"));
  const auto meanwhile =
      change(*other, [](Transaction& t) { return UserRepository::set_role(t, "user-alice", "admin", now); });
  ASSERT_FALSE(meanwhile);
  EXPECT_EQ(meanwhile.error().code, TMESH_E_TIMEOUT);
}

TEST_P(People, SessionsAreFoundByEitherSpellingOfTheirHash) {
  add_session("one", now, later);
  const auto found = SessionRepository(*db).find_by_hash("hash-of-one", "x");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->id, "session-one");
  EXPECT_EQ((*found)->user_id, "user-alice");
  EXPECT_EQ((*found)->expires_at, later);
  EXPECT_EQ((*found)->revoked_at, "");
  EXPECT_EQ((*found)->created_at, now);
  EXPECT_TRUE(*SessionRepository(*db).find_by_hash("x", "hash-of-one"));
  EXPECT_FALSE(*SessionRepository(*db).find_by_hash("HASH-OF-ONE", "x"));
}

TEST_P(People, RevokedSessionsKeepTheTimeOfIt) {
  add_session("one");
  must([](Transaction& tx) -> Result<void> {
    EXPECT_EQ(*SessionRepository::revoke(tx, "session-one", now), 1U);
    EXPECT_EQ(*SessionRepository::revoke(tx, "session-one", later), 0U);
    EXPECT_EQ(*SessionRepository::revoke(tx, "session-two", later), 0U);
    EXPECT_EQ(*SessionRepository::revoke_all_of_user(tx, "user-alice", later), 0U);
    return {};
  });
  EXPECT_EQ((*SessionRepository(*db).find_by_hash("hash-of-one", "x"))->revoked_at, now);
}

TEST_P(People, TheOldestLiveSessionsAreRevoked) {
  add_session("expired", "2027-01-15T07:00:05Z", "2027-01-15T07:30:00Z");
  add_session("first", "2027-01-15T07:00:01Z");
  add_session("second", "2027-01-15T07:00:02Z");
  add_session("third", "2027-01-15T07:00:03Z", later);
  must([](Transaction& tx) -> Result<void> {
    EXPECT_EQ(*SessionRepository::revoke_oldest(tx, "user-bob", 0, now), 0U);
    EXPECT_EQ(*SessionRepository::revoke_oldest(tx, "user-alice", 2, now), 1U);
    EXPECT_EQ(*SessionRepository::revoke_oldest(tx, "user-alice", 2, now), 0U);
    return {};
  });
  EXPECT_TRUE(is_revoked("first"));
  EXPECT_FALSE(is_revoked("second"));
  EXPECT_FALSE(is_revoked("third"));
  EXPECT_FALSE(is_revoked("expired"));
}

TEST_P(People, EndedSessionsArePurgedInBatches) {
  add_session("live");
  add_session("later", now, "2027-02-01T00:00:00Z");
  for (const char* name : {"a", "b", "c"}) add_session(name, now, "2027-01-15T08:30:00Z");
  add_session("revoked");
  must([](Transaction& tx) { return SessionRepository::revoke(tx, "session-revoked", now); });
  must([](Transaction& tx) -> Result<void> {
    EXPECT_EQ(*SessionRepository::purge(tx, now, 100), 0U);
    EXPECT_EQ(*SessionRepository::purge(tx, later, 3), 3U);
    EXPECT_EQ(*SessionRepository::purge(tx, later, 3), 1U);
    return {};
  });
  EXPECT_EQ(test::scalar(*db, "SELECT COUNT(*) FROM api_tokens"), "2");
}

TEST_P(People, AuditFiltersAreExact) {
  add_entry("1", now, "user.create", "user-alice");
  add_entry("2", now, "user.delete", "user-bob", "user-carol");
  EXPECT_EQ(entries({}), "2 1 ");
  EXPECT_EQ(entries({.actor_user_id = "user-alice"}), "1 ");
  EXPECT_EQ(entries({.action = "user.delete"}), "2 ");
  EXPECT_EQ(entries({.resource_type = "user"}), "2 1 ");
  EXPECT_EQ(entries({.resource_id = "user-carol"}), "2 ");
  EXPECT_EQ(entries({.actor_user_id = "user-alice", .action = "user.delete"}), "");
  for (const char* other : {"USER.DELETE", "user.delete ", "user.%", "user.d\xc3\xa9lete", "' OR 1=1 --"}) {
    EXPECT_EQ(entries({.action = other}), "") << other;
    EXPECT_EQ(entries({.resource_type = other}), "") << other;
    EXPECT_EQ(entries({.actor_user_id = other}), "") << other;
    EXPECT_EQ(entries({.resource_id = other}), "") << other;
  }
}

TEST_P(People, AuditTimesAreInclusiveAlsoBetweenSeconds) {
  add_entry("1", "2027-01-15T08:00:00Z");
  add_entry("2", "2027-01-15T08:00:00.4Z");
  add_entry("3", "2027-01-15T08:00:00.5Z");
  add_entry("4", "2027-01-15T08:00:00.51Z");
  add_entry("5", "2027-01-15T08:00:01Z");
  const auto from = [this](const char* time) {
    std::string ids = entries({.created_from = time});
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  const auto to = [this](const char* time) {
    std::string ids = entries({.created_to = time});
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  EXPECT_EQ(from("2027-01-15T08:00:00Z"), "     12345");
  EXPECT_EQ(from("2027-01-15T08:00:00.000Z"), "     12345");
  EXPECT_EQ(from("2027-01-15T08:00:00.5Z"), "   345");
  EXPECT_EQ(from("2027-01-15T08:00:00.50Z"), "   345");
  EXPECT_EQ(from("2027-01-15T08:00:00.505Z"), "  45");
  EXPECT_EQ(from("2027-01-15T08:00:01Z"), " 5");
  EXPECT_EQ(from("2027-01-15T08:00:01.1Z"), "");
  EXPECT_EQ(to("2027-01-15T07:59:59.9Z"), "");
  EXPECT_EQ(to("2027-01-15T08:00:00Z"), " 1");
  EXPECT_EQ(to("2027-01-15T08:00:00.5Z"), "   123");
  EXPECT_EQ(to("2027-01-15T08:00:00.500Z"), "   123");
  EXPECT_EQ(to("2027-01-15T08:00:01Z"), "     12345");
}

TEST_P(People, AuditIsReadPageByPage) {
  add_entry("1", "2027-01-15T08:00:01Z");
  add_entry("2a", "2027-01-15T08:00:02Z");
  add_entry("2b", "2027-01-15T08:00:02Z");
  add_entry("3", "2027-01-15T08:00:03Z");
  EXPECT_EQ(entries({}, {"", "", 2}), "3 2b ...");
  EXPECT_EQ(entries({}, {"2027-01-15T08:00:02Z", "audit-2b", 2}), "2a 1 ");
  // Also where the entry itself is gone.
  EXPECT_EQ(entries({}, {"2027-01-15T08:00:02Z", "audit-2aa", 2}), "2a 1 ");
  // By the id alone.
  EXPECT_EQ(entries({}, {"", "audit-2b", 1}), "2a ...");
  EXPECT_EQ(entries({}, {"", "audit-gone", 1}), "the entry that the list was to go on behind is gone");
}

TEST_P(People, TheOldestAuditEntriesArePurgedFirst) {
  add_entry("3", "2027-01-15T08:00:03Z");
  add_entry("1", "2027-01-15T08:00:01Z");
  add_entry("2", "2027-01-15T08:00:02Z");
  must([](Transaction& tx) -> Result<void> {
    EXPECT_EQ(*AuditRepository::purge(tx, "2027-01-15T08:00:03Z", 1), 1U);
    return {};
  });
  EXPECT_EQ(entries({}), "3 2 ");
  must([](Transaction& tx) -> Result<void> {
    EXPECT_EQ(*AuditRepository::purge(tx, "2027-01-15T08:00:03Z", 10), 1U);
    EXPECT_EQ(*AuditRepository::purge(tx, "2027-01-15T08:00:03Z", 10), 0U);
    return {};
  });
  EXPECT_EQ(entries({}), "3 ");
}

TMESH_BOTH_ENGINES(People);

}  // namespace
}  // namespace tmesh::storage
