#include "cpp/server/credential_service.hpp"

#include "cpp/server/token_hash.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::server {
namespace {

struct Credentials : test::ServiceFixture {
  Result<Identity> ask(std::string_view secret, TokenType type = TokenType::client) {
    return CredentialService(*db, time.clock()).authenticate(secret, type);
  }
  Result<Identity> ask_client() { return ask(client.secret.reveal()); }
  Result<Identity> ask_agent() { return ask(agent_token.secret.reveal(), TokenType::agent); }

  void expect_denied(const Result<Identity>& asked, const char* text) {
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().code, TMESH_E_POLICY);
    EXPECT_STREQ(asked.error().text, text);
  }
};

TEST_F(Credentials, AClientTokenIsItsOwner) {
  const Result<Identity> identity = ask_client();
  ASSERT_TRUE(identity) << identity.error().text;
  EXPECT_EQ(identity->token_id, client.token.id);
  EXPECT_EQ(identity->type, TokenType::client);
  EXPECT_EQ(identity->owner_user_id, alice.id);
  EXPECT_EQ(identity->agent_id, "");
  EXPECT_EQ(identity->expires_at_us, std::nullopt);
}

TEST_F(Credentials, AnAgentTokenIsItsAgent) {
  const Result<Identity> identity = ask_agent();
  ASSERT_TRUE(identity) << identity.error().text;
  EXPECT_EQ(identity->agent_id, home.id);
  EXPECT_EQ(identity->owner_user_id, alice.id);
}

TEST_F(Credentials, AnAgentTokenWithoutAnOwnerHasItsAgents) {
  set("service_tokens", agent_token.token.id, "owner_user_id", nullptr);
  EXPECT_EQ(ask_agent()->owner_user_id, alice.id);
}

