// The doors and presence together: real links, a real database, nothing faked.
#include <gtest/gtest.h>

#include "cpp/server/presence_writer.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/metadata_repository.hpp"
#include "tests/cpp/server/ws_handler_fixture.hpp"

namespace tmesh::server {
namespace {

using test::kSwitched;
using test::Peer;

struct WsPresenceTest : test::WsHandlerFixture {
  ~WsPresenceTest() override {
    if (handler) handler->set_presence(nullptr);
    presence.reset();
  }
  void start_with_presence() {
    start();
    auto node = announce_node(*rows.db, "server-a", "h:1", storage::system_clock()());
    ASSERT_TRUE(node);
    writer.emplace(*database);
    presence.emplace(loop(), *writer, *node, Delegate<void(NodeStanding)>::free<&ignore_standing>(nullptr));
    handler->set_presence(&*presence);
    presence->start();
  }
  static void ignore_standing(void*, NodeStanding) {}
  Peer& agent(const std::string& connection) {
    Peer& peer = link(request(agent_text()), false);
    peer.control(TMESH_FRAME_AGENT_HELLO, hello(connection));
    EXPECT_TRUE(run_until([&] { return !peer.controls.empty(); }));
    return peer;
  }
  std::vector<storage::LeaseRecord> leases() {
    return *storage::LeaseRepository(*rows.db).of_agent(rows.home.id);
  }
  std::vector<storage::MetadataRecord> reports() {
    return *storage::MetadataRepository(*rows.db).of_agent(rows.home.id);
  }
  std::string update(int revision) {
    return R"({"agent_id":")" + rows.home.id +
           R"(","connection_id":"c1","node_id":"n","epoch":1,"revision":)" + std::to_string(revision) +
           R"(,"reported_at":"2026-01-02T03:04:06Z","items":[{"name":"a","source":"env","value":"b"}]})";
  }

  std::optional<DatabasePresence> writer;
  std::optional<AgentPresence> presence;
};

TEST_F(WsPresenceTest, AHelloAnUpdateAndAnEndReachTheDatabase) {
  start_with_presence();
  Peer& peer = agent("c1");
  ASSERT_TRUE(run_until([&] { return leases().size() == 1 && reports().size() == 1; }));
  EXPECT_EQ(leases().front().connection_id, "c1");
  EXPECT_EQ(reports().front().instance_id, "n");
  peer.control(TMESH_FRAME_AGENT_METADATA_UPDATE, update(7));
  ASSERT_TRUE(run_until([&] { return reports().front().revision == 7; }));
  EXPECT_NE(reports().front().metadata.find(R"("value":"b")"), std::string::npos);
  // A refused one is nothing to write.
  peer.control(TMESH_FRAME_AGENT_METADATA_UPDATE, update(6));
  ASSERT_TRUE(run_until([&] { return peer.controls.size() == 3; }));
  peers.clear();
  ASSERT_TRUE(run_until([&] { return leases().empty() && reports().front().is_stale; }));
  EXPECT_EQ(reports().front().revision, 7);
}

TEST_F(WsPresenceTest, LinksAreShownAndClosedByTheirEpoch) {
  start_with_presence();
  Peer& one = agent("c1");
  Peer& two = agent("c2");
  ApiLive& live = *handler;
  std::vector<LiveAgentLink> links = live.agent_links(rows.home.id);
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].connection_id, "c1");
  EXPECT_EQ(links[0].instance_id, "n");
  EXPECT_EQ(links[0].epoch, 1);
  EXPECT_EQ(links[0].health_score, 100);
  const int64_t now_us = loop().wall_us();
  EXPECT_LE(links[0].last_heard_at_us, now_us);
  EXPECT_GT(links[0].last_heard_at_us, now_us - 60'000'000);
  EXPECT_TRUE(live.agent_links("another").empty());
  EXPECT_FALSE(live.close_agent_link(rows.home.id, "c1", 2));
  EXPECT_FALSE(live.close_agent_link(rows.home.id, "c3", 1));
  EXPECT_FALSE(live.close_agent_link("another", "c1", 1));
  EXPECT_TRUE(live.close_agent_link(rows.home.id, "c1", 1));
  const auto is_second_alone = [&] {
    const std::vector<storage::LeaseRecord> rest = leases();
    return one.down && rest.size() == 1 && rest.front().connection_id == "c2";
  };
  EXPECT_TRUE(run_until(is_second_alone));
  EXPECT_FALSE(two.down);
  EXPECT_EQ(live.agent_links(rows.home.id).size(), 1U);
}

TEST_F(WsPresenceTest, ADisabledServerTakesNoLinksUntilItServesAgain) {
  start_with_presence();
  agent("c1");
  handler->set_serving(false);
  net::RawClient refused = request(agent_text());
  EXPECT_EQ(status_of(refused), "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(handler->links_count(), 1U) << "asked to leave, not thrown out at once";
  handler->set_serving(true);
  net::RawClient welcome = request(agent_text());
  EXPECT_EQ(status_of(welcome), kSwitched);
}

TEST_F(WsPresenceTest, ADatabaseThatHangsTouchesNoLink) {
  start_with_presence();
  Peer& peer = link(request(agent_text()), false);
  stop_database();
  peer.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  ASSERT_TRUE(run_until([&] { return !peer.controls.empty(); }));
  const std::size_t pongs = peer.pongs.size();
  peer.control(TMESH_FRAME_PING, "alive");
  EXPECT_TRUE(run_until([&] { return peer.pongs.size() > pongs; }));
  EXPECT_EQ(handler->links_count(), 1U);
  release_database();
  EXPECT_TRUE(run_until([&] { return leases().size() == 1; }));
}

}  // namespace
}  // namespace tmesh::server
