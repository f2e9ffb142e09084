// Why a token may or may not open a target, as `explain` says it.
#include "cpp/server/explain.hpp"

#include "tests/cpp/server/commands_fixture.hpp"

namespace tmesh::server {
namespace {

using test::Ran;

struct Explain : test::Commands {
  Ran explain(const std::string& target, std::vector<AdminOption> options, bool is_json = true) {
    test::Capture out;
    test::Capture err;
    AdminRequest request{
        "explain", "explain",    {target},   std::move(options), is_json, test::sqlite_settings(path),
        true,      time.clock(), out.file(), err.file()};
    const int code = run_explain(request);
    return {code, out.text(), err.text()};
  }
  Ran by_token(const std::string& target) {
    return explain(target, {{"agent", "home"}, {"token-id", client.token.id}});
  }
  // "allowed" or "denied", and the reason.
  std::string first(const Ran& ran) {
    const Result<json::Document> document = json::parse(ran.out);
    EXPECT_TRUE(document) << ran.out << ran.err;
    if (!document) return "";
    const json::Value answer = *document->root().get("answers").begin();
    return std::string(answer.get("allowed").as_bool().value_or(false) ? "allowed: " : "denied: ") +
           std::string(answer.get("reason").as_string().value_or(""));
  }
};

TEST_F(Explain, AnAllowNamesThePolicy) {
  const Ran ran = by_token("www.example.com:443");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(first(ran), "allowed: allowed by " + policy.id);
}

TEST_F(Explain, ADenialNamesTheRuleThatDenies) {
  EXPECT_EQ(first(by_token("www.example.com:80")), "denied: no policy of the agent allows it");
  EXPECT_EQ(by_token("www.example.com:80").exit_code, 1);

  set("agents", home.id, "enabled", int64_t{0});
  EXPECT_EQ(first(by_token("www.example.com:443")), "denied: the agent is disabled");
  set("agents", home.id, "enabled", int64_t{1});

  set("users", alice.id, "disabled", int64_t{1});
  EXPECT_EQ(by_token("www.example.com:443").exit_code, 1);
  EXPECT_NE(first(by_token("www.example.com:443")).find("owner"), std::string::npos);
  set("users", alice.id, "disabled", int64_t{0});

  set("service_tokens", client.token.id, "scope", std::string(R"({"targetPorts":[80]})"));
  EXPECT_EQ(first(by_token("www.example.com:443")), "denied: the token's scope does not allow it");
  set("service_tokens", client.token.id, "scope", std::string("{}"));

  set("service_tokens", client.token.id, "revoked_at", std::string("2026-01-01T00:00:00Z"));
  EXPECT_NE(first(by_token("www.example.com:443")).find("revoked"), std::string::npos);
}

TEST_F(Explain, AMalformedPolicyDeniesEverythingAndIsNamed) {
  const storage::PolicyRecord bad = add_policy("10.0.0.1:22");
  for (const char* text : {"[\"x\"]", "no json", "10.0.0.0/8,x"}) {
    set("agent_policies", bad.id, "allowed_cidrs", std::string(text));
    const Ran ran = by_token("www.example.com:443");
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.out.find("malformed: "), std::string::npos) << ran.out;
    EXPECT_TRUE(json::parse(ran.out)) << ran.out;
  }
}

TEST_F(Explain, AScopeThatCannotBeReadIsShownAsText) {
  set("service_tokens", client.token.id, "scope", std::string("{broken"));
  const Ran ran = by_token("www.example.com:443");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(json::parse(ran.out)) << ran.out;
}

TEST_F(Explain, AUserMeansEveryClientTokenOfTheirs) {
  const CreatedToken second =
      *change([this](TokenService s) { return s.create({TokenType::client, alice.id, {}, {}, {}}); });
  set("service_tokens", second.token.id, "scope", std::string(R"({"targetPorts":[80]})"));
  const Ran ran = explain("www.example.com:443", {{"agent", home.id}, {"user", "alice"}});
  EXPECT_EQ(ran.exit_code, 0) << "one of them may";
  const Result<json::Document> document = json::parse(ran.out);
  ASSERT_TRUE(document) << ran.out;
  EXPECT_EQ(document->root().get("answers").size(), 2u) << "and not the agent's";
  EXPECT_EQ(document->root().get("policies").size(), 1u);
  EXPECT_EQ(ran.out.find(second.secret.reveal()), std::string::npos);
  expect_failure(explain("a.example.com:443", {{"agent", home.id}, {"user", "bob"}}),
                 "explain: the user has no client token\n");
}

TEST_F(Explain, TextHasOneBlockPerTokenAndTheVerdictOfEachPolicy) {
  const Ran ran = explain("www.example.com:443", {{"agent", "home"}, {"token-id", client.token.id}}, false);
  EXPECT_EQ(
      test::golden(ran.out),
      "target       www.example.com:443\n"
      "protocol     tcp\n"
      "agentId      <agent>\n"
      "agentName    home\n"
      "tokenId      <token>\n"
      "ownerUserId  <user>\n"
      "scope        {}\n"
      "allowed      yes\n"
      "reason       allowed by <policy>\n"
      "\n"
      "policies of the agent\n"
      "policyId                 protocol  targetHost     targetPort  allowedCIDRs  allowedPorts  verdict\n"
      "<policy>  tcp       *.example.com  443         []            []            allows\n"
      "\n"
      "Not judged here: the agent's own policy, and where a name leads.\n");
}

TEST_F(Explain, WhatIsWrittenWronglyIsUsage) {
  expect_usage(explain("www.example.com", {{"agent", "home"}, {"user", "alice"}}),
               "explain: www.example.com: HOST:PORT is needed\n");
  expect_usage(explain("a.b:1", {{"agent", "home"}}), "explain: one of --token-id and --user is needed\n");
  expect_usage(explain("a.b:1", {{"agent", "home"}, {"user", "alice"}, {"token-id", "x"}}),
               "explain: one of --token-id and --user is needed\n");
  expect_failure(explain("a.b:1", {{"agent", "none"}, {"user", "alice"}}),
                 "explain: there is no such agent\n");
  expect_failure(explain("a.b:1", {{"agent", "home"}, {"token-id", "none"}}),
                 "explain: there is no such token\n");
}

TEST_F(Explain, TheScopeOfServersIsJudgedWhenAServerIsNamed) {
  set("service_tokens", client.token.id, "scope", std::string(R"({"serverNodeIds":["node-a"]})"));
  const Ran other =
      explain("www.example.com:443", {{"agent", "home"}, {"token-id", client.token.id}, {"node", "node-b"}});
  EXPECT_EQ(other.exit_code, 1);
}

TEST_F(Explain, NothingIsWritten) {
  const size_t before = audit_rows();
  EXPECT_EQ(by_token("www.example.com:443").exit_code, 0);
  EXPECT_EQ(audit_rows(), before);
}

}  // namespace
}  // namespace tmesh::server
