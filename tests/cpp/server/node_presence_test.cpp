// This server's own row, its start and its end.
#include <gtest/gtest.h>

#include "tests/cpp/server/presence_fixture.hpp"

namespace tmesh::server {
namespace {

using NodePresenceTest = test::PresenceFixture;

TEST_F(NodePresenceTest, TheServersRowShowsThatItLives) {
  const auto node = [&] { return **storage::NodeRepository(*db).find("server-a"); };
  EXPECT_EQ(node().epoch, 1);
  tick(3);
  EXPECT_EQ(node().last_seen_at, storage::format_timestamp(time.now_us));
  EXPECT_EQ(node().expires_at, storage::format_timestamp(time.now_us + kNodeLife_us));
  test::run_sql(*db, "DELETE FROM server_nodes");
  tick();
  EXPECT_EQ(node().epoch, 1) << "with the epoch in memory";
  EXPECT_TRUE(standings.empty());
}

TEST_F(NodePresenceTest, AStartRemovesWhatAnEarlierLifeLeft) {
  up("c1");
  begin();
  EXPECT_EQ(presence->node().epoch, 2);
  EXPECT_TRUE(leases().empty());
  EXPECT_FALSE(is_online());
}

TEST_F(NodePresenceTest, ADisabledOrDeletedServerIsToldAndDoesNotStart) {
  const auto change_node = [&](auto work) {
    Result<storage::Transaction> tx = storage::Transaction::write(*db);
    ASSERT_TRUE(work(*tx));
    ASSERT_TRUE(tx->commit());
  };
  const std::string now = storage::format_timestamp(time.now_us);
  change_node([&](auto& tx) { return storage::NodeRepository::set_enabled(tx, "server-a", false, now); });
  tick();
  EXPECT_EQ(standings, std::vector{NodeStanding::disabled});
  tick();
  EXPECT_EQ(standings.size(), 1U) << "told once";
  EXPECT_EQ(announce_node(*db, "server-a", "h:1", time.now_us).error().code, TMESH_E_POLICY);
  test::run_sql(*db, "UPDATE server_nodes SET epoch = 1");
  change_node([&](auto& tx) { return storage::NodeRepository::set_enabled(tx, "server-a", true, now); });
  tick();
  EXPECT_EQ(standings.back(), NodeStanding::serving);
  change_node([&](auto& tx) { return storage::NodeRepository::mark_deleted(tx, "server-a", now); });
  tick();
  EXPECT_EQ(standings.back(), NodeStanding::deleted);
  EXPECT_EQ(announce_node(*db, "server-a", "h:1", time.now_us).error().code, TMESH_E_POLICY);
}

TEST_F(NodePresenceTest, TwoServersOfOneIdAreNoticed) {
  ASSERT_TRUE(announce_node(*db, "server-a", "other:443", time.now_us));
  tick();
  EXPECT_EQ(standings, std::vector{NodeStanding::replaced});
}

TEST_F(NodePresenceTest, AServerThatStopsLeavesNoLease) {
  up("c1");
  up("c2");
  struct Left {
    bool is_told = false;
    void on_left() { is_told = true; }
  } left;
  presence->leave(Delegate<void()>::bind<&Left::on_left>(&left));
  EXPECT_FALSE(left.is_told);
  timers.advance(1);
  settle();
  EXPECT_TRUE(left.is_told);
  EXPECT_TRUE(leases().empty());
  const auto node = **storage::NodeRepository(*db).find("server-a");
  EXPECT_EQ(node.expires_at, storage::format_timestamp(time.now_us)) << "offline at once";
}

TEST_F(NodePresenceTest, WithoutADatabaseLeavingEndsToo) {
  up("c1");
  struct Left {
    bool is_told = false;
    void on_left() { is_told = true; }
  } left;
  writer.refuses = true;
  presence->leave(Delegate<void()>::bind<&Left::on_left>(&left));
  timers.advance(1);
  EXPECT_TRUE(left.is_told);
}

TEST_F(NodePresenceTest, WhatDeadServersLeftIsSwept) {
  up("c1");
  begin("server-b");  // server-a was killed
  tick(12);
  EXPECT_EQ(leases().size(), 1U) << "its clock may be behind";
  EXPECT_TRUE(reports().front().is_stale);
  tick(static_cast<int>(kLeaseGrace_us / 10'000'000));
  EXPECT_TRUE(leases().empty());
  time.now_us += kReportKept_us;
  tick(6);
  EXPECT_TRUE(reports().empty());
}

}  // namespace
}  // namespace tmesh::server
