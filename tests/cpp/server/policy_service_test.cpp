#include "cpp/server/policy_service.hpp"

#include "cpp/server/policy_match.hpp"
#include "tests/cpp/server/access_fixture.hpp"

namespace tmesh::server {
namespace {

struct Policies : test::AccessFixture {
  storage::PolicyRecord row(const std::string& id) { return *(*storage::PolicyRepository(*db).find(id)); }
  static PolicyChange wanted(const std::string& host, int64_t port = 0, const char* protocol = "tcp") {
    PolicyChange change;
    change.target_host = host;
    change.target_port = port;
    change.protocol = protocol;
    return change;
  }
  void expect_invalid(const PolicyChange& change_of_row, const char* text) {
    expect_refused([&](PolicyService s) { return s.create(home.id, change_of_row); }, TMESH_E_INVALID, text);
    expect_refused([&](PolicyService s) { return s.update(policy, change_of_row); }, TMESH_E_INVALID, text);
  }
  storage::PolicyRecord make(const PolicyChange& change_of_row) {
    return row(change([&](PolicyService s) { return s.create(home.id, change_of_row); })->id);
  }
};

constexpr const char* bad_host = "targetHost is not *, *.example.com, a host name, an address or a CIDR";

// What a request says, what is stored, and that it is then decided so.
struct Case {
  const char* host;
  std::vector<std::string> cidrs;
  std::vector<PortRange> ports;
  const char* stored_host;
  const char* stored_cidrs;
  const char* stored_ports;
  const char* allowed;
  uint16_t allowed_port;
  const char* denied;
  uint16_t denied_port;
};

TEST_F(Policies, AreStoredCanonicallyAndDecideAsWritten) {
  const Case cases[] = {
      {"*", {}, {}, "*", "[]", "[]", "any.test", 1, "127.1", 1},
      {" *.Example.COM. ", {}, {}, "*.example.com", "[]", "[]", "a.example.com", 9, "example.com", 9},
      {"DB.Example.com.",
       {},
       {{443, 443}, {80, 80}, {80, 80}},
       "db.example.com",
       "[]",
       "[80,443]",
       "db.example.com",
       80,
       "db.example.com",
       81},
      {"10.1.2.3/8", {}, {}, "10.0.0.0/8", "[]", "[]", "10.9.9.9", 5, "ten.example.com", 5},
      {"::ffff:10.0.0.1", {}, {}, "10.0.0.1", "[]", "[]", "10.0.0.1", 5, "10.0.0.2", 5},
      {"2001:DB8::1", {}, {}, "2001:db8::1", "[]", "[]", "2001:db8:0::1", 5, "2001:db8::2", 5},
      {"*",
       {"10.0.0.1/8", " fd00::/8 ", "10.9.0.0/8"},
       {},
       "*",
       "[\"10.0.0.0/8\",\"fd00::/8\"]",
       "[]",
       "fd12::1",
       7,
       "host.test",
       7},
      {"*",
       {},
       {{8000, 8100}, {22, 22}, {8101, 8200}, {8050, 8060}},
       "*",
       "[]",
       "22,8000-8200",
       "h.test",
       8101,
       "h.test",
       8201},
      {"*", {}, {{1, 65535}}, "*", "[]", "1-65535", "h.test", 65535, "", 1},
  };
  for (const Case& c : cases) {
    PolicyChange change_of_row = wanted(c.host);
    change_of_row.allowed_cidrs = c.cidrs;
    change_of_row.allowed_ports = c.ports;
    const storage::PolicyRecord stored = make(change_of_row);
    EXPECT_EQ(stored.target_host, c.stored_host);
    EXPECT_EQ(stored.allowed_cidrs, c.stored_cidrs);
    EXPECT_EQ(stored.allowed_ports, c.stored_ports);
    const Result<PolicyRule> rule = PolicyRule::read(stored);
    ASSERT_TRUE(rule) << c.host;
    EXPECT_TRUE(rule->allows(*normalize_target("tcp", c.allowed, c.allowed_port))) << c.host;
    const Result<Target> denied = normalize_target("tcp", c.denied, c.denied_port);
    EXPECT_FALSE(denied && rule->allows(*denied)) << c.host << " allows " << c.denied;
  }
}

// "User x may reach y": whose token, on whose agent, to which target.
TEST_F(Policies, DecideForEachUserAgentAndTarget) {
  const storage::AgentRecord lab = *change([this](AgentService s) { return s.create("lab", alice); });
  const storage::AgentRecord bobs = *change([this](AgentService s) { return s.create("bobs", bob); });
  change([&](PolicyService s) { return s.create(lab.id, wanted("db.test", 5432)); });
  change([&](PolicyService s) { return s.create(bobs.id, wanted("10.0.0.0/8", 22)); });
  const CreatedToken scoped = *change([&](TokenService s) {
    Scope scope;
    scope.agent_ids = {lab.id};
    return s.create({TokenType::client, alice.id, {}, scope, {}});
  });
  const CreatedToken of_bob =
      *change([this](TokenService s) { return s.create({TokenType::client, bob.id, {}, {}, {}}); });
  struct Row {
    const CreatedToken& token;
    const storage::AgentRecord& agent;
    const char* host;
    uint16_t port;
    bool is_allowed;
  };
  const Row rows[] = {
      {client, home, "www.example.com", 443, true},  {client, home, "db.test", 5432, false},
      {client, lab, "db.test", 5432, true},          {client, lab, "www.example.com", 443, false},
      {client, bobs, "10.0.0.1", 22, false},         {scoped, lab, "db.test", 5432, true},
      {scoped, home, "www.example.com", 443, false}, {of_bob, bobs, "10.0.0.1", 22, true},
      {of_bob, bobs, "11.0.0.1", 22, false},         {of_bob, bobs, "ten.test", 22, false},
      {of_bob, lab, "db.test", 5432, false},         {agent_token, home, "www.example.com", 443, false},
  };
  for (const Row& row : rows) {
    const Result<Grant> grant = Authorizer(*db, time.clock())
                                    .authorize({row.token.token.id, row.agent.id, "tcp", row.host, row.port});
    EXPECT_EQ(grant.has_value(), row.is_allowed) << row.agent.name << ' ' << row.host << ':' << row.port;
  }
}

TEST_F(Policies, MembersAreRefusedByName) {
  for (const char* host : {"",
                           "  ",
                           "a b",
                           "a*",
                           "*a",
                           "**",
                           "*.",
                           "*.*",
                           "a.*.test",
                           "*.10.0.0.1",
                           "10.0.0.0/33",
                           "a/8",
                           "/",
                           "127.1",
                           "0x7f.1",
                           "[::1]",
                           "[::1]:80",
                           "host:80",
                           "http://a.test",

                           "m\xc3\xbcnchen.example"}) {
    expect_invalid(wanted(host), bad_host);
  }
  expect_invalid(wanted(std::string(256, 'a')), "targetHost is longer than 255 bytes");
  expect_invalid(wanted("a.test", -1), "targetPort is not a port from 1 to 65535, or 0 for any");
  expect_invalid(wanted("a.test", 65536), "targetPort is not a port from 1 to 65535, or 0 for any");
  for (const char* protocol : {"", "icmp", "tcp;", "tcp\n\nudp"})
    expect_invalid(wanted("a.test", 1, protocol), "a protocol is tcp, udp, http or ws");
  PolicyChange lists = wanted("a.test");
  for (const char* cidr : {"", "10.0.0.0/33", "any", "10.0.0/8", "10.0.0.0/8,11.0.0.0/8", "[]"}) {
    lists.allowed_cidrs = {std::string(cidr)};
    expect_invalid(lists, "allowedCIDRs has an item that is no CIDR");
  }
  lists.allowed_cidrs = std::vector<std::string>(129, "10.0.0.0/8");
  expect_invalid(lists, "allowedCIDRs has more than 128 items");
  lists.allowed_cidrs.reset();
  for (const PortRange& range : {PortRange{0, 0}, PortRange{0, 5}, PortRange{9, 8}}) {
    lists.allowed_ports = {range};
    expect_invalid(lists, "allowedPorts has an item that is neither a port nor a range of ports");
  }
  lists.allowed_ports = std::vector<PortRange>(1025, PortRange{1, 1});
  expect_invalid(lists, "allowedPorts has more than 1024 items");
}

TEST_F(Policies, HostAndProtocolAreRequired) {
  PolicyChange none;
  expect_refused([&](PolicyService s) { return s.create(home.id, none); }, TMESH_E_INVALID,
                 "targetHost is missing");
  none.target_host = "a.test";
  expect_refused([&](PolicyService s) { return s.create(home.id, none); }, TMESH_E_INVALID,
                 "protocol is missing");
}

TEST_F(Policies, HostileTextsAreRefusedEverywhere) {
  for (const std::string& text : test::hostile_texts()) {
    if (text == " leading" || text == "trailing ") continue;  // white space around is trimmed
    expect_invalid(wanted(text), bad_host);
    expect_invalid(wanted("a.test", 1, text.c_str()), "a protocol is tcp, udp, http or ws");
    PolicyChange lists = wanted("a.test");
    lists.allowed_cidrs = {text};
    expect_invalid(lists, "allowedCIDRs has an item that is no CIDR");
  }
  for (const std::string& text : test::injections()) {
    if (text != "_") expect_invalid(wanted(text), bad_host);  // that one is a label of a name
  }
}

TEST_F(Policies, TheAgentMustBeThere) {
  expect_refused([&](PolicyService s) { return s.create("agent-none", wanted("a.test")); }, TMESH_E_INVALID,
                 "there is no such agent");
}

TEST_F(Policies, UpdateChangesWhatItNamesOnly) {
  PolicyChange ports;
  ports.allowed_ports = {{80, 80}};
  ports.target_port = 0;
  time.now_us += 1'000'000;
  EXPECT_EQ(steps([&](PolicyService s) { return s.update(policy, ports); }), 1U);
  EXPECT_EQ(last_action(), "policy.update");
  const storage::PolicyRecord stored = row(policy.id);
  EXPECT_EQ(stored.target_host, "*.example.com");
  EXPECT_EQ(stored.allowed_ports, "[80]");
  EXPECT_EQ(stored.agent_id, home.id);
  EXPECT_EQ(stored.created_at, "2027-01-15T08:00:00Z");
  EXPECT_EQ(stored.updated_at, "2027-01-15T08:00:01Z");
  EXPECT_EQ(policy.allowed_ports, "[80]");
  EXPECT_FALSE(ask(client));
  EXPECT_TRUE(ask(client, "www.example.com", 80));
}

TEST_F(Policies, CreateUpdateAndDeleteStepTheRevisionOnceEach) {
  EXPECT_EQ(steps([&](PolicyService s) { return s.create(home.id, wanted("a.test")); }), 1U);
  EXPECT_EQ(steps([&](PolicyService s) { return s.update(policy, wanted("b.test")); }), 1U);
  EXPECT_EQ(steps([&](PolicyService s) { return s.update(policy, wanted("b.test")); }), 0U) << "as it is";
  EXPECT_EQ(steps([&](PolicyService s) { return s.remove(policy); }), 1U);
  expect_refused([&](PolicyService s) { return s.remove(policy); }, TMESH_E_STATE,
                 "the row to change does not exist");
}

TEST_F(Policies, AnUnreadableRowIsRepairedOrRefused) {
  set("agent_policies", policy.id, "allowed_ports", "80;443");
  storage::PolicyRecord broken = row(policy.id);
  PolicyChange other;
  other.target_host = "a.test";
  expect_refused([&](PolicyService s) { return s.update(broken, other); }, TMESH_E_INVALID,
                 "a list of a policy is malformed");
  other.allowed_ports.emplace();
  EXPECT_EQ(steps([&](PolicyService s) { return s.update(broken, other); }), 1U);
  EXPECT_TRUE(ask(client, "a.test"));
}

TEST_F(Policies, AnAgentHasAtMostFourThousand) {
  change([this](const ChangeScope& scope) -> Result<void> {
    storage::PolicyRecord copy = policy;
    for (int i = 1; i < PolicyService::policies_per_agent_max; ++i) {
      copy.id = "policy-" + std::to_string(i);
      if (Result<void> done = storage::PolicyRepository::create(scope.tx(), copy); !done) return done;
    }
    return {};
  });
  expect_refused([&](PolicyService s) { return s.create(home.id, wanted("a.test")); }, TMESH_E_STATE,
                 "the agent has 4000 policies already");
  EXPECT_TRUE(ask(client)) << "what was accepted is decided";
}

// The greatest agent that can be written is still decided, not refused as too large.
TEST_F(Policies, TheLargestListsStayBelowTheAuthorisersBound) {
  PolicyChange large = wanted("*");
  large.allowed_cidrs.emplace();
  for (int i = 0; i < 128; ++i) large.allowed_cidrs->push_back("10." + std::to_string(i) + ".0.0/16");
  large.allowed_ports.emplace();
  for (int i = 0; i < 1024; ++i) {
    const auto port = static_cast<uint16_t>(i * 3 + 1);
    large.allowed_ports->push_back({port, static_cast<uint16_t>(port + 1)});
  }
  const storage::PolicyRecord stored = make(large);
  const Result<PolicyRule> rule = PolicyRule::read(stored);
  ASSERT_TRUE(rule);
  EXPECT_LE(rule->list_bytes() * PolicyService::policies_per_agent_max, Authorizer::policy_lists_bytes_max);
}

}  // namespace
}  // namespace tmesh::server
