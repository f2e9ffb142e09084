#include <algorithm>

#include "cpp/storage/lease_repository.hpp"
#include "tests/cpp/server/admin_api/access_api_fixture.hpp"

namespace tmesh::server {
namespace {

struct AgentsApi : test::AccessApi {
  void add_lease(const storage::AgentRecord& of, const char* expires_at) {
    change([&](const ChangeScope& scope) {
      storage::LeaseRecord lease;
      lease.agent_id = of.id;
      lease.connection_id = "conn-1";
      lease.node_id = "machine";
      lease.instance_id = "instance";
      lease.server_node_id = "node-1";
      lease.acquired_at = scope.now();
      lease.expires_at = expires_at;
      lease.updated_at = scope.now();
      return storage::LeaseRepository::acquire(scope.tx(), lease, scope.now());
    });
  }
  storage::AgentRecord row(const std::string& id) { return *(*storage::AgentRepository(*db).find(id)); }
};

TEST_F(AgentsApi, HaveExactlyTheseMembers) {
  set("agents", home.id, "id", "agent-home");
  set("agents", "agent-home", "owner_user_id", "user-alice");
  set("agents", "agent-home", "capabilities", "[\"tcp\"]");
  EXPECT_EQ(ask("GET /agents/agent-home"),
            R"({"id":"agent-home","name":"home","ownerUserId":"user-alice","capabilities":["tcp"],)"
            R"("enabled":true,"status":"offline","createdAt":"2027-01-15T08:00:00Z",)"
            R"("updatedAt":"2027-01-15T08:00:00Z"})");
}

TEST_F(AgentsApi, AreOnlineByLeasesAndEnabledByThemselves) {
  EXPECT_EQ(member(ask("GET " + agent(home)), "status"), "offline") << "never connected (LESSONS R15)";
  add_lease(home, "2027-01-15T08:01:00Z");
  set("agents", home.id, "enabled", 0);
  EXPECT_EQ(member(ask("GET " + agent(home)), "status"), "online");
  EXPECT_EQ(member(last.data, "enabled"), "false");
  const std::string list = ask("GET /agents");
  EXPECT_NE(list.find("\"enabled\":false,\"status\":\"online\""), std::string::npos) << list;
  EXPECT_NE(list.find("\"enabled\":true,\"status\":\"offline\""), std::string::npos) << list;
  time.now_us += 60'000'000;
  EXPECT_EQ(member(ask("GET " + agent(home)), "status"), "offline") << "the lease has expired";
}

TEST_F(AgentsApi, CapabilitiesAreAnArrayWhateverIsStored) {
  for (const char* stored : {"null", "", "{}", "oops"}) {
    set("agents", home.id, "capabilities", stored);
    EXPECT_NE(ask("GET " + agent(home)).find("\"capabilities\":[],"), std::string::npos) << stored;
  }
}

TEST_F(AgentsApi, ListsGoOnFromPageToPage) {
  for (const char* name : {"a", "b", "c"}) change([&](AgentService s) { return s.create(name, alice); });
  std::vector<std::string> seen;
  std::string next = "GET /agents?limit=2";
  for (int pages = 0; pages < 5; ++pages) {
    const std::string list = ask(next);
    for (const std::string& id : ids(list)) seen.push_back(id);
    if (member(list, "hasMore") == "false") break;
    next = "GET /agents?limit=2&cursor=" + member(list, "nextCursor");
  }
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  expect_refused("GET /agents?limit=501", "", "400: limit: a number from 1 to 500 is expected");
  expect_refused("GET /agents?cursor=AA", "", "400: cursor: not one that this list gave");
}

TEST_F(AgentsApi, AUserHasHisOwnOnly) {
  who = bob;
  EXPECT_EQ(ids(ask("GET /agents")), std::vector<std::string>{bobs.id});
  EXPECT_EQ(member(ask("GET " + agent(bobs)), "id"), bobs.id);
  const char* nobody = "404: there is no such agent";
  expect_refused("GET " + agent(home), "", nobody);
  expect_refused("GET /agents/agent-none", "", nobody);
  for (const char* change_of : {"POST /agents", "PUT ", "PATCH ", "DELETE "}) {
    std::string request = change_of;
    if (!request.ends_with("agents")) request += agent(bobs);
    expect_refused(request, "", "403: for administrators only");
  }
}

TEST_F(AgentsApi, AreCreated) {
  const std::string made =
      ask("POST /agents", R"({"name":"lab","capabilities":["tcp","udp"],"enabled":false})");
  EXPECT_EQ(last.status, 201);
  const storage::AgentRecord stored = row(member(made, "id"));
  EXPECT_EQ(stored.name, "lab");
  EXPECT_EQ(stored.owner_user_id, alice.id);
  EXPECT_EQ(stored.capabilities, R"(["tcp","udp"])");
  EXPECT_FALSE(stored.is_enabled);
  const storage::AgentRecord of_bob =
      row(member(ask("POST /agents", R"({"name":"x","ownerUserId":)" + quoted(bob.id) + "}"), "id"));
  EXPECT_EQ(of_bob.owner_user_id, bob.id);
  EXPECT_TRUE(of_bob.is_enabled);
}

TEST_F(AgentsApi, EveryMemberIsChecked) {
  const std::string name = "400: an agent name has 1 to 255 printable bytes, and no space at an end";
  const std::string capabilities = "400: capabilities are at most 64 texts of 1 to 64 printable bytes each";
  struct Case {
    const char* body;
    std::string answer;
  };
  const Case cases[] = {
      {R"({"name":""})", name},
      {R"({"name":" a"})", name},
      {R"({"name":"a\u0007"})", name},
      {R"({"name":"a\u009b"})", name},
      {R"({"name":7})", "400: name: a text is expected"},
      {R"({"name":null})", "400: name: a text is expected"},
      {R"({"name":"a","capabilities":"tcp"})", "400: capabilities: a list of texts is expected"},
      {R"({"name":"a","capabilities":[1]})", "400: capabilities: a list of texts is expected"},
      {R"({"name":"a","capabilities":[""]})", capabilities},
      {R"({"name":"a","enabled":1})", "400: enabled: true or false is expected"},
      {R"({"name":"a","enabled":"true"})", "400: enabled: true or false is expected"},
      {R"({"name":"a","ownerUserId":5})", "400: ownerUserId: a text is expected"},
      {R"({"name":"a","ownerUserId":"user-none"})", "400: the owner is not there, disabled or deleted"},
  };
  for (const Case& c : cases) {
    expect_refused("POST /agents", c.body, c.answer);
    expect_refused("PATCH " + agent(home), c.body, c.answer);
  }
  expect_refused("POST /agents", "{}", "400: name: is required");
  EXPECT_EQ(call("POST /agents", R"({"name":"a","owner":"x"})").error().status, 400) << "an unknown member";
}

TEST_F(AgentsApi, PatchChangesWhatItNames) {
  const uint64_t before = revision();
  EXPECT_EQ(member(ask("PATCH " + agent(home), R"({"name":"house"})"), "name"), "house");
  EXPECT_EQ(revision(), before) << "a name decides nothing";
  EXPECT_EQ(member(ask("PATCH " + agent(home), R"({"enabled":false})"), "enabled"), "false");
  EXPECT_EQ(revision(), before + 1);
  EXPECT_EQ(row(home.id).name, "house");
  EXPECT_EQ(member(ask("PATCH " + agent(home), R"({"ownerUserId":)" + quoted(bob.id) + "}"), "ownerUserId"),
            bob.id);
  EXPECT_EQ(revision(), before + 2);
  const std::string entries = audited();
  ask("PATCH " + agent(home), "{}");
  EXPECT_EQ(audited(), entries);
}

TEST_F(AgentsApi, PutNeedsTheWholeAgent) {
  expect_refused("PUT " + agent(home), R"({"capabilities":[],"enabled":true})", "400: name: is required");
  expect_refused("PUT " + agent(home), R"({"name":"a","enabled":true})", "400: capabilities: is required");
  expect_refused("PUT " + agent(home), R"({"name":"a","capabilities":[]})", "400: enabled: is required");
  ask("PUT " + agent(home), R"({"name":"a","capabilities":["x"],"enabled":false})");
  const storage::AgentRecord stored = row(home.id);
  EXPECT_EQ(stored.name + stored.capabilities, R"(a["x"])");
  EXPECT_FALSE(stored.is_enabled);
  EXPECT_EQ(stored.owner_user_id, alice.id);
}

TEST_F(AgentsApi, AreDeletedOnce) {
  EXPECT_EQ(member(ask("DELETE " + agent(home)), "id"), home.id);
  for (const char* verb : {"GET ", "PUT ", "PATCH ", "DELETE "}) {
    const char* body = verb[1] == 'U'   ? R"({"name":"a","capabilities":[],"enabled":true})"
                       : verb[0] == 'P' ? "{}"
                                        : "";
    expect_refused(verb + agent(home), body, "404: there is no such agent");
  }
}

TEST_F(AgentsApi, IdsInPathsAreDataOnly) {
  for (const char* id : {"'%20OR%201=1", "%25", "_", "agent-%25", "\"", "agent-none;--"})
    expect_refused("GET /agents/" + std::string(id), "", "404: there is no such agent");
}

TEST_F(AgentsApi, NamesAreDataOnly) {
  for (const std::string& name : test::injections()) {
    const std::string made = ask("POST /agents", R"({"name":)" + quoted(name) + "}");
    EXPECT_EQ(member(made, "name"), name);
  }
  EXPECT_EQ(test::scalar(*db, "SELECT COUNT(*) FROM users"), "2");
}

TEST_F(AgentsApi, ADatabaseFailureSaysNothingOfIt) {
  test::run_sql(*db, "DROP TABLE agent_connection_leases");
  EXPECT_EQ(ask("GET /agents"), "500: the server could not do this; its log says why");
}

}  // namespace
}  // namespace tmesh::server
