#include "cpp/server/admin_commands.hpp"

#include <fstream>
#include <regex>
#include <set>

#include "cpp/base/json.hpp"
#include "cpp/server/admin_output.hpp"
#include "cpp/server/password.hpp"
#include "cpp/server/token_hash.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "tests/cpp/server/commands_fixture.hpp"

namespace tmesh::server {
namespace {

using test::Commands;
using test::golden;
using test::Ran;

TEST_F(Commands, UserCreatePrintsThePasswordOnce) {
  const Ran ran = run("user", "create", {"carol"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(golden(ran.out),
            "id         <user>\n"
            "username   carol\n"
            "role       user\n"
            "disabled   no\n"
            "deletedAt  -\n"
            "createdAt  2027-01-15T08:00:00Z\n"
            "updatedAt  2027-01-15T08:00:00Z\n"
            "password   <password>\n");
  EXPECT_EQ(ran.err, "note: the password is shown only this once\n");
  EXPECT_EQ(run("user", "show", {"carol"}).out.find("password"), std::string::npos);
}

TEST_F(Commands, ThePasswordIsTheUsers) {
  const Ran ran = json("user", "create", {"carol"}, {{"role", "admin"}});
  const auto carol = *storage::UserRepository(*db).find_by_username("carol");
  EXPECT_EQ(carol->role, "admin");
  EXPECT_TRUE(verify_password(carol->password_hash, member(ran.out, "password")));
}

TEST_F(Commands, UserListAsTable) {
  const Ran ran = run("user", "list");
  EXPECT_EQ(ran.exit_code, 0);
  const std::regex table(
      "id +username  role   disabled  deletedAt  createdAt             updatedAt\n"
      "(user-\\S+ +(alice     admin|bob       user )  no        -          2027-01-15T08:00:00Z  "
      "2027-01-15T08:00:00Z\n){2}");
  EXPECT_TRUE(std::regex_match(ran.out, table)) << ran.out;
}

TEST_F(Commands, ListsAsJsonAreArrays) {
  const Ran ran = json("agent", "list");
  EXPECT_EQ(golden(ran.out),
            "[\n"
            "  {\n"
            "    \"id\": \"<agent>\",\n"
            "    \"name\": \"home\",\n"
            "    \"ownerUserId\": \"<user>\",\n"
            "    \"capabilities\": [],\n"
            "    \"enabled\": true,\n"
            "    \"status\": \"offline\",\n"
            "    \"createdAt\": \"2027-01-15T08:00:00Z\",\n"
            "    \"updatedAt\": \"2027-01-15T08:00:00Z\"\n"
            "  }\n"
            "]\n");
  EXPECT_EQ(json("agent", "list", {}, {{"owner", "bob"}}).out, "[]\n");
  EXPECT_EQ(run("agent", "list", {}, {{"owner", "bob"}}).out, "none\n");
}

TEST_F(Commands, UsersAreDisabledEnabledAndDeleted) {
  EXPECT_EQ(run("user", "disable", {"bob"}).exit_code, 0);
  EXPECT_TRUE((*storage::UserRepository(*db).find(bob.id))->is_disabled);
  EXPECT_EQ(run("user", "enable", {bob.id}).exit_code, 0);
  EXPECT_FALSE((*storage::UserRepository(*db).find(bob.id))->is_disabled);
  EXPECT_EQ(member(json("user", "delete", {"bob"}).out, "deletedAt"), "2027-01-15T08:00:00Z");
  expect_failure(run("user", "delete", {"bob"}), "user delete: the user is deleted already\n");
  expect_failure(run("user", "show", {"nobody"}), "user show: there is no such user\n");
}

TEST_F(Commands, TheLastAdministratorStays) {
  expect_failure(run("user", "disable", {"alice"}), "user disable: this is the last administrator\n");
  expect_failure(run("user", "delete", {"alice"}), "user delete: this is the last administrator\n");
  ASSERT_EQ(run("user", "create", {"carol"}, {{"role", "admin"}}).exit_code, 0);
  EXPECT_EQ(run("user", "delete", {"alice"}).exit_code, 0);
  expect_failure(run("user", "disable", {"carol"}), "user disable: this is the last administrator\n");
}

TEST_F(Commands, UserNamesAreChecked) {
  expect_failure(run("user", "create", {"alice"}),
                 "user create: the user name is taken (upper and lower case are the same; names of deleted "
                 "users stay taken)\n");
  for (const char* name : {"ab", "has space", "semi;colon", "m\xc3\xbcller"}) {
    expect_usage(run("user", "create", {name}),
                 "user create: a user name has 3 to 64 letters, digits, '.', '_' or '-'\n");
  }
  EXPECT_EQ(run("user", "create", {std::string(65, 'a')}).exit_code, 2);
  EXPECT_EQ(run("user", "create", {std::string(64, 'a')}).exit_code, 0);
  expect_usage(run("user", "create", {"dave"}, {{"role", "root"}}), "user create: a role is admin or user\n");
}

TEST_F(Commands, AnAgentBelongsToTheOnlyAdministratorByDefault) {
  const Ran ran = json("agent", "create", {"office"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(member(ran.out, "ownerUserId"), alice.id);
  ASSERT_EQ(run("user", "create", {"carol"}, {{"role", "admin"}}).exit_code, 0);
  expect_usage(run("agent", "create", {"third"}),
               "agent create: there are several administrators: name one with --owner\n");
  EXPECT_EQ(member(json("agent", "create", {"third"}, {{"owner", "bob"}}).out, "ownerUserId"), bob.id);
  ASSERT_EQ(run("user", "disable", {"bob"}).exit_code, 0);
  expect_failure(run("agent", "create", {"fourth"}, {{"owner", "bob"}}),
                 "agent create: the owner is disabled or deleted\n");
}

TEST_F(Commands, AgentsAreFoundByIdOrUniqueName) {
  EXPECT_EQ(member(json("agent", "show", {"home"}).out, "id"), home.id);
  EXPECT_EQ(member(json("agent", "show", {home.id}).out, "name"), "home");
  ASSERT_EQ(run("agent", "create", {"home"}).exit_code, 0);
  expect_failure(run("agent", "show", {"home"}), "agent show: several agents have this name: use the id\n");
  expect_failure(run("agent", "show", {"none"}), "agent show: there is no such agent\n");
}

TEST_F(Commands, AgentNamesAreChecked) {
  for (const std::string& name : {std::string(" a"), std::string("a\n"), std::string("a\x1b[31m"),
                                  std::string("\xff"), std::string(256, 'a')}) {
    EXPECT_EQ(run("agent", "create", {name}).exit_code, 2) << name;
  }
  EXPECT_EQ(run("agent", "create", {"B\xc3\xbcro 2"}).exit_code, 0);
}

TEST_F(Commands, AgentsAreDisabledEnabledAndDeleted) {
  EXPECT_EQ(run("agent", "disable", {"home"}).exit_code, 0);
  EXPECT_FALSE((*storage::AgentRepository(*db).find(home.id))->is_enabled);
  EXPECT_EQ(run("agent", "enable", {"home"}).exit_code, 0);
  EXPECT_TRUE((*storage::AgentRepository(*db).find(home.id))->is_enabled);
  EXPECT_EQ(member(json("agent", "delete", {"home"}).out, "id"), home.id);
  EXPECT_FALSE(*storage::AgentRepository(*db).find(home.id));
  EXPECT_FALSE(*storage::PolicyRepository(*db).find(policy.id));
}

TEST_F(Commands, PolicyCreateMakesARowPerPatternAndProtocol) {
  const Ran ran = run("policy", "create", {},
                      {{"agent", "home"},
                       {"allow", "10.0.0.0/8:*"},
                       {"allow", "a.example:80,443"},
                       {"protocol", "tcp"},
                       {"protocol", "udp"}});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  const std::string out = std::regex_replace(golden(ran.out), std::regex(" +"), " ");
  const std::string tail = "2027-01-15T08:00:00Z 2027-01-15T08:00:00Z\n";
  EXPECT_EQ(out,
            "id agentId protocol targetHost targetPort allowedCIDRs allowedPorts createdAt updatedAt\n"
            "<policy> <agent> tcp 10.0.0.0/8 0 [] [] " +
                tail + "<policy> <agent> udp 10.0.0.0/8 0 [] [] " + tail +
                "<policy> <agent> tcp a.example 0 [] [80,443] " + tail +
                "<policy> <agent> udp a.example 0 [] [80,443] " + tail);
  EXPECT_EQ(storage::PolicyRepository(*db).list({}, home.id)->items.size(), 5U);
}

TEST_F(Commands, ABadPatternIsNamedAndNothingIsCreated) {
  expect_usage(run("policy", "create", {}, {{"agent", "home"}, {"allow", "*:*"}, {"allow", "a.example"}}),
               "policy create: --allow a.example: there is no :PORT at the end\n");
  expect_usage(run("policy", "create", {},
                   {{"agent", "home"}, {"allow", "*:*"}, {"protocol", "tcp"}, {"protocol", "icmp"}}),
               "policy create: a protocol is tcp, udp, http or ws\n");
  EXPECT_EQ(storage::PolicyRepository(*db).list({}, home.id)->items.size(), 1U);
}

TEST_F(Commands, PoliciesAreListedShownAndDeleted) {
  EXPECT_EQ(member(json("policy", "show", {policy.id}).out, "targetHost"), "*.example.com");
  EXPECT_EQ(json("policy", "list", {}, {{"agent", "home"}}).out, json("policy", "list").out);
  EXPECT_EQ(run("policy", "delete", {policy.id}).exit_code, 0);
  EXPECT_EQ(json("policy", "list").out, "[]\n");
  expect_failure(run("policy", "show", {policy.id}), "policy show: there is no such policy\n");
}

TEST_F(Commands, ATokenSecretIsPrintedOnceAndWorks) {
  const Ran ran = json("token", "create", {},
                       {{"type", "client"},
                        {"expires", "1h"},
                        {"scope-agent", "home"},
                        {"scope-port", "443"},
                        {"scope-protocol", "tcp"},
                        {"scope-cidr", "10.0.0.0/8"}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "note: the secret is shown only this once\n");
  EXPECT_EQ(member(ran.out, "expiresAt"), "2027-01-15T09:00:00Z");
  EXPECT_EQ(member(ran.out, "status"), "active");
  const std::string secret = member(ran.out, "secret");
  const Result<Identity> identity =
      CredentialService(*db, time.clock()).authenticate(secret, TokenType::client);
  ASSERT_TRUE(identity) << identity.error().text;
  EXPECT_EQ(format_scope(identity->scope),
            R"({"agentIds":[")" + home.id +
                R"("],"protocols":["tcp"],"targetCIDRs":["10.0.0.0/8"],"targetPorts":[443]})");
  const std::string id = member(ran.out, "id");
  for (const std::string& shown :
       {json("token", "show", {id}).out, json("token", "list").out, run("token", "list").out}) {
    EXPECT_EQ(shown.find(secret), std::string::npos);
    EXPECT_EQ(shown.find(digest_token(secret).hex), std::string::npos) << "nor its hash";
  }
}

TEST_F(Commands, AnAgentTokenIsForItsAgent) {
  const Ran ran = json("token", "create", {}, {{"type", "agent"}, {"agent", "home"}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Result<Identity> identity =
      CredentialService(*db, time.clock()).authenticate(member(ran.out, "secret"), TokenType::agent);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->agent_id, home.id);
  EXPECT_EQ(identity->owner_user_id, alice.id);
}

TEST_F(Commands, TokenFlagsAreChecked) {
  const auto create = [this](std::vector<AdminOption> options) {
    return run("token", "create", {}, std::move(options));
  };
  expect_usage(create({{"type", "root"}}), "token create: --type is agent, client or server_node\n");
  expect_usage(create({{"type", "agent"}}), "token create: an agent token needs --agent\n");
  expect_usage(create({{"type", "agent"}, {"agent", "home"}, {"scope-port", "1"}}),
               "token create: --scope-port is not for agent tokens\n");
  expect_usage(create({{"type", "client"}, {"agent", "home"}}),
               "token create: --agent is for agent tokens; to restrict a client token use --scope-agent\n");
  expect_usage(create({{"type", "client"}, {"scope-cidr", "10"}}),
               "token create: --scope-cidr 10 is not a CIDR\n");
  expect_usage(create({{"type", "client"}, {"scope-port", "0"}}),
               "token create: --scope-port 0 is not a port from 1 to 65535\n");
  expect_usage(create({{"type", "client"}, {"scope-protocol", "icmp"}}),
               "token create: --scope-protocol is not tcp, udp, http or ws\n");
  for (const char* expires : {"soon", "0s", "2020-01-01T00:00:00Z", "2027-01-15T08:00:00Z", "-1h"}) {
    expect_usage(create({{"type", "client"}, {"expires", expires}}),
                 "token create: --expires is neither a duration like 720h nor a future time like "
                 "2027-01-31T00:00:00Z\n");
  }
  EXPECT_EQ(create({{"type", "client"}, {"expires", "2027-01-15T08:00:01Z"}}).exit_code, 0);
}

TEST_F(Commands, ATokenIsRevokedOnce) {
  EXPECT_EQ(member(json("token", "revoke", {client.token.id}).out, "status"), "revoked");
  expect_failure(run("token", "revoke", {client.token.id}), "token revoke: the token is already revoked\n");
  expect_failure(run("token", "rotate", {client.token.id}), "token rotate: the token is already revoked\n");
  expect_failure(run("token", "show", {"none"}), "token show: there is no such token\n");
}

TEST_F(Commands, RotationKeepsTheRights) {
  set("service_tokens", client.token.id, "scope", R"({"targetPorts":[443]})");
  const Ran ran = json("token", "rotate", {client.token.id});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  CredentialService credentials(*db, time.clock());
  const Result<Identity> identity = credentials.authenticate(member(ran.out, "secret"), TokenType::client);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->scope.target_ports, std::vector<uint16_t>{443});
  EXPECT_NE(identity->token_id, client.token.id);
  EXPECT_FALSE(credentials.authenticate(client.secret.reveal(), TokenType::client));
}

TEST_F(Commands, EveryChangeLeavesOneAuditRowAndReadingNone) {
  struct Step {
    const char* resource;
    const char* verb;
    std::vector<std::string> arguments;
    std::vector<AdminOption> options;
    const char* action;  // nullptr: reads only
  };
  const Step steps[] = {
      {"user", "list", {}, {}, nullptr},
      {"user", "create", {"carol"}, {}, "user.create"},
      {"user", "disable", {"carol"}, {}, "user.disable"},
      {"user", "enable", {"carol"}, {}, "user.enable"},
      {"user", "delete", {"carol"}, {}, "user.delete"},
      {"agent", "create", {"office"}, {}, "agent.create"},
      {"agent", "update", {"office"}, {{"name", "office"}}, nullptr},
      {"agent", "update", {"office"}, {{"capability", "tcp"}}, "agent.describe"},
      {"agent", "disable", {"office"}, {}, "agent.disable"},
      {"agent", "enable", {"office"}, {}, "agent.enable"},
      {"agent", "delete", {"office"}, {}, "agent.delete"},
      {"policy", "create", {}, {{"agent", "home"}, {"allow", "*:*"}}, "policy.create"},
      {"policy", "list", {}, {}, nullptr},
      {"policy", "update", {policy.id}, {{"protocol", "udp"}}, "policy.update"},
      {"policy", "delete", {policy.id}, {}, "policy.delete"},
      {"token", "create", {}, {{"type", "client"}}, "token.create"},
      {"token", "list", {}, {}, nullptr},
      {"token", "update", {client.token.id}, {{"expires", "1h"}}, "token.update"},
      {"token", "rotate", {agent_token.token.id}, {}, "token.rotate"},
      {"token", "revoke", {client.token.id}, {}, "token.revoke"},
  };
  for (const Step& step : steps) {
    const size_t before = audit_rows();
    time.now_us += 1'000'000;
    const Ran ran = run(step.resource, step.verb, step.arguments, step.options);
    ASSERT_EQ(ran.exit_code, 0) << step.resource << ' ' << step.verb << ": " << ran.err;
    ASSERT_EQ(audit_rows() - before, step.action == nullptr ? 0U : 1U) << step.resource << ' ' << step.verb;
    if (step.action == nullptr) continue;
    const storage::AuditRecord entry = storage::AuditRepository(*db).newest(1)->front();
    EXPECT_EQ(entry.action, step.action);
    EXPECT_EQ(entry.resource_type, step.resource);
    EXPECT_EQ(entry.actor_user_id, "");
    EXPECT_EQ(entry.details, R"({"source":"command line"})");
    EXPECT_NE(entry.resource_id, "");
  }
}

TEST_F(Commands, AFailedChangeLeavesNoAuditRow) {
  const size_t before = audit_rows();
  EXPECT_EQ(run("user", "create", {"alice"}).exit_code, 1);
  EXPECT_EQ(run("token", "show", {"none"}).exit_code, 1);
  EXPECT_EQ(audit_rows(), before);
}

TEST_F(Commands, UnknownWordsGetTheNearestOne) {
  expect_usage(run("user", "creat", {"x"}), "user creat: unknown command; did you mean user create?\n");
  expect_usage(run("user", "frobnicate"), "user frobnicate: unknown command\n");
  expect_usage(run("galaxy", "list"), "galaxy list: unknown command\n");
  expect_usage(run("agent", "create", {"x"}, {{"ownr", "bob"}}),
               "agent create: unknown flag --ownr; did you mean --owner?\n");
  expect_usage(run("agent", "show", {"home"}, {{"owner", "bob"}}), "agent show: unknown flag --owner\n");
}

TEST_F(Commands, ArgumentsAndFlagsAreCounted) {
  expect_usage(run("user", "show"), "user show: USER is missing\n");
  expect_usage(run("user", "show", {""}), "user show: USER is empty\n");
  expect_usage(run("user", "show", {"a", "b"}), "user show: unexpected argument\n");
  expect_usage(run("user", "list", {"a"}), "user list: unexpected argument\n");
  expect_usage(run("policy", "create", {}, {{"agent", "home"}}),
               "policy create: --allow PATTERN is missing\n");
  expect_usage(run("agent", "create", {"x"}, {{"owner", "bob"}, {"owner", "alice"}}),
               "agent create: --owner is given more than once\n");
  expect_usage(run("agent", "create", {"x"}, {{"owner", ""}}), "agent create: --owner needs a value\n");
}

TEST_F(Commands, ABusyDatabaseIsSaidAndNothingChanges) {
  AdminRequest request{
      .resource = "user", .verb = "list", .database = test::sqlite_settings(dir.file("none.db"))};
  test::Capture err;
  request.err = err.file();
  EXPECT_EQ(run_admin(request), 1);
  EXPECT_EQ(err.text(), "user list: " + dir.file("none.db") +
                            ": there is no database here: run quickstart, or start the server once\n");
  EXPECT_FALSE(std::filesystem::exists(dir.file("none.db")));
}

TEST_F(Commands, AnUnusableSchemaIsNamed) {
  test::run_sql(*db, "UPDATE schema_meta SET version = 12");
  test::run_sql(*db, "ALTER TABLE agents DROP COLUMN capabilities");
  expect_failure(run("user", "list"),
                 ("user list: " + path +
                  ": schema version 12 lacks the column agents.capabilities, which this program needs\n")
                     .c_str());
}

TEST_F(Commands, OutputThatCannotBeWrittenIsAFailure) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  test::Capture err;
  AdminRequest request{.resource = "user", .verb = "list", .database = test::sqlite_settings(path)};
  request.out = full;
  request.err = err.file();
  EXPECT_EQ(run_admin(request), 1);
  EXPECT_EQ(err.text(), "user list: done, but the output could not be written\n");
  std::fclose(full);
}

TEST_F(Commands, StoredTextDoesNotControlATerminal) {
  // Past the driver, which takes UTF-8 only.
  test::run_sql(*db, "UPDATE agents SET name = CAST(X'611b5b33316dc29bff7a' AS TEXT)");
  const Ran ran = run("agent", "show", {home.id});
  EXPECT_NE(ran.out.find("name  "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("  a?[31m??z\n"), std::string::npos) << ran.out;
}

TEST(AdminVerbs, AreDescribedForHelp) {
  std::set<std::string> seen;
  for (const AdminVerb& verb : admin_verbs()) {
    EXPECT_TRUE(seen.insert(std::string(verb.resource) + ' ' + verb.verb).second);
    EXPECT_NE(std::string_view(verb.help), "");
    for (const AdminFlag& flag : verb.flags) EXPECT_NE(std::string_view(flag.help), "") << flag.name;
  }
  for (const char* wanted :
       {"user create",   "user list",    "user show",   "user delete",   "user disable",  "user enable",
        "agent create",  "agent list",   "agent show",  "agent delete",  "agent disable", "agent enable",
        "policy create", "policy list",  "policy show", "policy delete", "token create",  "token list",
        "token show",    "token revoke", "token rotate"}) {
    EXPECT_TRUE(seen.contains(wanted)) << wanted;
  }
}

}  // namespace
}  // namespace tmesh::server
