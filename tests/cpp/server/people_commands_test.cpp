// The commands user, admin and audit; admin_commands_test.cpp has what all commands share.
#include "cpp/server/password.hpp"
#include "cpp/server/session_service.hpp"
#include "tests/cpp/server/commands_fixture.hpp"

namespace tmesh::server {
namespace {

using test::golden;
using test::Ran;

struct PeopleCommands : test::Commands {
  storage::UserRecord row(const std::string& id) { return **storage::UserRepository(*db).find(id); }
  std::string session_of(const storage::UserRecord& user) {
    const auto made =
        *change([&](SessionService s) { return s.start(user.id, row(user.id).password_hash, 0); });
    return std::string(made.secret.reveal());
  }
  bool is_accepted(const std::string& secret) {
    return authenticate_session(*db, secret, time.now_us).has_value();
  }
  void remove_users() { test::run_sql(*db, "DELETE FROM users"); }
};

TEST_F(PeopleCommands, UsersAreListedByStatus) {
  ASSERT_EQ(run("user", "delete", {"bob"}).exit_code, 0);
  const auto names = [this](const char* status) {
    const std::string text = json("user", "list", {}, {{"status", status}}).out;
    std::string found;
    for (const char* name : {"alice", "bob"}) {
      if (text.find(name) != std::string::npos) found += name;
    }
    return found;
  };
  EXPECT_EQ(names("active"), "alice");
  EXPECT_EQ(names("deleted"), "bob");
  EXPECT_EQ(names("all"), "alicebob");
  expect_usage(run("user", "list", {}, {{"status", "gone"}}),
               "user list: --status is active, deleted or all\n");
}

TEST_F(PeopleCommands, UpdateChangesNameAndRole) {
  const Ran ran = json("user", "update", {"bob"}, {{"username", "robert"}, {"role", "admin"}});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(member(ran.out, "username"), "robert");
  EXPECT_EQ(member(ran.out, "role"), "admin");
  EXPECT_EQ(row(bob.id).username, "robert");
  EXPECT_EQ(row(bob.id).role, "admin");
}

TEST_F(PeopleCommands, UpdateIsAllOrNothing) {
  expect_usage(run("user", "update", {"bob"}, {{"username", "robert"}, {"role", "boss"}}),
               "user update: a role is admin or user\n");
  EXPECT_EQ(row(bob.id).username, "bob");
  expect_usage(run("user", "update", {"bob"}), "user update: nothing to change: give --username or --role\n");
  expect_failure(run("user", "update", {"alice"}, {{"role", "user"}}),
                 "user update: this is the last administrator\n");
}

TEST_F(PeopleCommands, DeletedUsersAreRestored) {
  ASSERT_EQ(run("user", "delete", {"bob"}).exit_code, 0);
  expect_failure(run("user", "delete", {"bob"}), "user delete: the user is deleted already\n");
  EXPECT_EQ(run("user", "restore", {"bob"}).exit_code, 0);
  EXPECT_EQ(row(bob.id).deleted_at, "");
  expect_failure(run("user", "restore", {"bob"}), "user restore: the user is not deleted\n");
}

TEST_F(PeopleCommands, ResetPasswordPrintsOneOnceAndEndsSessions) {
  const std::string session = session_of(bob);
  const Ran ran = json("user", "reset-password", {"bob"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.err, "note: the password is shown only this once\n");
  EXPECT_TRUE(verify_password(row(bob.id).password_hash, member(ran.out, "password")));
  EXPECT_FALSE(is_accepted(session));
}

TEST_F(PeopleCommands, TheCommandLineChangesAdministratorsToo) {
  ASSERT_EQ(run("user", "create", {"carol"}, {{"role", "admin"}}).exit_code, 0);
  EXPECT_EQ(run("user", "reset-password", {"carol"}).exit_code, 0);
  EXPECT_EQ(run("user", "disable", {"carol"}).exit_code, 0);
  EXPECT_EQ(run("user", "delete", {"carol"}).exit_code, 0);
}

TEST_F(PeopleCommands, TextThatIsSqlIsOnlyText) {
  const std::string sql = "bob'; UPDATE users SET role = 'admin'; --";
  expect_failure(run("user", "show", {sql}), "user show: there is no such user\n");
  expect_usage(run("user", "create", {sql}),
               "user create: a user name has 3 to 64 letters, digits, '.', '_' or '-'\n");
  expect_failure(run("audit", "list", {}, {{"actor", sql}}), "audit list: there is no such user\n");
  EXPECT_EQ(run("audit", "list", {}, {{"action", sql}}).out, "none\n");
  EXPECT_EQ(row(bob.id).role, "user");
}

TEST_F(PeopleCommands, BootstrapMakesTheFirstAdministrator) {
  remove_users();
  const Ran ran = run("admin", "bootstrap");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(std::regex_match(golden(ran.out), std::regex("id         <user>\n"
                                                           "username   admin-[0-9a-f]{8}\n"
                                                           "role       admin\n"
                                                           "disabled   no\n"
                                                           "deletedAt  -\n"
                                                           "createdAt  2027-01-15T08:00:00Z\n"
                                                           "updatedAt  2027-01-15T08:00:00Z\n"
                                                           "password   <password>\n")))
      << ran.out;
  EXPECT_EQ(ran.err, "note: the password is shown only this once\n");
  expect_failure(run("admin", "bootstrap"), "admin bootstrap: there is an administrator already\n");
}

TEST_F(PeopleCommands, BootstrapPrintsThePasswordOfThatUser) {
  remove_users();
  const Ran ran = json("admin", "bootstrap");
  const auto admin = *storage::UserRepository(*db).find_by_username(member(ran.out, "username"));
  ASSERT_TRUE(admin);
  EXPECT_EQ(admin->role, "admin");
  EXPECT_TRUE(verify_password(admin->password_hash, member(ran.out, "password")));
}

TEST_F(PeopleCommands, BootstrapCreatesTheDatabaseOnlyWithAutoInit) {
  path = dir.file("new.db");
  test::Capture out;
  test::Capture err;
  const auto bootstrap = [&](bool auto_init) {
    return run_admin({"admin",
                      "bootstrap",
                      {},
                      {},
                      false,
                      test::sqlite_settings(path),
                      auto_init,
                      time.clock(),
                      out.file(),
                      err.file()});
  };
  EXPECT_EQ(bootstrap(false), 1);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(bootstrap(true), 0);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(PeopleCommands, RegenerateCredentialsNeedsConfirmation) {
  expect_usage(run("admin", "regenerate-credentials"),
               "admin regenerate-credentials: --confirm is missing\n");
  EXPECT_EQ(row(alice.id).password_hash, "hash");
}

TEST_F(PeopleCommands, RegenerateCredentialsEndsTheAdministratorsSessions) {
  const std::string of_alice = session_of(alice);
  const std::string of_bob = session_of(bob);
  const Ran ran = json("admin", "regenerate-credentials", {}, {{"confirm", ""}});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(member(ran.out, "username"), "alice");
  EXPECT_EQ(member(ran.out, "password").size(), 32U);
  EXPECT_TRUE(verify_password(row(alice.id).password_hash, member(ran.out, "password")));
  EXPECT_FALSE(is_accepted(of_alice));
  EXPECT_TRUE(is_accepted(of_bob));
}

TEST_F(PeopleCommands, RegenerateCredentialsIsForOneAdministrator) {
  expect_failure(run("admin", "regenerate-credentials", {}, {{"confirm", ""}, {"user", "bob"}}),
                 "admin regenerate-credentials: the user is no administrator: use user reset-password\n");
  ASSERT_EQ(run("user", "create", {"carol"}, {{"role", "admin"}}).exit_code, 0);
  expect_usage(run("admin", "regenerate-credentials", {}, {{"confirm", ""}}),
               "admin regenerate-credentials: there are several administrators: name one with --user\n");
  EXPECT_EQ(run("admin", "regenerate-credentials", {}, {{"confirm", ""}, {"user", "carol"}}).exit_code, 0);
  EXPECT_EQ(row(alice.id).password_hash, "hash");
}

TEST_F(PeopleCommands, AuditIsListedNewestFirst) {
  test::run_sql(*db, "DELETE FROM audit_logs");
  ASSERT_EQ(run("user", "disable", {"bob"}).exit_code, 0);
  time.now_us += 1'000'000;
  ASSERT_EQ(run("user", "enable", {"bob"}).exit_code, 0);
  const Ran ran = run("audit", "list");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(std::regex_match(
      ran.out,
      std::regex("createdAt +action +resourceType  resourceId +actorUserId  details +id\n"
                 "2027-01-15T08:00:01Z  user.enable   user +user-\\S+ +- +\\{\"source\":\"command line\"\\} +"
                 "audit-\\S+\n"
                 "2027-01-15T08:00:00Z  user.disable  user +user-\\S+ +- +\\{\"source\":\"command line\"\\} +"
                 "audit-\\S+\n")))
      << ran.out;
}

TEST_F(PeopleCommands, AuditTakesFilters) {
  test::run_sql(*db, "DELETE FROM audit_logs");
  ASSERT_EQ(run("user", "disable", {"bob"}).exit_code, 0);
  time.now_us += 60'000'000;
  ASSERT_EQ(run("user", "enable", {"bob"}).exit_code, 0);
  const auto actions = [this](std::vector<AdminOption> options) {
    const Ran ran = json("audit", "list", {}, std::move(options));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    const Result<json::Document> document = json::parse(ran.out);
    std::string text;
    for (const json::Value entry : document->root())
      text += std::string(*entry.get("action").as_string()) + ' ';
    return text;
  };
  EXPECT_EQ(actions({}), "user.enable user.disable ");
  EXPECT_EQ(actions({{"limit", "1"}}), "user.enable ");
  EXPECT_EQ(actions({{"action", "user.disable"}}), "user.disable ");
  EXPECT_EQ(actions({{"resource-type", "token"}}), "");
  EXPECT_EQ(actions({{"resource-id", bob.id}, {"from", "2027-01-15T08:01:00Z"}}), "user.enable ");
  EXPECT_EQ(actions({{"to", "2027-01-15T08:00:59Z"}}), "user.disable ");
  EXPECT_EQ(actions({{"actor", "alice"}}), "");
}

TEST_F(PeopleCommands, AuditRefusesMalformedValues) {
  expect_usage(run("audit", "list", {}, {{"from", "yesterday"}}),
               "audit list: --from is not a time like 2027-01-31T00:00:00Z\n");
  expect_usage(run("audit", "list", {}, {{"to", "2027-01-31"}}),
               "audit list: --to is not a time like 2027-01-31T00:00:00Z\n");
  for (const char* limit : {"0", "10001", "-1", "many"}) {
    expect_usage(run("audit", "list", {}, {{"limit", limit}}), "audit list: --limit is from 1 to 10000\n");
  }
}

TEST_F(PeopleCommands, AuditReadsMoreThanOnePage) {
  test::run_sql(*db, "DELETE FROM audit_logs");
  for (int i = 0; i < 501; ++i) {
    const std::string id = "audit-" + std::to_string(i);
    const storage::Param params[] = {id};
    test::run_sql(
        *db,
        "INSERT INTO audit_logs (id, action, resource_type, details, created_at) VALUES (?, 'a', 'b', "
        "'{}', '2027-01-01T00:00:00Z')",
        params);
  }
  const auto count = [this](const char* limit) {
    const std::string text = json("audit", "list", {}, {{"limit", limit}}).out;
    return json::parse(text)->root().size();
  };
  EXPECT_EQ(count("10000"), 501U);
  EXPECT_EQ(count("501"), 501U);
  EXPECT_EQ(count("500"), 500U);
}

TEST_F(PeopleCommands, ForeignDetailsCannotSteerTheTerminal) {
  test::run_sql(*db, "DELETE FROM audit_logs");
  test::run_sql(*db,
                "INSERT INTO audit_logs (id, action, resource_type, details, created_at) VALUES ('audit-x', "
                "'a' || char(27) || '[2J', 'b', 'no json' || char(10) || 'x', '2027-01-01T00:00:00Z')");
  const std::string text = run("audit", "list").out;
  EXPECT_NE(text.find("a?[2J"), std::string::npos) << text;
  EXPECT_NE(text.find("no json?x"), std::string::npos) << text;
  EXPECT_TRUE(json::parse(json("audit", "list").out));
}

}  // namespace
}  // namespace tmesh::server