TEST_F(Credentials, ARecheckTellsOfEachTokenWhetherItMayBeUsedNow) {
  CredentialService service(*db, time.clock());
  const std::vector<std::string> ids = {agent_token.token.id, client.token.id, "stok_unknown"};
  set("service_tokens", client.token.id, "expires_at", "2027-01-15T09:00:00Z");
  auto answers = service.recheck(ids);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_TRUE(answers[0]);
  EXPECT_EQ(answers[0]->expires_at_us, std::nullopt);
  EXPECT_EQ(answers[1]->expires_at_us, time.now_us + 3'600'000'000);
  EXPECT_EQ(answers[2].error().code, TMESH_E_POLICY);
  set("service_tokens", client.token.id, "scope", "{broken");
  ASSERT_TRUE(change([this](AgentService s) { return s.set_enabled(home, false); }));
  answers = service.recheck(ids);
  EXPECT_EQ(answers[0].error().code, TMESH_E_POLICY) << "its agent was disabled";
  EXPECT_EQ(answers[1].error().code, TMESH_E_INVALID);
  test::run_sql(*db, "DROP TABLE service_tokens");
  answers = service.recheck(ids);
  for (const auto& answer : answers) EXPECT_EQ(answer.error().code, TMESH_E_IO) << "nothing is known";
}

TEST_F(Credentials, AUseNotedAMomentAgoNeedsNoOtherNote) {
  EXPECT_FALSE(ask_client()->is_use_noted);
  ASSERT_TRUE(CredentialService(*db, time.clock()).note_uses(std::vector{client.token.id}));
  EXPECT_TRUE(ask_client()->is_use_noted);
  time.now_us += CredentialService::use_note_interval_us - 1;
  EXPECT_TRUE(ask_client()->is_use_noted);
  time.now_us += 1;
  EXPECT_FALSE(ask_client()->is_use_noted);
  time.now_us -= 2 * CredentialService::use_note_interval_us;
  EXPECT_FALSE(ask_client()->is_use_noted) << "a clock that was set back";
}

TEST_F(Credentials, BothSpellingsOfTheDigestAreFound) {
  set("service_tokens", client.token.id, "token_hash", digest_token(client.secret.reveal()).base64url);
  EXPECT_TRUE(ask_client());
}

TEST_F(Credentials, OnlyTheExactSecretIsAccepted) {
  const std::string secret(client.secret.reveal());
  for (const std::string& wrong :
       {std::string(), secret.substr(1), secret + "A", " " + secret, secret + "\n", client.token.id,
        client.token.token_hash, client.token.token_prefix, std::string(513, 'A')}) {
    expect_denied(ask(wrong), "no token has this secret");
  }
}

TEST_F(Credentials, AnUpperCaseHashIsNotOurs) {
  std::string upper = client.token.token_hash;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  set("service_tokens", client.token.id, "token_hash", upper);
  expect_denied(ask_client(), "no token has this secret");
}

TEST_F(Credentials, TheTypeMustMatch) {
  expect_denied(ask(client.secret.reveal(), TokenType::agent), "the token is of another type");
  expect_denied(ask(agent_token.secret.reveal(), TokenType::client), "the token is of another type");
  expect_denied(ask(client.secret.reveal(), TokenType::server_node), "the token is of another type");
}

TEST_F(Credentials, ARevokedTokenIsRefused) {
  change([this](TokenService s) { return s.revoke(client.token); });
  expect_denied(ask_client(), "the token is revoked");
}

TEST_F(Credentials, ATokenEndsAtItsExpiry) {
  set("service_tokens", client.token.id, "expires_at", storage::format_timestamp(time.now_us + 1));
  ASSERT_TRUE(ask_client());
  EXPECT_EQ(ask_client()->expires_at_us, time.now_us + 1);
  time.now_us += 1;
  expect_denied(ask_client(), "the token has expired");
}

TEST_F(Credentials, AnExpiryWithoutFractionComparesAsTime) {
  set("service_tokens", client.token.id, "expires_at", "2027-01-15T08:00:00.5Z");
  time.now_us = *storage::parse_timestamp("2027-01-15T08:00:00Z");
  EXPECT_TRUE(ask_client()) << "lexicographically '.' sorts before 'Z'";
}

TEST_F(Credentials, AMalformedExpiryIsRefusedAsUnreadable) {
  set("service_tokens", client.token.id, "expires_at", "tomorrow");
  EXPECT_EQ(ask_client().error().code, TMESH_E_INVALID);
}

TEST_F(Credentials, AnEmptyExpiryIsNone) {
  set("service_tokens", client.token.id, "expires_at", "");
  EXPECT_TRUE(ask_client());
}

TEST_F(Credentials, TheOwnerMustLive) {
  set("users", alice.id, "disabled", 1);
  expect_denied(ask_client(), "the token's owner is disabled");
  expect_denied(ask_agent(), "the token's owner is disabled");
  set("users", alice.id, "disabled", 0);
  set("users", alice.id, "deleted_at", "2026-01-01T00:00:00Z");
  expect_denied(ask_client(), "the token's owner is deleted");
  test::run_sql(*db, "DELETE FROM users WHERE username = 'alice'");
  expect_denied(ask_client(), "the token's owner does not exist");
  set("service_tokens", client.token.id, "owner_user_id", nullptr);
  expect_denied(ask_client(), "the token has no owner");
}

TEST_F(Credentials, TheAgentMustLive) {
  change([this](AgentService s) { return s.set_enabled(home, false); });
  expect_denied(ask_agent(), "the token's agent is disabled");
  change([this](AgentService s) { return s.set_enabled(home, true); });
  ASSERT_TRUE(ask_agent());
  set("agents", home.id, "owner_user_id", bob.id);
  expect_denied(ask_agent(), "the token's agent has another owner");
  change([this](AgentService s) { return s.remove(home); });
  expect_denied(ask_agent(), "the token's agent does not exist");
  set("service_tokens", agent_token.token.id, "agent_id", nullptr);
  expect_denied(ask_agent(), "the agent token names no agent");
}

TEST_F(Credentials, AMalformedScopeIsRefusedAsUnreadable) {
  for (const char* scope : {"", "[]", "null", "{\"agentIds\":\"x\"}", "{\"new\":[]}", "{"}) {
    set("service_tokens", client.token.id, "scope", scope);
    const Result<Identity> asked = ask_client();
    ASSERT_FALSE(asked) << scope;
    EXPECT_EQ(asked.error().code, TMESH_E_INVALID) << scope;
  }
}

TEST_F(Credentials, EveryScopedNodeMustLive) {
  const auto put = [this](const char* columns) {
    test::run_sql(*db, "DELETE FROM server_nodes");
    test::run_sql(
        *db,
        std::string("INSERT INTO server_nodes (id, name, address, metadata, created_at, updated_at, enabled, "
                    "deleted_at, expires_at) VALUES ('server-1', 'x', 'x', '{}', 'x', 'x', ") +
            columns + ")");
  };
  set("service_tokens", client.token.id, "scope", R"({"serverNodeIds":["server-1"]})");
  constexpr const char* gone = "a server node of the token's scope is not there, disabled or deleted";
  expect_denied(ask_client(), gone);
  put("1, NULL, NULL");
  ASSERT_TRUE(ask_client());
  EXPECT_EQ(ask_client()->scope.server_node_ids, std::vector<std::string>{"server-1"});
  put("0, NULL, NULL");
  expect_denied(ask_client(), gone);
  put("1, '2026-01-01T00:00:00Z', NULL");
  expect_denied(ask_client(), gone);
  put("1, NULL, '2026-01-01T00:00:00Z'");
  expect_denied(ask_client(), "a server node of the token's scope has expired");
}

TEST_F(Credentials, ADatabaseFailureIsNotADenial) {
  test::run_sql(*db, "DROP TABLE users");
  const Result<Identity> asked = ask_client();
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, TMESH_E_IO);
}

