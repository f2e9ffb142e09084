#include "cpp/server/secret_box.hpp"
#include "cpp/storage/node_repository.hpp"
#include "tests/cpp/server/admin_api/access_api_fixture.hpp"

namespace tmesh::server {
namespace {

struct TokensApi : test::AccessApi {
  storage::TokenRecord row(const std::string& id) { return *(*storage::TokenRepository(*db).find(id)); }
  static bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  }
  void add_node(const char* id) {
    change([&](const ChangeScope& scope) {
      return storage::NodeRepository::start(scope.tx(), id, "", "2027-02-01T00:00:00Z", scope.now());
    });
  }
};

constexpr const char* no_token = "404: there is no such token";
constexpr const char* revoked = "409: the token is already revoked";

TEST_F(TokensApi, HaveExactlyTheseMembers) {
  set("service_tokens", client.token.id, "id", "stok_1");
  set("service_tokens", "stok_1", "owner_user_id", "user-alice");
  set("users", alice.id, "id", "user-alice");
  set("service_tokens", "stok_1", "token_prefix", "prefix");
  set("service_tokens", "stok_1", "scope", R"({"targetPorts":[443,80]})");
  set("service_tokens", "stok_1", "expires_at", "2027-01-15T09:00:00Z");
  EXPECT_EQ(ask("GET /tokens/stok_1"),
            R"({"id":"stok_1","type":"client","ownerUserId":"user-alice","agentId":null,"nodeId":null,)"
            R"("prefix":"prefix","scope":{"targetPorts":[80,443]},"status":"active",)"
            R"("expiresAt":"2027-01-15T09:00:00Z","revokedAt":null,"lastUsedAt":null,)"
            R"("createdAt":"2027-01-15T08:00:00Z","updatedAt":"2027-01-15T08:00:00Z"})");
}

TEST_F(TokensApi, TheSecretIsInTheFirstAnswerOnly) {
  const std::string made = ask("POST /tokens", R"({"type":"client"})");
  EXPECT_EQ(last.status, 201);
  EXPECT_TRUE(last.has_secret);
  const std::string secret = member(made, "secret");
  EXPECT_EQ(secret.size(), 43U);
  EXPECT_FALSE(has(last.replay, secret));
  EXPECT_EQ(member(last.replay, "id"), member(made, "id"));
  EXPECT_EQ(member(last.replay, "secret"), "(none)");
  EXPECT_FALSE(has(ask("GET /tokens/" + member(made, "id")), secret));
  EXPECT_FALSE(has(ask("GET /tokens"), secret));
  EXPECT_TRUE(CredentialService(*db, time.clock()).authenticate(secret, TokenType::client));
}

TEST_F(TokensApi, StatusIsDerived) {
  const auto status = [this](const CreatedToken& of) { return member(ask("GET " + token(of)), "status"); };
  EXPECT_EQ(status(client), "active");
  set("agents", home.id, "enabled", 0);
  EXPECT_EQ(status(agent_token), "unavailable");
  set("service_tokens", client.token.id, "expires_at", "2027-01-15T08:00:00Z");
  EXPECT_EQ(status(client), "expired") << "at exactly that time";
  set("service_tokens", bobs_token.token.id, "revoked_at", "2027-01-15T07:00:00Z");
  EXPECT_EQ(status(bobs_token), "revoked");
  const std::string list = ask("GET /tokens");
  for (const char* each : {"unavailable", "expired", "revoked"})
    EXPECT_TRUE(has(list, "\"status\":\"" + std::string(each) + "\"")) << list;
}

TEST_F(TokensApi, AScopeThatCannotBeReadIsNull) {
  set("service_tokens", client.token.id, "scope", R"({"port":80})");
  EXPECT_EQ(member(ask("GET " + token(client)), "scope"), "null");
  EXPECT_EQ(member(last.data, "status"), "unavailable");
  expect_refused("PATCH " + token(client), R"({"scope":{"targetPorts":[1]}})",
                 "409: the token's scope cannot be read; revoke it and make another");
  expect_refused("POST " + token(client, "/rotate"), "",
                 "409: the token's scope cannot be read; revoke it and make another");
}

TEST_F(TokensApi, AUserHasHisOwnOnly) {
  who = bob;
  EXPECT_EQ(ids(ask("GET /tokens")), std::vector<std::string>{bobs_token.token.id});
  EXPECT_EQ(member(ask("GET " + token(bobs_token)), "id"), bobs_token.token.id);
  for (const std::string& foreign : {token(client), token(agent_token), std::string("/tokens/stok_none")}) {
    expect_refused("GET " + foreign, "", no_token);
    expect_refused("PATCH " + foreign, R"({"expiresAt":null})", no_token);
    expect_refused("POST " + foreign + "/rotate", "", no_token);
    expect_refused("POST " + foreign + "/revoke", "", no_token);
    expect_refused("POST " + foreign + "/reveal", "{}", "403: for administrators only");
  }
}

// Deployed rows of agent tokens may have no owner.
TEST_F(TokensApi, AnAgentTokenWithoutAnOwnerIsItsAgentsOwners) {
  set("service_tokens", agent_token.token.id, "owner_user_id", nullptr);
  who = bob;
  expect_refused("GET " + token(agent_token), "", no_token);
  EXPECT_EQ(ids(ask("GET /tokens")).size(), 1U);
  set("agents", home.id, "owner_user_id", bob.id);
  EXPECT_EQ(member(ask("GET " + token(agent_token)), "id"), agent_token.token.id);
  EXPECT_EQ(ids(ask("GET /tokens")).size(), 2U);
}

TEST_F(TokensApi, AUserMakesTokensForHimselfOnly) {
  who = bob;
  const std::string own = ask("POST /tokens", R"({"type":"agent","agentId":)" + quoted(bobs.id) + "}");
  EXPECT_EQ(member(own, "ownerUserId"), bob.id);
  EXPECT_EQ(member(ask("POST /tokens", R"({"type":"client"})"), "ownerUserId"), bob.id);
  const char* no_agent = "400: agentId: there is no such agent";
  expect_refused("POST /tokens", R"({"type":"agent","agentId":)" + quoted(home.id) + "}", no_agent);
  expect_refused("POST /tokens", R"({"type":"agent","agentId":"agent-none"})", no_agent);
  const char* no_scope_agent = "400: scope.agentIds: the owner has no such agent";
  expect_refused("POST /tokens", R"({"type":"client","scope":{"agentIds":[)" + quoted(home.id) + "]}}",
                 no_scope_agent);
  expect_refused("POST /tokens", R"({"type":"client","scope":{"agentIds":["agent-none"]}})", no_scope_agent);
  const char* not_his = "403: ownerUserId: a user's tokens are his own";
  expect_refused("POST /tokens", R"({"type":"client","ownerUserId":)" + quoted(alice.id) + "}", not_his);
  expect_refused("POST /tokens", R"({"type":"client","ownerUserId":"user-none"})", not_his);
  expect_refused("POST /tokens", R"({"type":"server_node"})",
                 "403: only administrators may make node tokens");
}

TEST_F(TokensApi, AnAdministratorMakesThemForOthers) {
  EXPECT_EQ(
      member(ask("POST /tokens", R"({"type":"agent","agentId":)" + quoted(bobs.id) + "}"), "ownerUserId"),
      bob.id);
  EXPECT_EQ(
      member(ask("POST /tokens", R"({"type":"client","ownerUserId":)" + quoted(bob.id) + "}"), "ownerUserId"),
      bob.id);
  EXPECT_EQ(member(ask("POST /tokens", R"({"type":"server_node"})"), "ownerUserId"), "null");
  add_node("node-1");
  const std::string node = ask("POST /tokens", R"({"type":"server_node","nodeId":"node-1"})");
  EXPECT_TRUE(has(node, R"("scope":{"serverNodeIds":["node-1"]})")) << node;
}

// Whose a node token is decides who may end it, not which servers it is for.
TEST_F(TokensApi, AUserCannotWidenOrRenewANodeToken) {
  add_node("node-1");
  ask("POST /tokens", R"({"type":"server_node","nodeId":"node-1","ownerUserId":)" + quoted(bob.id) + "}");
  const std::string node = "/tokens/" + member(last.data, "id");
  who = bob;
  const char* refusal = "403: only administrators may change node tokens";
  expect_refused("PATCH " + node, R"({"scope":{"serverNodeIds":[]}})", refusal);
  expect_refused("PATCH " + node, R"({"expiresAt":null})", refusal);
  expect_refused("POST " + node + "/rotate", "", refusal);
  EXPECT_EQ(member(ask("POST " + node + "/revoke"), "status"), "revoked");
}

TEST_F(TokensApi, EveryMemberOfANewTokenIsChecked) {
  struct Case {
    std::string body;
    const char* answer;
  };
  const std::string of_home = R"({"type":"agent","agentId":)" + quoted(home.id);
  const Case cases[] = {
      {"{}", "400: type: is required"},
      {R"({"type":"root"})", "400: type: one of agent, client and server_node is expected"},
      {R"({"type":5})", "400: type: a text is expected"},
      {R"({"type":"agent"})", "400: agentId: an agent token needs an agent"},
      {R"({"type":"agent","agentId":7})", "400: agentId: a text is expected"},
      {R"({"type":"agent","agentId":"agent-none"})", "400: agentId: there is no such agent"},
      {of_home + R"(,"ownerUserId":)" + quoted(bob.id) + "}",
       "400: ownerUserId: the agent has another owner"},
      {of_home + R"(,"scope":{"targetPorts":[1]}})", "400: scope: an agent token has none"},
      {R"({"type":"client","agentId":)" + quoted(home.id) + "}",
       "400: agentId is for agent tokens; scope.agentIds restricts others"},
      {R"({"type":"client","nodeId":"node-1"})",
       "400: nodeId: is for node tokens; scope.serverNodeIds is the present form"},
      {R"({"type":"client","ownerUserId":"user-none"})", "400: the owner is not there, disabled or deleted"},
      {R"({"type":"client","expiresAt":5})",
       "400: expiresAt: null or a time like 2027-01-31T00:00:00Z is expected"},
      {R"({"type":"client","expiresAt":"tomorrow"})",
       "400: expiresAt: null or a time like 2027-01-31T00:00:00Z is expected"},
      {R"({"type":"client","expiresAt":"2027-01-15T08:00:00Z"})", "400: expiresAt is not in the future"},
      {R"({"type":"client","scope":null})", "400: a scope is not a JSON object"},
      {R"({"type":"client","scope":[]})", "400: a scope is not a JSON object"},
      {R"({"type":"client","scope":{"ports":[1]}})", "400: a scope has an unknown key"},
      {R"({"type":"client","scope":{"targetPorts":[1],"targetPorts":[]}})", "400: a scope repeats a key"},
      {R"({"type":"client","scope":{"targetPorts":[0]}})", "400: a scope holds a port outside 1..65535"},
      {R"({"type":"client","scope":{"targetPorts":["80"]}})", "400: a scope holds a port outside 1..65535"},
      {R"({"type":"client","scope":{"protocols":["icmp"]}})", "400: a scope holds an unknown protocol"},
      {R"({"type":"client","scope":{"targetCIDRs":["a.test"]}})", "400: a scope holds a malformed CIDR"},
      {R"({"type":"client","scope":{"agentIds":[""]}})", "400: a scope holds a malformed id"},
      {R"({"type":"client","scope":{"agentIds":"x"}})", "400: a scope's ids are not a list of at most 128"},
      {R"({"type":"client","scope":{"serverNodeIds":["node-none"]}})",
       "400: scope.serverNodeIds: there is no such node"},
      {R"({"type":"server_node","scope":{"targetPorts":[1]}})",
       "400: scope: a node token has serverNodeIds only"},
  };
  for (const Case& c : cases) expect_refused("POST /tokens", c.body, c.answer);
}

TEST_F(TokensApi, PatchChangesWhatItNames) {
  ask("PATCH " + token(client),
      R"({"scope":{"targetPorts":[80],"protocols":["tcp"]},"expiresAt":"2027-01-15T09:00:00.5Z"})");
  EXPECT_EQ(row(client.token.id).scope, R"({"protocols":["tcp"],"targetPorts":[80]})");
  EXPECT_EQ(row(client.token.id).expires_at, "2027-01-15T09:00:00.5Z");
  ask("PATCH " + token(client), R"({"scope":{"targetPorts":[]}})");
  EXPECT_EQ(row(client.token.id).scope, R"({"protocols":["tcp"]})") << "omitted stays, empty takes away";
  EXPECT_EQ(row(client.token.id).expires_at, "2027-01-15T09:00:00.5Z");
  ask("PATCH " + token(client), R"({"expiresAt":null})");
  EXPECT_EQ(row(client.token.id).expires_at, "") << "null is never";
  EXPECT_EQ(row(client.token.id).scope, R"({"protocols":["tcp"]})");
  const std::string entries = audited();
  ask("PATCH " + token(client), "{}");
  EXPECT_EQ(audited(), entries);
  expect_refused("PATCH " + token(client), R"({"expiresAt":"2027-01-15T08:00:00Z"})",
                 "400: expiresAt is not in the future");
  expect_refused("PATCH " + token(client), R"({"scope":{"nodes":[]}})", "400: a scope has an unknown key");
  EXPECT_EQ(call("PATCH " + token(client), R"({"type":"agent"})").error().status, 400);
}

TEST_F(TokensApi, RotationGivesANewOneAndEndsTheOld) {
  const std::string made = ask("POST " + token(client, "/rotate"));
  EXPECT_EQ(last.status, 201);
  EXPECT_TRUE(last.has_secret);
  EXPECT_NE(member(made, "id"), client.token.id);
  EXPECT_FALSE(has(last.replay, member(made, "secret")));
  EXPECT_EQ(member(ask("GET " + token(client)), "status"), "revoked");
  EXPECT_TRUE(CredentialService(*db, time.clock()).authenticate(member(made, "secret"), TokenType::client));
  EXPECT_FALSE(CredentialService(*db, time.clock()).authenticate(client.secret.reveal(), TokenType::client));
  expect_refused("POST " + token(client, "/rotate"), "", revoked);
}

TEST_F(TokensApi, RevokedOnesStayAsTheyAre) {
  EXPECT_EQ(member(ask("POST " + token(client, "/revoke")), "status"), "revoked");
  EXPECT_EQ(member(last.data, "revokedAt"), "2027-01-15T08:00:00Z");
  expect_refused("POST " + token(client, "/revoke"), "", revoked);
  expect_refused("PATCH " + token(client), R"({"expiresAt":null})", revoked);
}

struct RevealApi : TokensApi {
  void SetUp() override {
    TokensApi::SetUp();
    secret_box = &box;
    kept = member(ask("POST /tokens", R"({"type":"client"})"), "id");
    secret = member(last.data, "secret");
    headers = {{"X-Token-Reveal-Confirm", "yes"}, {"Idempotency-Key", "key-1"}};
  }
  SecretBox box = *SecretBox::make("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "");
  std::string kept;
  std::string secret;
};

TEST_F(RevealApi, GivesTheSecretAndAReplayWithoutIt) {
  EXPECT_EQ(ask("POST /tokens/" + kept + "/reveal", R"({"reason":"lost","acknowledgeRisk":true})"),
            R"({"tokenId":")" + kept + R"(","type":"client","secret":")" + secret +
                R"(","expiresAt":null,"revealedAt":"2027-01-15T08:00:00Z","oneTime":true})");
  EXPECT_TRUE(last.has_secret);
  EXPECT_FALSE(has(last.replay, secret));
  EXPECT_EQ(member(last.replay, "tokenId"), kept);
  EXPECT_EQ(test::scalar(*db, "SELECT action FROM audit_logs ORDER BY rowid DESC LIMIT 1"), "token.reveal");
  EXPECT_EQ(member(ask("POST /tokens/" + kept + "/reveal", "{}"), "secret"), secret)
      << "no member is required";
}

