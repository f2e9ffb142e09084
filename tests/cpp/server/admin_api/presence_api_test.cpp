// /agents/{id}/connections and /metadata, /server-nodes, /dashboard/summary.
#include <gtest/gtest.h>

#include <algorithm>

#include "cpp/server/presence_batch.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/metadata_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/timestamp.hpp"
#include "tests/cpp/server/admin_api/endpoint_fixture.hpp"

namespace tmesh::server {
namespace {

struct Live final : ApiLive {
  std::vector<LiveAgentLink> agent_links(std::string_view) override { return {}; }
  bool close_agent_link(std::string_view agent_id, std::string_view connection_id, int64_t epoch) override {
    asked.push_back(std::string(agent_id) + ' ' + std::string(connection_id) + ' ' + std::to_string(epoch));
    return answer;
  }
  std::vector<std::string> asked;
  bool answer = true;
};

struct PresenceApi : test::EndpointFixture {
  PresenceApi() : EndpointFixture(presence_routes()) {}
  void SetUp() override {
    EndpointFixture::SetUp();
    node_id = "server-a";
    for (const char* id : {"server-a", "server-b"}) {
      ASSERT_TRUE(announce_node(*db, id, std::string(id) + ":443", time.now_us));
    }
    agent = "/agents/" + home.id;
  }
  std::string at(int64_t seconds) const {
    return storage::format_timestamp(time.now_us + seconds * 1'000'000);
  }

  void lease(const std::string& connection, int64_t epoch, const std::string& server, int64_t seconds = 30) {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    const storage::LeaseRecord row{home.id, connection, "n", "instance-1", server,      1,
                                   epoch,   3,          100, at(0),        at(seconds), at(0)};
    ASSERT_TRUE(storage::LeaseRepository::acquire(*tx, row, at(0)));
    ASSERT_TRUE(tx->commit());
  }
  void report(const std::string& instance, int64_t revision, int64_t seconds = 90) {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    const storage::MetadataRecord row{
        home.id, instance, "node-1",
        1,       revision, R"({"items":[{"name":"region","source":"env","value":"eu"}]})",
        at(0),   "",       at(seconds),
        false,   ""};
    ASSERT_TRUE(storage::MetadataRepository::upsert(*tx, row, at(0)));
    ASSERT_TRUE(tx->commit());
  }
  void connect(const std::string& connection, int64_t epoch) {
    LiveAgentLink link;
    link.agent_id = home.id;
    link.instance_id = "instance-1";
    link.connection_id = connection;
    link.epoch = epoch;
    link.streams_count = 5;
    link.rtt_us = 1500;
    link.last_heard_at_us = time.now_us - 2'000'000;
    links.push_back(link);
    live = links;
  }
  // The items of an array member, as texts "a/b" of these members.
  std::vector<std::string> list(const std::string& data, const char* name,
                                std::initializer_list<const char*> members) {
    std::vector<std::string> items;
    const auto document = json::parse(data);
    if (!document) return {data};
    EXPECT_TRUE(document->root().get(name).is_array()) << data;
    for (const json::Value item : document->root().get(name)) {
      std::string text;
      for (const char* member : members) {
        const json::Value value = item.get(member);
        if (!text.empty()) text += '/';
        if (const auto found = value.as_string()) text += *found;
        if (const auto number = value.as_int()) text += std::to_string(*number);
        if (const auto flag = value.as_bool()) text += *flag ? "true" : "false";
        if (value.is_null()) text += "null";
        if (!value) text += "-";
      }
      items.push_back(text);
    }
    return items;
  }
  std::string close(const std::string& connection, const std::string& epoch, Live& server) {
    ApiResult result = call("DELETE " + agent + "/connections/" + connection + "?connectionEpoch=" + epoch);
    if (last_route->after != nullptr) {
      const ApiCall done{.db = *db, .path = {home.id, connection}, .query = {{"connectionEpoch", epoch}}};
      last_route->after(server, done, result);
    }
    return result ? result->data : std::to_string(result.error().status);
  }

