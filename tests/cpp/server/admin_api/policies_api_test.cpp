#include "tests/cpp/server/admin_api/access_api_fixture.hpp"

namespace tmesh::server {
namespace {

struct PoliciesApi : test::AccessApi {
  std::string all(const storage::AgentRecord& of) const { return agent(of, "/policies"); }
  std::string one(const storage::AgentRecord& of, const storage::PolicyRecord& row) const {
    return agent(of, "/policies/" + row.id);
  }
  storage::PolicyRecord row(const std::string& id) { return *(*storage::PolicyRepository(*db).find(id)); }
};

constexpr const char* no_agent = "404: there is no such agent";
constexpr const char* no_policy = "404: there is no such policy";

TEST_F(PoliciesApi, HaveExactlyTheseMembers) {
  set("agent_policies", policy.id, "id", "policy-1");
  set("agent_policies", "policy-1", "agent_id", "agent-1");
  set("agents", home.id, "id", "agent-1");
  EXPECT_EQ(ask("GET /agents/agent-1/policies/policy-1"),
            R"({"id":"policy-1","agentId":"agent-1","targetHost":"*.example.com","targetPort":443,)"
            R"("protocol":"tcp","allowedCIDRs":[],"allowedPorts":[],"createdAt":"2027-01-15T08:00:00Z",)"
            R"("updatedAt":"2027-01-15T08:00:00Z"})");
}

TEST_F(PoliciesApi, AreCreatedInCanonicalForm) {
  const std::string made =
      ask("POST " + all(home),
          R"({"targetHost":"Db.Example.com.","targetPort":0,"protocol":"websocket",)"
          R"("allowedCIDRs":["10.1.2.3/8","fd00::/8"],"allowedPorts":[443,80,"8000-8100",8101]})");
  EXPECT_EQ(last.status, 201);
  EXPECT_EQ(member(made, "targetHost"), "db.example.com");
  EXPECT_EQ(member(made, "protocol"), "ws");
  EXPECT_NE(made.find(R"("allowedCIDRs":["10.0.0.0/8","fd00::/8"],"allowedPorts":[80,443,"8000-8101"])"),
            std::string::npos)
      << made;
  EXPECT_EQ(row(member(made, "id")).agent_id, home.id);
}

// What the API answers can be sent back to it.
TEST_F(PoliciesApi, WhatIsReadCanBeWritten) {
  const std::string made = ask("POST " + all(home), R"({"targetHost":"*","targetPort":0,"protocol":"tcp",)"
                                                    R"("allowedPorts":["1-9",80]})");
  const auto document = json::parse(made);
  std::string body = R"({"targetHost":"*","targetPort":0,"protocol":"tcp","allowedCIDRs":[],"allowedPorts":)";
  body += R"(["1-9",80]})";
  const uint64_t before = revision();
  EXPECT_EQ(ask("PUT " + agent(home, "/policies/" + member(made, "id")), body), made);
  EXPECT_EQ(revision(), before) << "nothing changed";
}

TEST_F(PoliciesApi, EveryMemberIsChecked) {
  const std::string host = "400: targetHost is not *, *.example.com, a host name, an address or a CIDR";
  const std::string ports =
      "400: allowedPorts: a list of ports from 1 to 65535 and ranges like \"8000-8100\" is expected";
  struct Case {
    const char* member;
    std::string answer;
  };
  const Case cases[] = {
      {R"("targetHost":"")", host},
      {R"("targetHost":"a b")", host},
      {R"("targetHost":"127.1")", host},
      {R"("targetHost":"a\u0000")", "400: JSON: \\u0000 in a string"},
      {R"("targetHost":"*.*")", host},
      {R"("targetHost":5)", "400: targetHost: a text is expected"},
      {R"("targetPort":65536)", "400: targetPort is not a port from 1 to 65535, or 0 for any"},
      {R"("targetPort":-1)", "400: targetPort is not a port from 1 to 65535, or 0 for any"},
      {R"("targetPort":"80")", "400: targetPort: a whole number is expected"},
      {R"("targetPort":1.5)", "400: targetPort: a whole number is expected"},
      {R"("protocol":"icmp")", "400: a protocol is tcp, udp, http or ws"},
      {R"("protocol":null)", "400: protocol: a text is expected"},
      {R"("allowedCIDRs":"10.0.0.0/8")", "400: allowedCIDRs: a list of texts is expected"},
      {R"("allowedCIDRs":["any"])", "400: allowedCIDRs has an item that is no CIDR"},
      {R"("allowedPorts":"80")", ports},
      {R"("allowedPorts":[0])", ports},
      {R"("allowedPorts":[65536])", ports},
      {R"("allowedPorts":["9-8"])", ports},
      {R"("allowedPorts":["1,2"])", ports},
      {R"("allowedPorts":[true])", ports},
      {R"("allowedPorts":[80.5])", ports},
  };
  for (const Case& c : cases) {
    const std::string name(std::string_view(c.member).substr(0, std::string_view(c.member).find(':')));
    std::string whole = "{" + std::string(c.member);
    for (const char* other : {R"("targetHost":"a.test")", R"("targetPort":1)", R"("protocol":"tcp")"}) {
      if (!std::string_view(other).starts_with(name)) whole += "," + std::string(other);
    }
    whole += "}";
    if (std::string_view(c.member).find("u0000") != std::string_view::npos) {
      EXPECT_TRUE(ask("POST " + all(home), whole).starts_with("400: ")) << last.data;
      continue;
    }
    expect_refused("POST " + all(home), whole, c.answer);
    expect_refused("PUT " + one(home, policy), whole, c.answer);
    expect_refused("PATCH " + one(home, policy), "{" + std::string(c.member) + "}", c.answer);
  }
}

TEST_F(PoliciesApi, AWholePolicyNamesItsTarget) {
  for (const std::string& request : {"POST " + all(home), "PUT " + one(home, policy)}) {
    expect_refused(request, R"({"targetPort":1,"protocol":"tcp"})", "400: targetHost: is required");
    expect_refused(request, R"({"targetHost":"a.test","protocol":"tcp"})",
                   "400: targetPort: is required; 0 is any port");
    expect_refused(request, R"({"targetHost":"a.test","targetPort":1})", "400: protocol: is required");
  }
}

TEST_F(PoliciesApi, ListsAreBounded) {
  std::string ports = R"({"targetHost":"*","targetPort":0,"protocol":"tcp","allowedPorts":[1)";
  for (int i = 0; i < 100'000; ++i) ports += ",1";
  expect_refused("POST " + all(home), ports + "]}", "400: allowedPorts has more than 1024 items");
  std::string cidrs = R"({"targetHost":"*","targetPort":0,"protocol":"tcp","allowedCIDRs":["10.0.0.0/8")";
  for (int i = 0; i < 50'000; ++i) cidrs += R"(,"10.0.0.0/8")";
  expect_refused("POST " + all(home), cidrs + "]}", "400: allowedCIDRs has more than 128 items");
}

TEST_F(PoliciesApi, PutReplacesAndPatchKeeps) {
  ask("PATCH " + one(home, policy), R"({"allowedPorts":[443],"targetPort":0})");
  EXPECT_EQ(row(policy.id).target_host, "*.example.com");
  EXPECT_EQ(row(policy.id).allowed_ports, "[443]");
  ask("PATCH " + one(home, policy), R"({"allowedCIDRs":["10.0.0.0/8"]})");
  EXPECT_EQ(row(policy.id).allowed_ports, "[443]");
  ask("PUT " + one(home, policy), R"({"targetHost":"a.test","targetPort":1,"protocol":"udp"})");
  const storage::PolicyRecord stored = row(policy.id);
  EXPECT_EQ(stored.target_host + stored.allowed_ports + stored.allowed_cidrs + stored.protocol,
            "a.test[][]udp");
}

TEST_F(PoliciesApi, AListThatCannotBeReadIsShownAsItIs) {
  set("agent_policies", policy.id, "allowed_ports", "80;443");
  EXPECT_NE(ask("GET " + one(home, policy)).find(R"("allowedPorts":["80;443"])"), std::string::npos);
  expect_refused("PATCH " + one(home, policy), R"({"targetHost":"a.test"})",
                 "400: a list of a policy is malformed");
  EXPECT_EQ(member(ask("PATCH " + one(home, policy), R"({"allowedPorts":[80]})"), "targetHost"),
            "*.example.com");
}

TEST_F(PoliciesApi, AreFoundUnderTheirAgentOnly) {
  for (const char* verb : {"GET ", "PUT ", "PATCH ", "DELETE "}) {
    const char* body = verb[1] == 'U'   ? R"({"targetHost":"a.test","targetPort":1,"protocol":"tcp"})"
                       : verb[0] == 'P' ? "{}"
                                        : "";
    expect_refused(verb + one(home, bobs_policy), body, no_policy);
    expect_refused(verb + agent(home, "/policies/policy-none"), body, no_policy);
    expect_refused(verb + std::string("/agents/agent-none/policies/") + policy.id, body, no_agent);
  }
}

TEST_F(PoliciesApi, AnOwnerReadsHisAndChangesNone) {
  who = bob;
  EXPECT_EQ(ids(ask("GET " + all(bobs))), std::vector<std::string>{bobs_policy.id});
  EXPECT_EQ(member(ask("GET " + one(bobs, bobs_policy)), "targetHost"), "10.0.0.0/8");
  expect_refused("GET " + all(home), "", no_agent);
  expect_refused("GET " + one(home, policy), "", no_agent);
  expect_refused("GET " + one(bobs, policy), "", no_policy);
  for (const std::string& request : {"POST " + all(bobs), "PUT " + one(bobs, bobs_policy),
                                     "PATCH " + one(bobs, bobs_policy), "DELETE " + one(bobs, bobs_policy)}) {
    expect_refused(request, "", "403: for administrators only");
  }
}

TEST_F(PoliciesApi, AreDeletedOnce) {
  EXPECT_EQ(member(ask("DELETE " + one(home, policy)), "id"), policy.id);
  expect_refused("DELETE " + one(home, policy), "", no_policy);
  EXPECT_EQ(ask("GET " + all(home)), R"({"items":[],"nextCursor":"","hasMore":false})");
}

}  // namespace
}  // namespace tmesh::server
