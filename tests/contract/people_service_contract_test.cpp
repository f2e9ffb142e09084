// Two programs that administer the same database at once.
#include <thread>

#include "cpp/server/session_service.hpp"
#include "cpp/server/user_service.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/session_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::server {
namespace {

constexpr int64_t now_us = 1'800'000'000'000'000;

class PeopleAtOnce : public test::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    first = open(10'000);
    second = open(10'000);
    ASSERT_TRUE(storage::migrate(*first, true));
  }
  // Runs both at once, each on its own connection and with the retries that commands and
  // API have; the number of those that succeeded. `work(UserService&, int who)`.
  template <class Work>
  int both(Work work) {
    int done = 0;
    const auto run = [&work](storage::Db& db, int who) {
      return storage::change(db,
                             [&](storage::Transaction& tx) -> Result<void> {
                               const ChangeScope scope(tx, now_us, "");
                               UserService users(scope);
                               return work(users, who);
                             })
          .has_value();
    };
    bool is_second_done = false;
    std::thread other([&] { is_second_done = run(*second, 1); });
    done += run(*first, 0) ? 1 : 0;
    other.join();
    return done + (is_second_done ? 1 : 0);
  }
  storage::UserRecord add(const std::string& name, const char* role) {
    auto made = storage::change(*first, [&](storage::Transaction& tx) {
      return UserService(ChangeScope(tx, now_us, "")).create(name, role, "hash");
    });
    EXPECT_TRUE(made);
    return *made;
  }

  std::unique_ptr<storage::Db> first;
  std::unique_ptr<storage::Db> second;
};

TEST_P(PeopleAtOnce, OneAdministratorIsLeft) {
  for (int round = 0; round < 10; ++round) {
    const std::string end = std::to_string(round);
    const std::string ids[] = {add("one-" + end, "admin").id, add("two-" + end, "admin").id};
    EXPECT_EQ(both([&](UserService& users, int who) -> Result<void> {
                auto user = users.find(ids[who]);
                if (!user) return std::unexpected(user.error());
                return users.set_disabled(**user, true);
              }),
              1);
    EXPECT_EQ(*storage::UserRepository(*first).count_active_admins(), 1);
    test::run_sql(*first, "UPDATE users SET role = 'user'");
  }
}

TEST_P(PeopleAtOnce, OneFirstAdministratorIsMade) {
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(both([&](UserService& users, int who) -> Result<void> {
                const auto made =
                    users.create_first_admin("admin-" + std::to_string(who) + std::to_string(round), "hash");
                if (!made) return std::unexpected(made.error());
                return {};
              }),
              1);
    EXPECT_EQ(*storage::UserRepository(*first).count_admins(), 1);
    test::run_sql(*first, "UPDATE users SET role = 'user'");
  }
}

TEST_P(PeopleAtOnce, ANameIsGivenOnce) {
  EXPECT_EQ(both([](UserService& users, int) -> Result<void> {
              const auto made = users.create("carol", "user", "hash");
              if (!made) return std::unexpected(made.error());
              return {};
            }),
            1);
  EXPECT_EQ(test::scalar(*first, "SELECT COUNT(*) FROM users"), "1");
}

TEST_P(PeopleAtOnce, NoSessionOutlivesADisabledUser) {
  for (int round = 0; round < 10; ++round) {
    const storage::UserRecord user = add("user-" + std::to_string(round), "user");
    std::string secret;
    std::thread login([&] {
      const auto made = storage::change(*second, [&](storage::Transaction& tx) {
        return SessionService(ChangeScope(tx, now_us, user.id)).start(user.id, "hash", 0);
      });
      if (made) secret = made->secret.reveal();
    });
    const auto disabled = storage::change(*first, [&](storage::Transaction& tx) -> Result<void> {
      const ChangeScope scope(tx, now_us, "");
      UserService users(scope);
      auto row = users.find(user.id);
      if (!row) return std::unexpected(row.error());
      return users.set_disabled(**row, true);
    });
    login.join();
    ASSERT_TRUE(disabled) << disabled.error().text;
    // Enabling must not bring a login back that was made in between.
    test::run_sql(*first, "UPDATE users SET disabled = 0");
    if (secret.empty()) continue;
    EXPECT_FALSE(authenticate_session(*first, secret, now_us));
  }
}

TMESH_BOTH_ENGINES(PeopleAtOnce);

}  // namespace
}  // namespace tmesh::server
