#include "cpp/server/authorizer.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::server {
namespace {

struct Authorization : test::ServiceFixture {
  Result<Grant> ask(const std::string& host, uint16_t port = 443, const char* protocol = "tcp") {
    return Authorizer(*db, time.clock()).authorize({client.token.id, home.id, protocol, host, port});
  }
  Result<Grant> ask_usual() { return ask("www.example.com"); }
  void expect_denied(const Result<Grant>& asked, const char* text) {
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().code, TMESH_E_POLICY) << asked.error().text;
    EXPECT_STREQ(asked.error().text, text);
  }
};

constexpr const char* no_policy = "no policy of the agent allows it";

TEST_F(Authorization, GrantsWhatAPolicyAllows) {
  const Result<Grant> grant = ask("WWW.Example.COM.");
  ASSERT_TRUE(grant) << grant.error().text;
  EXPECT_EQ(grant->token_id, client.token.id);
  EXPECT_EQ(grant->owner_user_id, alice.id);
  EXPECT_EQ(grant->agent_id, home.id);
  EXPECT_EQ(grant->target.host, "www.example.com");
  EXPECT_EQ(grant->target.port, 443);
  EXPECT_EQ(grant->target.protocol, "tcp");
  EXPECT_EQ(grant->expires_at_us, std::nullopt);
}

TEST_F(Authorization, CarriesTheExpiryOfTheToken) {
  set("service_tokens", client.token.id, "expires_at", "2027-01-15T09:00:00Z");
  EXPECT_EQ(ask_usual()->expires_at_us, storage::parse_timestamp("2027-01-15T09:00:00Z"));
}

TEST_F(Authorization, WithoutAPolicyNothingIsAllowed) {
  expect_denied(ask("other.test"), no_policy);
  expect_denied(ask("www.example.com", 80), no_policy);
  expect_denied(ask("www.example.com", 443, "udp"), no_policy);
  change([this](PolicyService s) { return s.remove(policy); });
  expect_denied(ask_usual(), no_policy);
}

TEST_F(Authorization, OneOfSeveralPoliciesIsEnough) {
  add_policy("10.0.0.0/8:*");
  add_policy("dns.example:53", "udp");
  EXPECT_TRUE(ask_usual());
  EXPECT_TRUE(ask("10.1.1.1", 22));
  EXPECT_TRUE(ask("dns.example", 53, "udp"));
  expect_denied(ask("dns.example", 53, "tcp"), no_policy);
}

TEST_F(Authorization, PoliciesOfOtherAgentsDoNotCount) {
  const storage::AgentRecord other = *change([this](AgentService s) { return s.create("other", alice); });
  expect_denied(
      Authorizer(*db, time.clock()).authorize({client.token.id, other.id, "tcp", "www.example.com", 443}),
      no_policy);
}

TEST_F(Authorization, OneMalformedPolicyRefusesAll) {
  const storage::PolicyRecord broken = add_policy("elsewhere.test:1");
  set("agent_policies", broken.id, "allowed_ports", "80;443");
  const Result<Grant> asked = ask_usual();
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, TMESH_E_INVALID);
}

TEST_F(Authorization, PoliciesBeyondTheFirstPageCount) {
  change([this](PolicyService s) { return s.remove(policy); });
  change([this](PolicyService s) -> Result<void> {
    for (int i = 0; i < 250; ++i) {
      const TargetPattern pattern = *parse_target_pattern("h" + std::to_string(i) + ".test:1");
      if (auto made = s.create(home.id, pattern, "tcp"); !made) return std::unexpected(made.error());
    }
    return {};
  });
  for (const char* host : {"h0.test", "h100.test", "h249.test"}) EXPECT_TRUE(ask(host, 1)) << host;
  expect_denied(ask("h250.test", 1), no_policy);
}

TEST_F(Authorization, TheTokenMustBeALiveClientToken) {
  Authorizer authorizer(*db, time.clock());
  expect_denied(authorizer.authorize({"none", home.id, "tcp", "www.example.com", 443}),
                "the token does not exist");
  expect_denied(authorizer.authorize({agent_token.token.id, home.id, "tcp", "www.example.com", 443}),
                "the token is not a client token");
  change([this](TokenService s) { return s.revoke(client.token); });
  expect_denied(ask_usual(), "the token is revoked");
}