TEST_F(RevealApi, NeedsBothHeaders) {
  headers = {{"Idempotency-Key", "key-1"}};
  expect_refused("POST /tokens/" + kept + "/reveal", "{}",
                 "400: the header X-Token-Reveal-Confirm is missing");
  headers = {{"X-Token-Reveal-Confirm", ""}, {"Idempotency-Key", "key-1"}};
  expect_refused("POST /tokens/" + kept + "/reveal", "{}",
                 "400: the header X-Token-Reveal-Confirm is missing");
  headers = {{"X-Token-Reveal-Confirm", "yes"}};
  expect_refused("POST /tokens/" + kept + "/reveal", "{}", "400: the header Idempotency-Key is missing");
}

TEST_F(RevealApi, EveryRefusalSaysWhy) {
  const std::string reveal = "POST /tokens/" + kept + "/reveal";
  expect_refused(reveal, R"({"acknowledgeRisk":false})", "400: acknowledgeRisk: true is expected");
  expect_refused(reveal, R"({"acknowledgeRisk":"yes"})", "400: acknowledgeRisk: true or false is expected");
  expect_refused(reveal, R"({"reason":1})", "400: reason: a text is expected");
  expect_refused("POST /tokens/stok_none/reveal", "{}", no_token);
  expect_refused("POST " + token(client, "/reveal"), "{}",
                 "409: the token's secret was not kept; rotate the token");
  secret_box = nullptr;
  expect_refused(reveal, "{}",
                 "409: the server has no TUNNELMESH_TOKEN_ENCRYPTION_KEY to read kept secrets with");
  const SecretBox other = *SecretBox::make("AAECAwQFBgcICQoLDA0ODw", "2028");
  secret_box = &other;
  expect_refused(reveal, "{}", "409: the secret was kept under another key");
  secret_box = &box;
  set("service_tokens", kept, "secret_nonce", "AAAA");
  expect_refused(reveal, "{}", "409: the kept secret cannot be read with the present key");
  set("service_tokens", kept, "revoked_at", "2027-01-15T07:00:00Z");
  expect_refused(reveal, "{}", revoked);
}

