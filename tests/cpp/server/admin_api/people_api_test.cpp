#include <regex>

#include "cpp/base/encoding.hpp"
#include "cpp/server/admin_api/api.hpp"
#include "cpp/server/session_service.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "tests/cpp/server/admin_api/endpoint_fixture.hpp"

namespace tmesh::server {
namespace {

struct PeopleApi : test::EndpointFixture {
  PeopleApi() : EndpointFixture(people_routes()) {}

  storage::UserRecord row(const std::string& id) { return **storage::UserRepository(*db).find(id); }
  // The `name` members of the items.
  std::string items(const std::string& list, const char* name) {
    const auto document = json::parse(list);
    if (!document) return list;
    std::string text;
    for (const json::Value item : document->root().get("items")) {
      text += std::string(item.get(name).as_string().value_or("-")) + ' ';
    }
    return text;
  }
  std::string of_bob(const std::string& tail = "") { return "/users/" + bob.id + tail; }
  void clear_audit() { test::run_sql(*db, "DELETE FROM audit_logs"); }
  void add_entry(const std::string& id, const std::string& created_at, const std::string& details = "{}") {
    const storage::Param params[] = {id, details, created_at};
    test::run_sql(*db,
                  "INSERT INTO audit_logs (id, action, resource_type, details, created_at) VALUES (?, "
                  "'user.create', 'user', ?, ?)",
                  params);
  }
};

constexpr const char* name_rule = "400: a user name has 3 to 64 letters, digits, '.', '_' or '-'";
constexpr const char* protected_admin =
    "403: an administrator is changed with the server's command line only";

TEST_F(PeopleApi, EveryEndpointIsForAdministrators) {
  who = bob;
  for (const std::string& request :
       {std::string("GET /users"), std::string("POST /users"), "PATCH " + of_bob(), "DELETE " + of_bob(),
        "POST " + of_bob("/reset-password"), "POST " + of_bob("/restore"), std::string("GET /audit-logs"),
        std::string("GET /audits")}) {
    EXPECT_EQ(ask(request), "403: for administrators only") << request;
  }
}

TEST_F(PeopleApi, UsersHaveExactlyTheseMembers) {
  set("users", bob.id, "id", "user-bob");
  const std::string user = R"({"id":"user-bob","username":"bob","role":"user","disabled":false,)"
                           R"("deletedAt":"2027-01-15T08:00:00Z","createdAt":"2027-01-15T08:00:00Z",)"
                           R"("updatedAt":"2027-01-15T08:00:00Z"})";
  EXPECT_EQ(ask("DELETE /users/user-bob"), user);
  EXPECT_EQ(ask("GET /users?status=deleted"),
            R"({"items":[)" + user + R"(],"nextCursor":"","hasMore":false})");
}

TEST_F(PeopleApi, UsersAreListedByStatus) {
  ask("DELETE " + of_bob());
  EXPECT_EQ(items(ask("GET /users"), "username"), "alice ");
  EXPECT_EQ(items(ask("GET /users?status=active"), "username"), "alice ");
  EXPECT_EQ(items(ask("GET /users?status=deleted"), "username"), "bob ");
  EXPECT_EQ(items(ask("GET /users?status=all"), "username").size(), std::string("alice bob ").size());
  EXPECT_EQ(ask("GET /users?status=disabled"), "400: status: one of active, deleted and all is expected");
  EXPECT_EQ(ask("GET /users?status="), "400: status: one of active, deleted and all is expected");
}

TEST_F(PeopleApi, UsersAreListedPageByPage) {
  const std::string first = ask("GET /users?limit=1");
  EXPECT_EQ(member(first, "hasMore"), "true");
  const std::string second = ask("GET /users?limit=1&cursor=" + member(first, "nextCursor"));
  EXPECT_EQ(member(second, "hasMore"), "false");
  EXPECT_NE(items(first, "username"), items(second, "username"));
  EXPECT_EQ(ask("GET /users?limit=0"), "400: limit: a number from 1 to 500 is expected");
  EXPECT_EQ(ask("GET /users?cursor=%2B"), "400: cursor: not one that this list gave");
}

TEST_F(PeopleApi, CreateGivesThePasswordOnce) {
  const std::string made = ask("POST /users", R"({"username":"carol"})");
  EXPECT_EQ(last.status, 201);
  EXPECT_TRUE(last.has_secret);
  EXPECT_EQ(member(made, "temporaryPassword"), "new password in full");
  EXPECT_EQ(member(made, "role"), "user");
  EXPECT_EQ(member(made, "username"), "carol");
  EXPECT_EQ(last.replay.find("new password"), std::string::npos);
  EXPECT_EQ(member(last.replay, "id"), member(made, "id"));
  EXPECT_EQ(row(member(made, "id")).password_hash, "new hash");
  EXPECT_TRUE(last_route->makes_password);
}

TEST_F(PeopleApi, CreateRefusesMalformedNames) {
  EXPECT_EQ(ask("POST /users", "{}"), "400: username: is required");
  EXPECT_EQ(ask("POST /users", R"({"username":7})"), "400: username: a text is expected");
  EXPECT_EQ(ask("POST /users", R"({"username":null})"), "400: username: a text is expected");
  for (const char* name : {"", "ab", "a b", "a\\nb", "abc\\u007f", "\\u0041\\u00e4b",
                           "a'; DROP TABLE users; --", "<script>", "../../etc"}) {
    EXPECT_EQ(ask("POST /users", R"({"username":")" + std::string(name) + R"("})"), name_rule) << name;
  }
  EXPECT_EQ(ask("POST /users", R"({"username":")" + std::string(65, 'x') + R"("})"), name_rule);
  EXPECT_EQ(ask("POST /users", R"({"username":")" + std::string(1 << 19, 'x') + R"("})"), name_rule);
  EXPECT_EQ(ask("POST /users", "{\"username\":\"ab\xff\"}").substr(0, 5), "400: ");
  EXPECT_EQ(ask("POST /users", R"({"username":"carol","role":"admin"})").substr(0, 5), "400: ")
      << "nobody makes administrators here";
  EXPECT_EQ(items(ask("GET /users?status=all"), "username").size(), std::string("alice bob ").size());
}

TEST_F(PeopleApi, CreateRefusesTakenNames) {
  const std::string taken =
      "409: the user name is taken (upper and lower case are the same; names of deleted users stay taken)";
  EXPECT_EQ(ask("POST /users", R"({"username":"bob"})"), taken);
  EXPECT_EQ(ask("POST /users", R"({"username":"BOB"})"), taken);
  ask("DELETE " + of_bob());
  EXPECT_EQ(ask("POST /users", R"({"username":"bob"})"), taken);
}

TEST_F(PeopleApi, UsersAreDisabledAndEnabled) {
  EXPECT_EQ(member(ask("PATCH " + of_bob(), R"({"disabled":true})"), "disabled"), "true");
  EXPECT_TRUE(row(bob.id).is_disabled);
  EXPECT_EQ(member(ask("PATCH " + of_bob(), R"({"disabled":false})"), "disabled"), "false");
  EXPECT_FALSE(row(bob.id).is_disabled);
  EXPECT_EQ(ask("PATCH " + of_bob(), "{}"), "400: disabled: is required");
  EXPECT_EQ(ask("PATCH " + of_bob(), R"({"disabled":"yes"})"), "400: disabled: true or false is expected");
  EXPECT_EQ(ask("PATCH " + of_bob(), R"({"disabled":1})"), "400: disabled: true or false is expected");
}

TEST_F(PeopleApi, UsersAreDeletedAndRestored) {
  EXPECT_EQ(ask("POST " + of_bob("/restore")), "409: the user is not deleted");
  EXPECT_EQ(member(ask("DELETE " + of_bob()), "deletedAt"), "2027-01-15T08:00:00Z");
  EXPECT_EQ(ask("DELETE " + of_bob()), "409: the user is deleted already");
  EXPECT_EQ(ask("PATCH " + of_bob(), R"({"disabled":true})"), "409: the user is deleted; restore it first");
  EXPECT_EQ(ask("POST " + of_bob("/reset-password")), "409: the user is deleted; restore it first");
  EXPECT_EQ(member(ask("POST " + of_bob("/restore")), "deletedAt"), "null");
}

TEST_F(PeopleApi, ResetGivesANewPasswordOnce) {
  const std::string data = ask("POST " + of_bob("/reset-password"));
  EXPECT_EQ(last.status, 200);
  EXPECT_TRUE(last.has_secret);
  EXPECT_EQ(member(data, "temporaryPassword"), "new password in full");
  EXPECT_EQ(last.replay.find("new password"), std::string::npos);
  EXPECT_EQ(row(bob.id).password_hash, "new hash");
}

TEST_F(PeopleApi, AdministratorsAreProtected) {
  const storage::UserRecord carol = *change([](UserService s) { return s.create("carol", "admin", "hash"); });
  for (const std::string& id : {alice.id, carol.id}) {
    EXPECT_EQ(ask("PATCH /users/" + id, R"({"disabled":true})"), protected_admin);
    EXPECT_EQ(ask("PATCH /users/" + id, R"({"disabled":false})"), protected_admin);
    EXPECT_EQ(ask("DELETE /users/" + id), protected_admin);
    EXPECT_EQ(ask("POST /users/" + id + "/reset-password"), protected_admin);
    EXPECT_EQ(ask("POST /users/" + id + "/restore"), protected_admin);
    EXPECT_EQ(row(id).password_hash, "hash");
    EXPECT_FALSE(row(id).is_disabled);
  }
}

TEST_F(PeopleApi, UnknownUsersAreNotFound) {
  for (const std::string& id :
       {std::string("user-gone"), std::string("bob"), std::string("%27%20OR%201%3D1--"), std::string("%25"),
        std::string(255, 'x')}) {
    EXPECT_EQ(ask("PATCH /users/" + id, R"({"disabled":true})"), "404: there is no such user");
    EXPECT_EQ(ask("DELETE /users/" + id), "404: there is no such user");
    EXPECT_EQ(ask("POST /users/" + id + "/reset-password"), "404: there is no such user");
    EXPECT_EQ(ask("POST /users/" + id + "/restore"), "404: there is no such user");
  }
}

TEST_F(PeopleApi, DisableDeleteAndResetEndSessions) {
  for (const char* request : {"PATCH", "DELETE", "POST"}) {
    const auto session =
        *change([&](SessionService s) { return s.start(bob.id, row(bob.id).password_hash, 0); });
    const std::string tail = std::string_view(request) == "POST" ? "/reset-password" : "";
    ask(std::string(request) + ' ' + of_bob(tail),
        std::string_view(request) == "PATCH" ? R"({"disabled":true})" : "");
    EXPECT_NE(test::scalar(*db, "SELECT revoked_at FROM api_tokens WHERE id = '" + session.session_id + "'"),
              "")
        << request;
    set("users", bob.id, "disabled", 0);
    set("users", bob.id, "deleted_at", nullptr);
  }
}

TEST_F(PeopleApi, ChangesAreAuditedAsTheCallers) {
  clear_audit();
  ask("DELETE " + of_bob());
  const storage::AuditRecord entry = storage::AuditRepository(*db).newest(1)->front();
  EXPECT_EQ(entry.action, "user.delete");
  EXPECT_EQ(entry.actor_user_id, alice.id);
  EXPECT_EQ(entry.resource_id, bob.id);
  EXPECT_EQ(entry.details, "{}");
}

TEST_F(PeopleApi, ARefusedChangeLeavesNothing) {
  clear_audit();
  EXPECT_EQ(ask("DELETE /users/" + alice.id), protected_admin);
  EXPECT_EQ(test::scalar(*db, "SELECT COUNT(*) FROM audit_logs"), "0");
}

TEST_F(PeopleApi, AuditEntriesHaveExactlyTheseMembers) {
  clear_audit();
  add_entry("audit-1", "2027-01-15T08:00:00Z", R"({"a":[1]})");
  EXPECT_EQ(ask("GET /audit-logs"),
            R"({"items":[{"id":"audit-1","actorUserId":null,"action":"user.create","resourceType":"user",)"
            R"("resourceId":null,"details":{"a":[1]},"createdAt":"2027-01-15T08:00:00Z"}],)"
            R"("nextCursor":"","hasMore":false})");
  const std::string data = last.data;
  EXPECT_EQ(ask("GET /audits"), data);
}

TEST_F(PeopleApi, DetailsThatAreNoJsonAreText) {
  clear_audit();
  add_entry("audit-1", "2027-01-15T08:00:00Z", "x\"\n}");
  EXPECT_NE(ask("GET /audits").find(R"("details":"x\"\n}")"), std::string::npos) << last.data;
}

TEST_F(PeopleApi, AuditIsListedPageByPageNewestFirst) {
  clear_audit();
  for (const char* id : {"1", "2", "3"}) {
    add_entry("audit-" + std::string(id), "2027-01-15T08:00:0" + std::string(id) + "Z");
  }
  const std::string first = ask("GET /audits?limit=2");
  EXPECT_EQ(items(first, "id"), "audit-3 audit-2 ");
  EXPECT_EQ(*base64url_decode(member(first, "nextCursor")), std::string("2027-01-15T08:00:02Z\0audit-2", 28));
  EXPECT_EQ(items(ask("GET /audits?limit=2&cursor=" + member(first, "nextCursor")), "id"), "audit-1 ");
  EXPECT_EQ(items(ask("GET /audits?cursor=" + base64url_encode(as_bytes("audit-2"))), "id"), "audit-1 ")
      << "as older programs gave them";
}

TEST_F(PeopleApi, AuditRefusesForeignCursors) {
  for (const std::string& text :
       {std::string("x\0audit-2", 9), std::string("\0audit-2", 8), std::string("2027-01-15T08:00:02Z\0", 21),
        std::string("2027-01-15T08:00:02Z\0a\0b", 24), std::string("\xff\xfe"), std::string(1, '\0'),
        std::string("' OR 1=1 --\0audit-2", 19)}) {
    EXPECT_EQ(ask("GET /audits?cursor=" + base64url_encode(as_bytes(text))),
              "400: cursor: not one that this list gave")
        << text;
  }
  EXPECT_EQ(ask("GET /audits?cursor=!!"), "400: cursor: not one that this list gave");
  EXPECT_EQ(ask("GET /audits?cursor=" + base64url_encode(as_bytes("audit-gone"))),
            "400: cursor: its entry is gone");
  EXPECT_EQ(ask("GET /audits?limit=501"), "400: limit: a number from 1 to 500 is expected");
}

TEST_F(PeopleApi, AuditIsFilteredExactly) {
  clear_audit();
  ask("PATCH " + of_bob(), R"({"disabled":true})");
  time.now_us += 60'000'000;
  ask("DELETE " + of_bob());
  const auto actions = [this](const std::string& query) {
    return items(ask("GET /audit-logs?" + query), "action");
  };
  EXPECT_EQ(actions(""), "user.delete user.disable ");
  EXPECT_EQ(actions("actorUserId=" + alice.id), "user.delete user.disable ");
  EXPECT_EQ(actions("actorUserId=" + bob.id), "");
  EXPECT_EQ(actions("action=user.disable"), "user.disable ");
  EXPECT_EQ(actions("action=user.disabl"), "");
  EXPECT_EQ(actions("action=%25"), "");
  EXPECT_EQ(actions("action=%27%20OR%20%271%27%3D%271"), "");
  EXPECT_EQ(actions("resourceType=user&resourceId=" + bob.id), "user.delete user.disable ");
  EXPECT_EQ(actions("createdFrom=2027-01-15T08:01:00Z"), "user.delete ");
  EXPECT_EQ(actions("createdTo=2027-01-15T08:00:00Z"), "user.disable ");
  EXPECT_EQ(actions("createdFrom=2027-01-15T08:00:00Z&createdTo=2027-01-15T08:01:00Z"),
            "user.delete user.disable ");
}

TEST_F(PeopleApi, AuditTimesMustBeTimes) {
  for (const char* name : {"createdFrom", "createdTo"}) {
    for (const char* text :
         {"yesterday", "2027-01-15", "2027-02-30T00:00:00Z", "2027-01-15T08:00:00%2B01:00", "1"}) {
      EXPECT_EQ(ask("GET /audits?" + std::string(name) + "=" + text),
                "400: " + std::string(name) + ": a time like 2027-01-31T00:00:00Z is expected");
    }
  }
}

TEST_F(PeopleApi, NoAnswerHoldsAHash) {
  set("users", bob.id, "password_hash", "$argon2id$SECRET");
  const std::string all = ask("GET /users?status=all") + ask("PATCH " + of_bob(), R"({"disabled":true})") +
                          ask("DELETE " + of_bob()) + ask("POST " + of_bob("/restore")) +
                          ask("POST " + of_bob("/reset-password")) + ask("GET /audits");
  EXPECT_EQ(all.find("SECRET"), std::string::npos);
  EXPECT_EQ(all.find("hash"), std::string::npos);
}

TEST_F(PeopleApi, ABrokenDatabaseIsA500WithoutItsText) {
  test::run_sql(*db, "ALTER TABLE audit_logs RENAME TO elsewhere");
  EXPECT_EQ(ask("GET /audits"), "500: the server could not do this; its log says why");
  EXPECT_EQ(ask("DELETE " + of_bob()), "500: the server could not do this; its log says why");
  EXPECT_EQ(row(bob.id).deleted_at, "") << "no change without its entry";
}

TEST_F(PeopleApi, AMalformedRowIsNotTheCallersFault) {
  const std::string failure = "500: the server could not do this; its log says why";
  set("users", bob.id, "disabled", 5);
  EXPECT_EQ(ask("GET /users"), failure);
  EXPECT_EQ(ask("DELETE " + of_bob()), failure);
}

struct AuthApi : test::EndpointFixture {
  AuthApi() : EndpointFixture(auth_routes()) {}
};

constexpr const char* passwords =
    R"({"currentPassword":"correct horse battery","newPassword":"new password in full"})";

TEST_F(AuthApi, MeIsTheCaller) {
  who = bob;
  who->id = "user-bob";
  EXPECT_EQ(ask("GET /auth/me"), R"({"id":"user-bob","username":"bob","role":"user"})");
}

TEST_F(AuthApi, ThePasswordIsChangedAndSessionsGoOn) {
  who = bob;
  change([&](SessionService s) { return s.start(bob.id, bob.password_hash, 0); });
  EXPECT_EQ(ask("PUT /auth/password", passwords), "null");
  EXPECT_TRUE(last_route->changes_password);
  EXPECT_EQ((*storage::UserRepository(*db).find(bob.id))->password_hash, "new hash");
  EXPECT_EQ(test::scalar(*db, "SELECT COUNT(*) FROM api_tokens WHERE revoked_at IS NULL"), "1");
  EXPECT_EQ(test::scalar(*db, "SELECT actor_user_id FROM audit_logs WHERE action = 'user.change_password'"),
            bob.id);
}

TEST_F(AuthApi, APasswordChangedInTheMeantimeStays) {
  who = bob;
  set("users", bob.id, "password_hash", "another hash");
  EXPECT_EQ(ask("PUT /auth/password", passwords), "409: the password was changed in the meantime");
  EXPECT_EQ((*storage::UserRepository(*db).find(bob.id))->password_hash, "another hash");
  test::run_sql(*db, "DELETE FROM users WHERE username = 'bob'");
  EXPECT_EQ(ask("PUT /auth/password", passwords), "409: the password was changed in the meantime");
}

TEST_F(AuthApi, OtherMembersAreRefused) {
  EXPECT_EQ(
      ask("PUT /auth/password", R"({"currentPassword":"x","newPassword":"y","userId":"z"})").substr(0, 4),
      "400:");
}

}  // namespace
}  // namespace tmesh::server