TEST_F(Credentials, NothingIsLeftOpenAfterADenial) {
  expect_denied(ask("wrong"), "no token has this secret");
  EXPECT_TRUE(storage::Transaction::write(*db));
}

TEST_F(Credentials, UseIsNotedWithoutAStepOfTheRevision) {
  const uint64_t before = *storage::read_revision(*db);
  ASSERT_TRUE(CredentialService(*db, time.clock()).note_uses(std::vector{client.token.id}));
  EXPECT_EQ((*storage::TokenRepository(*db).find(client.token.id))->last_used_at, "2027-01-15T08:00:00Z");
  EXPECT_EQ(*storage::read_revision(*db), before);
}

TEST_F(Credentials, ATokenThatIsGoneDoesNotKeepOthersFromBeingNoted) {
  const std::vector<std::string> ids = {"none", client.token.id};
  EXPECT_TRUE(CredentialService(*db, time.clock()).note_uses(ids));
  EXPECT_EQ((*storage::TokenRepository(*db).find(client.token.id))->last_used_at, "2027-01-15T08:00:00Z");
}

TEST_F(Credentials, StatusNamesWhatAListShows) {
  const auto status = [this](const storage::TokenRecord& token) {
    return std::string(token_status_name(*token_status(*db, token, time.now_us)));
  };
  storage::TokenRecord token = client.token;
  EXPECT_EQ(status(token), "active");
  token.scope = "broken";
  EXPECT_EQ(status(token), "unavailable");
  token.owner_user_id = "none";
  token.scope = "{}";
  EXPECT_EQ(status(token), "unavailable");
  token.expires_at = "2020-01-01T00:00:00Z";
  EXPECT_EQ(status(token), "expired");
  token.revoked_at = "2020-01-01T00:00:00Z";
  EXPECT_EQ(status(token), "revoked");
}

TEST(TokenTypes, NamesAreThoseOfTheDatabase) {
  for (const TokenType type : {TokenType::agent, TokenType::client, TokenType::server_node}) {
    EXPECT_EQ(parse_token_type(token_type_name(type)), type);
  }
  EXPECT_EQ(parse_token_type("Agent"), std::nullopt);
  EXPECT_EQ(parse_token_type(""), std::nullopt);
}

}  // namespace
}  // namespace tmesh::server