  std::string agent;
  std::vector<LiveAgentLink> links;
};

using Texts = std::vector<std::string>;

TEST_F(PresenceApi, ConnectionsAreTheLinksHereAndTheLeasesOfOthers) {
  lease("here", 2, "server-a");
  connect("here", 2);
  connect("just-now", 1);  // its lease is still to be written
  lease("left", 4, "server-a");
  lease("there", 7, "server-b");
  lease("expired", 1, "server-b", 0);
  const std::string data = ask("GET " + agent + "/connections");
  EXPECT_EQ(list(data, "connections",
                 {"connectionId", "connectionEpoch", "serverNodeId", "serverNodeAddress", "local", "healthy",
                  "activeStreams", "healthScore"}),
            (Texts{"here/2/server-a/server-a:443/true/true/5/100",
                   "just-now/1/server-a/server-a:443/true/true/5/100",
                   "there/7/server-b/server-b:443/false/true/3/100"}));
  EXPECT_EQ(list(data, "connections",
                 {"agentId", "instanceId", "serverNodeEpoch", "lastHeartbeatAt", "leaseExpiresAt"})
                .front(),
            home.id + "/instance-1/1/" + at(-2) + "/" + at(30));
  EXPECT_EQ(list(data, "connections", {"leaseExpiresAt"})[1], "null");
}

TEST_F(PresenceApi, ConnectionsOfAServerThatIsNotThereAreUnhealthy) {
  lease("there", 7, "server-b");
  lease("lost", 7, "server-c");
  test::run_sql(*db, "UPDATE server_nodes SET expires_at = '2026-01-01T00:00:00Z' WHERE id = 'server-b'");
  EXPECT_EQ(list(ask("GET " + agent + "/connections"), "connections", {"connectionId", "healthy"}),
            (Texts{"lost/false", "there/false"}));
  links.clear();
  connect("silent", 1);
  for (const auto& [score, shown] :
       {std::pair(0, "silent/false/0"), {49, "silent/false/49"}, {50, "silent/true/50"}}) {
    links.front().health_score = score;
    live = links;
    const std::string data = ask("GET " + agent + "/connections");
    EXPECT_EQ(list(data, "connections", {"connectionId", "healthy", "healthScore"})[1], shown);
  }
}

TEST_F(PresenceApi, AnotherUsersAgentIsNotThere) {
  who = bob;
  for (const std::string& request :
       {"GET " + agent + "/connections", "GET " + agent + "/metadata",
        "DELETE " + agent + "/connections/c?connectionEpoch=1", std::string("GET /agents/nobody/metadata")}) {
    EXPECT_EQ(ask(request), "404: there is no such agent") << request;
  }
  set("agents", home.id, "owner_user_id", bob.id);
  EXPECT_EQ(ask("GET " + agent + "/connections"), R"({"connections":[]})");
  who.reset();
  EXPECT_EQ(ask("GET " + agent + "/connections"), R"({"connections":[]})") << "an administrator sees all";
}

TEST_F(PresenceApi, ClosingEndsTheLinkOfThatEpochOnly) {
  lease("c", 3, "server-a");
  connect("c", 3);
  Live server;
  EXPECT_EQ(close("c", "2", server), "409");
  EXPECT_EQ(close("c", "4", server), "409");
  EXPECT_TRUE(server.asked.empty());
  EXPECT_EQ(close("c", "3", server),
            R"({"agentId":")" + home.id + R"(","connectionId":"c","connectionEpoch":3,"closed":true})");
  EXPECT_EQ(server.asked, Texts{home.id + " c 3"});
  EXPECT_EQ(test::scalar(*db, "SELECT details FROM audit_logs WHERE action = 'agent.connection.close'"),
            R"({"connectionId":"c","connectionEpoch":3})");
  EXPECT_EQ(storage::LeaseRepository(*db).of_agent(home.id)->size(), 1U) << "it goes with the link";
}

TEST_F(PresenceApi, ClosingWhatIsNotThereIsASuccess) {
  Live server;
  server.answer = false;
  const std::string absent =
      R"({"agentId":")" + home.id + R"(","connectionId":"c","connectionEpoch":3,"closed":false})";
  EXPECT_EQ(close("c", "3", server), absent);
  lease("c", 3, "server-a");  // what this server's registry does not know is gone
  EXPECT_EQ(close("c", "3", server), absent);
  lease("c", 4, "server-b", 0);
  EXPECT_EQ(close("c", "3", server), absent) << "expired";
}

TEST_F(PresenceApi, ClosingOnAServerThatCannotBeReachedKeepsTheLease) {
  lease("c", 3, "server-b");
  Live server;
  EXPECT_EQ(close("c", "2", server), "409");
  EXPECT_EQ(close("c", "3", server), "503");
  EXPECT_TRUE(server.asked.empty());
  EXPECT_EQ(storage::LeaseRepository(*db).of_agent(home.id)->size(), 1U);
}

TEST_F(PresenceApi, TheEpochToCloseIsRequired) {
  for (const char* query : {"", "?connectionEpoch=", "?connectionEpoch=0", "?connectionEpoch=-1",
                            "?connectionEpoch=x", "?connectionEpoch=9223372036854775808"}) {
    const ApiResult result = call("DELETE " + agent + "/connections/c" + query);
    ASSERT_FALSE(result) << query;
    EXPECT_EQ(result.error().status, 400) << query;
  }
  // Wider than a double: epochs have 64 bits (R16).
  Live server;
  connect("c", 9007199254740993);
  EXPECT_EQ(close("c", "9007199254740992", server), "409");
  EXPECT_NE(close("c", "9007199254740993", server).find(R"("connectionEpoch":9007199254740993)"),
            std::string::npos);
}

TEST_F(PresenceApi, AnAgentThatNeverReportedHasEmptyLists_R15) {
  const std::string data = ask("GET " + agent + "/metadata");
  for (const char* name : {"items", "errors", "capabilities", "instances", "connections"}) {
    EXPECT_TRUE(list(data, name, {}).empty()) << data;
  }
  EXPECT_EQ(member(data, "agentId"), home.id);
  EXPECT_EQ(member(data, "stale"), "false");
  EXPECT_EQ(member(data, "reportedAt"), "null");
  EXPECT_EQ(ask("GET /agents/agent-unknown/metadata"), "404: there is no such agent");
}

TEST_F(PresenceApi, MetadataIsTheNewestFreshReport) {
  report("old", 3, 90);
  time.now_us += 1'000'000;
  report("new", 9);
  const std::string data = ask("GET " + agent + "/metadata");
  EXPECT_EQ(member(data, "instanceId"), "new");
  EXPECT_EQ(member(data, "revision"), "9");
  EXPECT_EQ(member(data, "nodeId"), "node-1");
  EXPECT_EQ(list(data, "items", {"name", "source", "value", "redacted"}), Texts{"region/env/eu/false"});
  EXPECT_EQ(list(data, "instances", {"instanceId", "stale"}), (Texts{"new/false", "old/false"}));
}

// Whether a report is fresh and whether somebody is connected are two things.
TEST_F(PresenceApi, AStaleReportIsShownOnDemandOnly_R15_R17) {
  report("one", 1, 10);
  report("two", 2, 90);
  connect("c", 1);
  time.now_us += 20'000'000;  // nobody marked it yet
  EXPECT_EQ(list(ask("GET " + agent + "/metadata"), "instances", {"instanceId"}), Texts{"two"});
  EXPECT_EQ(list(ask("GET " + agent + "/metadata?includeStale=true"), "instances", {"instanceId", "stale"}),
            (Texts{"two/false", "one/true"}));
  time.now_us += 90'000'000;
  EXPECT_TRUE(ask("GET " + agent + "/metadata").starts_with("404: "));
  EXPECT_TRUE(ask("GET " + agent + "/metadata?includeStale=false").starts_with("404: "));
  const std::string data = ask("GET " + agent + "/metadata?includeStale=1");
  EXPECT_EQ(member(data, "stale"), "true");
  EXPECT_EQ(list(data, "connections", {"connectionId"}), Texts{"c"});
  EXPECT_TRUE(ask("GET " + agent + "/metadata?includeStale=perhaps").starts_with("400: "));
}

TEST_F(PresenceApi, ServersAreListedWithTheirState) {
  lease("c1", 1, "server-a");
  lease("c2", 1, "server-a");
  set("server_nodes", "server-b", "enabled", 0);
  const std::string data = ask("GET /server-nodes");
  EXPECT_EQ(list(data, "items",
                 {"id", "name", "address", "epoch", "enabled", "status", "activeConnections", "activeStreams",
                  "healthScore", "deletedAt", "lastSeenAt"}),
            (Texts{"server-a/server-a/server-a:443/1/true/online/2/6/100/null/" + at(0),
                   "server-b/server-b/server-b:443/1/false/disabled/0/0/100/null/" + at(0)}));
  EXPECT_EQ(member(data, "hasMore"), "false");
  const std::string first = ask("GET /server-nodes?limit=1");
  EXPECT_EQ(member(first, "hasMore"), "true");
  EXPECT_EQ(list(ask("GET /server-nodes?limit=1&cursor=" + member(first, "nextCursor")), "items", {"id"}),
            Texts{"server-b"});
  EXPECT_EQ(member(ask("GET /server-nodes/server-a"), "status"), "online");
  time.now_us += kNodeLife_us;
  EXPECT_EQ(member(ask("GET /server-nodes/server-a"), "status"), "offline");
  EXPECT_EQ(ask("GET /server-nodes/server-x"), "404: there is no such server");
  who = bob;
  EXPECT_TRUE(ask("GET /server-nodes").starts_with("403: "));
}

TEST_F(PresenceApi, AServerIsRenamedDisabledDeletedAndRestored) {
  const auto revision = [&] { return test::scalar(*db, "SELECT revision FROM authorization_revision"); };
  const std::string before = revision();
  EXPECT_EQ(member(ask("PATCH /server-nodes/server-b", R"({"name":"Berlin"})"), "name"), "Berlin");
  EXPECT_EQ(revision(), before);
  EXPECT_EQ(member(ask("PATCH /server-nodes/server-b", R"({"enabled":false})"), "status"), "disabled");
  EXPECT_NE(revision(), before);
  EXPECT_EQ(member(ask("PATCH /server-nodes/server-b", R"({"enabled":true,"name":"Paris"})"), "status"),
            "online");
  EXPECT_EQ(member(ask("DELETE /server-nodes/server-b"), "status"), "deleted");
  EXPECT_TRUE(ask("DELETE /server-nodes/server-b").starts_with("409: "));
  EXPECT_TRUE(ask("PATCH /server-nodes/server-b", R"({"enabled":false})").starts_with("409: "));
  EXPECT_EQ(member(ask("POST /server-nodes/server-b/restore"), "status"), "online");
  EXPECT_TRUE(ask("POST /server-nodes/server-b/restore").starts_with("409: "));
  EXPECT_EQ(test::scalar(*db, "SELECT COUNT(*) FROM audit_logs WHERE resource_id = 'server-b'"), "6");
  EXPECT_TRUE(ask("PATCH /server-nodes/server-b", "{}").starts_with("400: "));
  EXPECT_TRUE(ask("PATCH /server-nodes/server-b", R"({"name":" x"})").starts_with("400: "));
  EXPECT_TRUE(ask("PATCH /server-nodes/server-b", R"({"name":7})").starts_with("400: "));
  EXPECT_TRUE(ask("PATCH /server-nodes/server-x", R"({"name":"x"})").starts_with("404: "));
}

TEST_F(PresenceApi, TheSummaryCountsWhatTheCallerMaySee_R17) {
  lease("c1", 1, "server-a");
  lease("c2", 1, "server-b");
  const auto count = [&](const std::string& data, const char* group, const char* name) {
    const auto document = json::parse(data);
    const auto value = document->root().get(group).get(name).as_int();
    return value ? *value : -1;
  };
  std::string data = ask("GET /dashboard/summary");
  EXPECT_EQ(member(data, "scope"), "all");
  EXPECT_EQ(count(data, "agents", "total"), 1);
  EXPECT_EQ(count(data, "agents", "online"), 1);
  EXPECT_EQ(count(data, "connections", "total"), 2);
  EXPECT_EQ(count(data, "connections", "activeStreams"), 6);
  EXPECT_EQ(count(data, "tokens", "live"), 2);
  EXPECT_EQ(count(data, "users", "total"), 2);
  EXPECT_EQ(count(data, "serverNodes", "online"), 2);
  who = bob;
  data = ask("GET /dashboard/summary");
  EXPECT_EQ(member(data, "scope"), "own");
  EXPECT_EQ(count(data, "agents", "total"), 0);
  EXPECT_EQ(count(data, "connections", "total"), 0);
  EXPECT_EQ(count(data, "users", "total"), -1);
  EXPECT_EQ(count(data, "serverNodes", "online"), -1);
}

}  // namespace
}  // namespace tmesh::server