TEST_F(Authorization, TheTokenMustNotHaveExpired) {
  set("service_tokens", client.token.id, "expires_at", storage::format_timestamp(time.now_us + 10));
  EXPECT_TRUE(ask_usual());
  time.now_us += 10;
  expect_denied(ask_usual(), "the token has expired");
}

TEST_F(Authorization, TheOwnerMustLive) {
  set("users", alice.id, "disabled", 1);
  expect_denied(ask_usual(), "the token's owner is disabled");
}

TEST_F(Authorization, TheAgentMustBeThereEnabledAndOwned) {
  expect_denied(
      Authorizer(*db, time.clock()).authorize({client.token.id, "none", "tcp", "www.example.com", 443}),
      "the agent does not exist");
  set("agents", home.id, "enabled", 0);
  expect_denied(ask_usual(), "the agent is disabled");
  set("agents", home.id, "enabled", 1);
  set("agents", home.id, "owner_user_id", bob.id);
  expect_denied(ask_usual(), "the agent has another owner");
}

TEST_F(Authorization, AnAdministratorsTokenDoesNotReachOthersAgents) {
  const CreatedToken other =
      *change([this](TokenService s) { return s.create({TokenType::client, bob.id, {}, {}, {}}); });
  expect_denied(
      Authorizer(*db, time.clock()).authorize({other.token.id, home.id, "tcp", "www.example.com", 443}),
      "the agent has another owner");
}

TEST_F(Authorization, TheScopeRestricts) {
  add_policy("10.0.0.0/8:*");
  set("service_tokens", client.token.id, "scope", R"({"targetPorts":[22]})");
  EXPECT_TRUE(ask("10.0.0.1", 22));
  expect_denied(ask_usual(), "the token's scope does not allow it");
  set("service_tokens", client.token.id, "scope", R"({"agentIds":["agent-other"]})");
  expect_denied(ask("10.0.0.1", 22), "the token's scope does not allow it");
}

TEST_F(Authorization, AClientTokenBoundToAnAgentReachesNoOther) {
  const storage::AgentRecord other = *change([this](AgentService s) { return s.create("other", alice); });
  set("service_tokens", client.token.id, "agent_id", other.id);
  expect_denied(ask_usual(), "the token is bound to another agent");
  set("service_tokens", client.token.id, "agent_id", home.id);
  EXPECT_TRUE(ask_usual());
}

TEST_F(Authorization, MalformedRequestsAreDenied) {
  Authorizer authorizer(*db, time.clock());
  expect_denied(authorizer.authorize({client.token.id, "", "tcp", "a.example", 1}),
                "the agent id is empty or too long");
  expect_denied(authorizer.authorize({client.token.id, std::string(256, 'a'), "tcp", "a.example", 1}),
                "the agent id is empty or too long");
  expect_denied(ask("127.1"), "the target host is neither an address nor a host name");
  expect_denied(ask("www.example.com", 0), "port 0 is no target");
  expect_denied(ask("www.example.com", 443, "icmp"), "unknown protocol");
}

TEST_F(Authorization, ADatabaseFailureIsNotADenial) {
  test::run_sql(*db, "DROP TABLE agent_policies");
  EXPECT_EQ(ask_usual().error().code, TMESH_E_IO);
}

TEST_F(Authorization, AMissingRevisionDoesNotStopDecisions) {
  test::run_sql(*db, "DELETE FROM authorization_revision");
  EXPECT_TRUE(ask_usual());
}

TEST_F(Authorization, ADisabledAgentOfAnotherProcessIsSeenAtOnce) {
  EXPECT_TRUE(ask_usual());
  std::unique_ptr<storage::Db> other = test::open_migrated(path);
  Result<storage::Transaction> tx = storage::Transaction::write(*other);
  ASSERT_TRUE(storage::AgentRepository::set_enabled(*tx, home.id, false, "2027-01-15T08:00:00Z"));
  EXPECT_TRUE(ask_usual()) << "not yet committed";
  ASSERT_TRUE(tx->commit());
  expect_denied(ask_usual(), "the agent is disabled");
}

}  // namespace
}  // namespace tmesh::server