// No answer but the first, no audit entry and no refusal holds a secret or a digest of one.
TEST_F(RevealApi, SecretsAreNowhereElse) {
  ask("POST /tokens/" + kept + "/reveal", "{}");
  ask("POST /tokens/" + kept + "/rotate");
  const std::string second = member(last.data, "secret");
  std::string seen = last.replay + ask("GET /tokens");
  seen += ask("GET /tokens/" + kept) + ask("POST /tokens/" + kept + "/reveal", "{}");
  const std::vector<storage::AuditRecord> entries = *storage::AuditRepository(*db).newest(500);
  for (const storage::AuditRecord& entry : entries) seen += entry.details + entry.resource_id;
  for (const std::string& hidden : {secret, second, row(kept).token_hash}) EXPECT_FALSE(has(seen, hidden));
}

TEST_F(TokensApi, TextsAreDataOnly) {
  for (const std::string& text : test::injections()) {
    const std::string id = quoted(text);
    expect_refused("POST /tokens", R"({"type":"agent","agentId":)" + id + "}",
                   "400: agentId: there is no such agent");
    expect_refused("POST /tokens", R"({"type":"client","ownerUserId":)" + id + "}",
                   "400: the owner is not there, disabled or deleted");
    expect_refused("POST /tokens", R"({"type":"client","scope":{"agentIds":[)" + id + "]}}",
                   "400: scope.agentIds: the owner has no such agent");
  }
  EXPECT_EQ(test::scalar(*db, "SELECT COUNT(*) FROM users"), "2");
}

TEST_F(TokensApi, ListsOfAScopeAreBounded) {
  std::string ports = R"({"type":"client","scope":{"targetPorts":[1)";
  for (int i = 0; i < 200'000; ++i) ports += ",1";
  expect_refused("POST /tokens", ports + "]}}", "400: a scope's ports are not a list of at most 1024");
  std::string agents = R"({"type":"client","scope":{"agentIds":[")" + std::string(256, 'a');
  expect_refused("POST /tokens", agents + "\"]}}", "400: a scope holds a malformed id");
}

}  // namespace
}  // namespace tmesh::server
