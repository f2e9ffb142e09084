// agent, policy and token: what is beyond creating, listing and ending.
#include "cpp/server/secret_box.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "tests/cpp/server/access_fixture.hpp"
#include "tests/cpp/server/commands_fixture.hpp"

namespace tmesh::server {
namespace {

struct AccessCommands : test::Commands {
  storage::AgentRecord agent_row() { return *(*storage::AgentRepository(*db).find(home.id)); }
  storage::PolicyRecord policy_row() { return *(*storage::PolicyRepository(*db).find(policy.id)); }
  storage::TokenRecord token_row() { return *(*storage::TokenRepository(*db).find(client.token.id)); }
  test::Ran update_token(std::vector<AdminOption> options) {
    return run("token", "update", {client.token.id}, std::move(options));
  }
};

TEST_F(AccessCommands, AgentCreateTakesOptions) {
  const test::Ran ran =
      json("agent", "create", {"lab"}, {{"capability", "tcp"}, {"capability", "a b"}, {"disabled", ""}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto document = json::parse(ran.out);
  EXPECT_EQ(document->root().get("capabilities").size(), 2U);
  EXPECT_EQ(document->root().get("enabled").as_bool(), false);
  EXPECT_EQ(member(ran.out, "status"), "offline");
}

TEST_F(AccessCommands, AgentListShowsWhoIsThere) {
  change([this](const ChangeScope& scope) {
    storage::LeaseRecord lease;
    lease.agent_id = home.id;
    lease.connection_id = "conn-1";
    lease.node_id = "machine";
    lease.instance_id = "instance";
    lease.server_node_id = "node-1";
    lease.acquired_at = scope.now();
    lease.expires_at = "2027-01-15T08:01:00Z";
    lease.updated_at = scope.now();
    return storage::LeaseRepository::acquire(scope.tx(), lease, scope.now());
  });
  EXPECT_EQ(member(json("agent", "show", {"home"}).out, "status"), "online");
  EXPECT_NE(run("agent", "list").out.find(" online "), std::string::npos);
}

TEST_F(AccessCommands, AgentUpdateChangesWhatItNames) {
  ASSERT_EQ(run("agent", "update", {"home"}, {{"name", "house"}}).exit_code, 0);
  EXPECT_EQ(agent_row().name, "house");
  ASSERT_EQ(run("agent", "update", {"house"}, {{"capability", "udp"}, {"owner", "bob"}}).exit_code, 0);
  EXPECT_EQ(agent_row().capabilities, R"(["udp"])");
  EXPECT_EQ(agent_row().owner_user_id, bob.id);
  ASSERT_EQ(run("agent", "update", {"house"}, {{"clear-capabilities", ""}}).exit_code, 0);
  EXPECT_EQ(agent_row().capabilities, "[]");
  expect_usage(run("agent", "update", {"house"}),
               "agent update: there is nothing to change: give --name, --capability, --clear-capabilities or "
               "--owner\n");
  expect_usage(run("agent", "update", {"house"}, {{"capability", "x"}, {"clear-capabilities", ""}}),
               "agent update: --capability and --clear-capabilities exclude each other\n");
  expect_failure(run("agent", "update", {"house"}, {{"owner", "nobody"}}),
                 "agent update: there is no such user\n");
  expect_failure(run("agent", "update", {"none"}, {{"name", "x"}}), "agent update: there is no such agent\n");
  for (const std::string& name : test::hostile_texts()) {
    if (name.find('\0') != std::string::npos) continue;  // no argument holds one
    EXPECT_EQ(run("agent", "update", {"house"}, {{"name", name}}).exit_code, 2) << name;
  }
  EXPECT_EQ(agent_row().name, "house");
}

TEST_F(AccessCommands, PolicyUpdateChangesWhatItNames) {
  const auto update = [this](std::vector<AdminOption> options) {
    return run("policy", "update", {policy.id}, std::move(options));
  };
  ASSERT_EQ(update({{"allow", "10.0.0.0/8:80,8000-8100"}}).exit_code, 0);
  EXPECT_EQ(policy_row().target_host + ' ' + policy_row().allowed_ports, "10.0.0.0/8 80,8000-8100");
  ASSERT_EQ(update({{"protocol", "udp"}, {"cidr", "10.1.0.0/16"}}).exit_code, 0);
  EXPECT_EQ(policy_row().protocol + policy_row().allowed_cidrs, R"(udp["10.1.0.0/16"])");
  ASSERT_EQ(update({{"any-cidr", ""}}).exit_code, 0);
  EXPECT_EQ(policy_row().allowed_cidrs, "[]");
  expect_usage(update({}),
               "policy update: there is nothing to change: give --allow, --protocol, --cidr or --any-cidr\n");
  expect_usage(update({{"cidr", "10.0.0.0/8"}, {"any-cidr", ""}}),
               "policy update: --cidr and --any-cidr exclude each other\n");
  expect_usage(update({{"cidr", "10"}}), "policy update: allowedCIDRs has an item that is no CIDR\n");
  expect_usage(update({{"allow", "a"}}), "policy update: --allow a: there is no :PORT at the end\n");
  expect_failure(run("policy", "update", {"none"}, {{"protocol", "tcp"}}),
                 "policy update: there is no such policy\n");
}

TEST_F(AccessCommands, PolicyListsAreArraysInJson) {
  const test::Ran ran =
      json("policy", "create", {}, {{"agent", "home"}, {"allow", "*:22,8000-8100"}, {"cidr", "10.1.2.3/8"}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto document = json::parse(ran.out);
  const json::Value made = *document->root().begin();
  EXPECT_EQ(made.get("allowedPorts").size(), 2U);
  EXPECT_TRUE(made.get("allowedCIDRs").is_array());
  EXPECT_EQ((*made.get("allowedCIDRs").begin()).as_string(), "10.0.0.0/8");
}

TEST_F(AccessCommands, TokenUpdateChangesListsOnTheirOwn) {
  ASSERT_EQ(update_token({{"scope-agent", "home"}, {"scope-port", "443"}, {"expires", "1h"}}).exit_code, 0);
  EXPECT_EQ(token_row().scope, R"({"agentIds":[")" + home.id + R"("],"targetPorts":[443]})");
  EXPECT_EQ(token_row().expires_at, "2027-01-15T09:00:00Z");
  ASSERT_EQ(update_token({{"any-agent", ""}, {"scope-protocol", "tcp"}, {"expires", "never"}}).exit_code, 0);
  EXPECT_EQ(token_row().scope, R"({"protocols":["tcp"],"targetPorts":[443]})");
  EXPECT_EQ(token_row().expires_at, "");
  ASSERT_EQ(update_token({{"any-port", ""}, {"any-protocol", ""}, {"scope-cidr", "10.0.0.0/8"}}).exit_code,
            0);
  EXPECT_EQ(token_row().scope, R"({"targetCIDRs":["10.0.0.0/8"]})");
  ASSERT_EQ(update_token({{"any-cidr", ""}, {"any-node", ""}}).exit_code, 0);
  EXPECT_EQ(token_row().scope, "{}");
}

TEST_F(AccessCommands, TokenUpdateIsChecked) {
  expect_usage(update_token({}),
               "token update: there is nothing to change: give --expires, --scope-... or --any-...\n");
  expect_usage(update_token({{"scope-port", "1"}, {"any-port", ""}}),
               "token update: --scope-port and --any-port exclude each other\n");
  expect_usage(update_token({{"scope-node", "node-1"}}),
               "token update: scope.serverNodeIds: there is no such node\n");
  expect_usage(update_token({{"expires", "yesterday"}}),
               "token update: --expires is neither a duration like 720h nor a future time like "
               "2027-01-31T00:00:00Z\n");
  expect_failure(run("token", "update", {"none"}, {{"expires", "1h"}}),
                 "token update: there is no such token\n");
  set("service_tokens", client.token.id, "scope", "{\"x\":1}");
  expect_failure(update_token({{"scope-port", "1"}}),
                 "token update: the token's scope cannot be read; revoke it and make another\n");
}

TEST_F(AccessCommands, NodeTokensBelongToTheInstallation) {
  change([](const ChangeScope& scope) {
    return storage::NodeRepository::start(scope.tx(), "node-1", "", "2027-02-01T00:00:00Z", scope.now());
  });
  const test::Ran ran = json("token", "create", {}, {{"type", "server_node"}, {"scope-node", "node-1"}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(json::parse(ran.out)->root().get("ownerUserId").is_null());
  EXPECT_EQ(member(ran.out, "status"), "active");
  expect_usage(run("token", "create", {}, {{"type", "server_node"}, {"scope-port", "1"}}),
               "token create: scope: a node token has serverNodeIds only\n");
}

TEST_F(AccessCommands, ASecretIsRevealedIfItWasKept) {
  expect_failure(run("token", "reveal", {client.token.id}, {{"confirm", ""}}),
                 "token reveal: the token's secret was not kept; rotate the token\n");
  const SecretBox box = *SecretBox::make("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "");
  secret_box = &box;
  const std::string made = json("token", "create", {}, {{"type", "client"}}).out;
  const std::string id = member(made, "id");
  const test::Ran shown = json("token", "reveal", {id}, {{"confirm", ""}});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(member(shown.out, "secret"), member(made, "secret"));
  EXPECT_EQ(run("token", "reveal", {id}).exit_code, 2) << "without --confirm";
  EXPECT_EQ(json("token", "show", {id}).out.find(member(made, "secret")), std::string::npos);
  secret_box = nullptr;
  expect_failure(
      run("token", "reveal", {id}, {{"confirm", ""}}),
      "token reveal: the server has no TUNNELMESH_TOKEN_ENCRYPTION_KEY to read kept secrets with\n");
}

}  // namespace
}  // namespace tmesh::server
