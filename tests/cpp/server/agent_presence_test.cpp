#include "cpp/server/agent_presence.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cpp/server/presence_fixture.hpp"

namespace tmesh::server {
namespace {

using test::PresenceLink;
using AgentPresenceTest = test::PresenceFixture;

constexpr int64_t above_40_bits = (int64_t{1} << 40) + 7;

TEST_F(AgentPresenceTest, ALinkIsLeasedAtOnceAndReleasedWhenItGoes) {
  PresenceLink& one = link("c1", above_40_bits);
  presence->add(one, report());
  ASSERT_TRUE(writer.step()) << "without waiting for a tick";
  ASSERT_EQ(leases().size(), 1U);
  const storage::LeaseRecord row = leases().front();
  EXPECT_EQ(row.connection_id, "c1");
  EXPECT_EQ(row.connection_epoch, above_40_bits);
  EXPECT_EQ(row.server_node_id, "server-a");
  EXPECT_EQ(row.epoch, 1);
  EXPECT_EQ(row.instance_id, "instance-1");
  EXPECT_EQ(row.node_id, "node-1");
  EXPECT_EQ(row.expires_at, storage::format_timestamp(time.now_us + kLeaseLife_us));
  EXPECT_TRUE(is_online());
  presence->remove(one);
  settle();
  EXPECT_TRUE(leases().empty());
  EXPECT_FALSE(is_online());
}

TEST_F(AgentPresenceTest, LeasesAreRenewedBeforeTheyExpire) {
  up("c1");
  up("c2");
  for (int i = 0; i < 6; ++i) {
    time.now_us += 9'999'999;
    EXPECT_TRUE(is_online());
    time.now_us -= 9'999'999;
    tick();
  }
  EXPECT_EQ(leases().size(), 2U);
  EXPECT_EQ(presence->stats().registered_again_count, 0U);
}

TEST_F(AgentPresenceTest, WithoutTheServerALeaseExpires) {
  up("c1");
  time.now_us += kLeaseLife_us - 1'000'000;
  EXPECT_TRUE(is_online());
  time.now_us += 1'000'000;
  EXPECT_FALSE(is_online());
}

TEST_F(AgentPresenceTest, WhatALinkCarriesIsToldWithItsRenewal) {
  PresenceLink& one = up("c1");
  one.streams = 9;
  one.health = 43;
  tick();
  EXPECT_EQ(leases().front().active_streams, 9);
  EXPECT_EQ(leases().front().health_score, 43);
  one.suspect = true;
  tick();
  EXPECT_EQ(leases().front().health_score, 0);
  const std::size_t before = writer.written.size();
  tick();
  ASSERT_GT(writer.written.size(), before);
  EXPECT_FALSE(writer.written[before].leases.front().has_new_load) << "nothing new";
}

// LESSONS R16: the row is gone, or was never written, and is registered again with the epoch
// that is here.
TEST_F(AgentPresenceTest, ARenewalThatFindsNoRowRegistersAgainWithTheEpochInMemory_R16) {
  up("c1", above_40_bits);
  up("c2", 3);
  test::run_sql(*db, "DELETE FROM agent_connection_leases WHERE connection_id = 'c1'");
  tick();
  ASSERT_EQ(leases().size(), 2U);
  EXPECT_EQ(leases().front().connection_epoch, above_40_bits);
  EXPECT_EQ(presence->stats().registered_again_count, 1U);
}

// Another server's row is nobody else's business, whatever we hold.
TEST_F(AgentPresenceTest, ALeaseThatANewerLinkHoldsElsewhereIsLeftAlone_R16) {
  PresenceLink& one = up("c1", 1);
  test::run_sql(*db, "UPDATE agent_connection_leases SET server_node_id = 'server-b', connection_epoch = 2");
  tick();
  EXPECT_EQ(leases().front().server_node_id, "server-b");
  EXPECT_EQ(leases().front().connection_epoch, 2);
  EXPECT_EQ(presence->stats().held_elsewhere_count, 1U);
  presence->remove(one);
  settle();
  EXPECT_EQ(leases().size(), 1U) << "a release is fenced";
  // When the other server is dead, the link that lives here takes the row.
  presence->add(one, report());
  settle();
  time.now_us += kLeaseLife_us;
  tick();
  EXPECT_EQ(leases().front().server_node_id, "server-a");
}

TEST_F(AgentPresenceTest, AFailureOfTheLeasesDoesNotKeepReportsFromBeingWritten_R16) {
  PresenceLink& one = link("c1");
  writer.fails_leases = true;
  presence->add(one, report());
  settle();
  EXPECT_TRUE(leases().empty());
  ASSERT_EQ(reports().size(), 1U);
  tick(3);
  EXPECT_EQ(reports().front().last_seen_at, storage::format_timestamp(time.now_us)) << "touched all the same";
  EXPECT_EQ(presence->stats().leases_failed_count, 4U) << "one try at a time, and one per tick";
  EXPECT_EQ(presence->stats().metadata_failed_count, 0U);
  writer.fails_leases = false;
  tick();
  EXPECT_EQ(leases().size(), 1U);
}

TEST_F(AgentPresenceTest, AFailureOfTheReportsDoesNotKeepLeasesFromBeingRenewed_R16) {
  writer.fails_metadata = true;
  up("c1");
  tick(4);
  EXPECT_TRUE(is_online());
  EXPECT_TRUE(reports().empty());
  EXPECT_EQ(presence->stats().metadata_failed_count, 5U);
  EXPECT_EQ(presence->stats().leases_failed_count, 0U);
  writer.fails_metadata = false;
  tick();
  EXPECT_EQ(reports().size(), 1U);
}

TEST_F(AgentPresenceTest, WhileTheDatabaseIsAwayEverythingWaitsAndNothingIsLost) {
  PresenceLink& stays = up("c1");
  PresenceLink& goes = up("c2");
  writer.is_away = true;
  presence->remove(goes);
  PresenceLink& comes = up("c3", 5);
  comes.streams = 2;
  tick(6);
  EXPECT_FALSE(is_online());
  EXPECT_EQ(presence->leases_count(), 2U);
  const std::size_t writes = writer.written.size();
  tick();
  EXPECT_EQ(writer.written.size(), writes + 1) << "one try per tick";
  writer.is_away = false;
  tick();
  ASSERT_EQ(leases().size(), 2U);
  EXPECT_EQ(leases()[0].connection_id, stays.connection_id);
  EXPECT_EQ(leases()[1].connection_id, "c3");
  EXPECT_EQ(leases()[1].connection_epoch, 5);
  EXPECT_TRUE(is_online());
}

TEST_F(AgentPresenceTest, AFullLaneIsAFailureToo) {
  writer.refuses = true;
  up("c1");
  tick();
  EXPECT_TRUE(leases().empty());
  writer.refuses = false;
  tick();
  EXPECT_TRUE(is_online());
}

// The same connection id again, with the same epoch: an agent that starts anew and names its
// links like before (WIRE 1.6.3, "legacy").
TEST_F(AgentPresenceTest, AReleaseNeverTakesTheLeaseOfTheNextLinkOfThatName) {
  PresenceLink& old = up("legacy", 1);
  writer.is_away = true;
  presence->remove(old);
  settle();
  writer.is_away = false;
  PresenceLink& next = link("legacy", 1);
  presence->add(next, report("instance-2"));
  tick();
  ASSERT_EQ(leases().size(), 1U);
  EXPECT_EQ(leases().front().instance_id, "instance-2");
}

TEST_F(AgentPresenceTest, ALateReleaseDoesNotEither) {
  writer.is_away = true;
  for (std::size_t i = 0; i < AgentPresence::kGonePerWrite; ++i)
    presence->remove(up("c" + std::to_string(i)));
  presence->remove(up("legacy", 1));
  settle();
  writer.is_away = false;
  presence->add(link("legacy", 1), report());
  tick();
  ASSERT_EQ(leases().size(), 1U) << "more releases waited than one write takes";
}

TEST_F(AgentPresenceTest, ALinkThatWasReplacedTakesNothingWithIt) {
  PresenceLink& old = up("c1", 1);
  PresenceLink& next = link("c1", 2);
  presence->add(next, report());
  presence->remove(old);
  settle();
  ASSERT_EQ(leases().size(), 1U);
  EXPECT_EQ(leases().front().connection_epoch, 2);
  ASSERT_EQ(reports().size(), 1U);
  EXPECT_FALSE(reports().front().is_stale);
  presence->remove(next);
  settle();
  EXPECT_TRUE(leases().empty());
  EXPECT_TRUE(reports().front().is_stale);
}

TEST_F(AgentPresenceTest, AReportStaysWithTheLastLinkOfItsProcessAndIsStaleAfterwards_R17) {
  PresenceLink& one = up("c1");
  PresenceLink& two = up("c2");
  ASSERT_EQ(reports().size(), 1U);
  presence->remove(one);
  settle();
  EXPECT_FALSE(reports().front().is_stale);
  presence->remove(two);
  settle();
  ASSERT_EQ(reports().size(), 1U);
  EXPECT_TRUE(reports().front().is_stale);
  EXPECT_EQ(presence->reports_count(), 0U);
}

TEST_F(AgentPresenceTest, AProcessThatReportedNothingLeavesNoRow_R17) {
  PresenceLink& one = link("c1");
  presence->add(one, report("instance-1", 1, 1, "[]"));
  settle();
  ASSERT_EQ(reports().size(), 1U);
  EXPECT_NE(reports().front().metadata.find(R"("items":[])"), std::string::npos);
  presence->remove(one);
  settle();
  EXPECT_TRUE(reports().empty());
}

TEST_F(AgentPresenceTest, AnUpdateIsWrittenAndARestartedProcessReplacesIt) {
  PresenceLink& one = up("c1", 4);
  presence->report(one, report("instance-1", 4, 9, R"([{"name":"b"}])"));
  settle();
  EXPECT_EQ(reports().front().revision, 9);
  EXPECT_NE(reports().front().metadata.find(R"("b")"), std::string::npos);
  // Its old link is not known to be dead yet.
  time.now_us += 2'000'000;
  PresenceLink& next = link("c2");
  presence->add(next, report("instance-1", 1, 1, R"([{"name":"c"}])"));
  settle();
  EXPECT_EQ(reports().front().epoch, 1);
  EXPECT_NE(reports().front().metadata.find(R"("c")"), std::string::npos);
}

TEST_F(AgentPresenceTest, ReportsAreTouchedWhileTheirProcessIsThereAndWrittenAgainWhenLost) {
  up("c1");
  tick(12);
  EXPECT_EQ(reports().front().last_seen_at, storage::format_timestamp(time.now_us));
  EXPECT_FALSE(reports().front().is_stale);
  test::run_sql(*db, "DELETE FROM agent_instance_metadata");
  tick(3);
  ASSERT_EQ(reports().size(), 1U);
  EXPECT_NE(reports().front().metadata.find(R"("a")"), std::string::npos);
}

TEST_F(AgentPresenceTest, ReportsBeyondTheirMemoryAreKeptEmpty) {
  const std::string large = R"([{"name":")" + std::string(1U << 20, 'x') + R"("}])";
  for (int i = 0; i < 66; ++i) {
    presence->add(link("c" + std::to_string(i)), report("instance-" + std::to_string(i), 1, 1, large));
  }
  EXPECT_GT(presence->stats().dropped_count, 0U);
  EXPECT_LE(presence->stats().dropped_count, 4U);
  EXPECT_EQ(presence->leases_count(), 66U);
}

TEST_F(AgentPresenceTest, ManyLinksTakeManyWritesOfBoundedSize) {
  constexpr std::size_t count = 700;
  for (std::size_t i = 0; i < count; ++i) {
    PresenceLink& made = link("c" + std::to_string(i));
    presence->add(made, report("instance-" + std::to_string(i)));
  }
  settle();
  EXPECT_EQ(leases().size(), count);
  writer.written.clear();
  tick();
  std::size_t renewed = 0;
  for (const PresenceBatch& batch : writer.written) {
    EXPECT_LE(batch.leases.size(), AgentPresence::kLeasesPerWrite);
    renewed += batch.leases.size();
  }
  EXPECT_EQ(renewed, count);
  EXPECT_GE(writer.written.size(), 2U);
  for (PresenceLink& made : links) presence->remove(made);
  settle();
  EXPECT_TRUE(leases().empty());
  for (const PresenceBatch& batch : writer.written) {
    EXPECT_LE(batch.releases.size(), AgentPresence::kGonePerWrite);
    EXPECT_LE(batch.departures.size(), AgentPresence::kGonePerWrite);
    EXPECT_LE(batch.reports.size(), AgentPresence::kReportsPerWrite);
  }
}

TEST_F(AgentPresenceTest, ARoundThatFailedBeginsAgain) {
  for (std::size_t i = 0; i < AgentPresence::kLeasesPerWrite + 100; ++i) up("c" + std::to_string(i));
  writer.fails_leases = true;
  tick();
  writer.fails_leases = false;
  tick();
  const std::string expected = storage::format_timestamp(time.now_us + kLeaseLife_us);
  for (const storage::LeaseRecord& row : leases()) EXPECT_EQ(row.expires_at, expected) << row.connection_id;
}

TEST_F(AgentPresenceTest, DeparturesThatNobodyTakesAreBounded) {
  writer.is_away = true;
  for (std::size_t i = 0; i < AgentPresence::kGoneMax + 10; ++i) {
    PresenceLink& made = link("c" + std::to_string(i));
    presence->add(made, report("instance-" + std::to_string(i)));
    presence->remove(made);
    links.clear();
  }
  EXPECT_EQ(presence->stats().dropped_count, 20U) << "ten leases and ten reports, which expire";
}

TEST_F(AgentPresenceTest, OneWriteAtATime) {
  presence->add(link("c1"), report());
  ASSERT_TRUE(writer.waiting);
  presence->add(link("c2"), report());
  presence->remove(links.front());
  EXPECT_EQ(writer.waiting->first.leases.size(), 1U) << "what came later waits";
  settle();
  ASSERT_EQ(leases().size(), 1U);
  EXPECT_EQ(leases().front().connection_id, "c2");
}

TEST_F(AgentPresenceTest, AnEpochThatAColumnCannotTakeHarmsNobodyElse_R16) {
  // What a narrow column does in strict mode: the statement is refused.
  test::run_sql(*db,
                "CREATE TRIGGER narrow BEFORE INSERT ON agent_connection_leases "
                "WHEN NEW.connection_epoch > 2147483647 BEGIN SELECT RAISE(ABORT, 'out of range'); END");
  up("c1", above_40_bits);
  up("c2", 1);
  tick();
  ASSERT_EQ(leases().size(), 1U);
  EXPECT_EQ(leases().front().connection_id, "c2");
  EXPECT_EQ(presence->stats().leases_failed_count, 0U);
  test::run_sql(*db, "DROP TRIGGER narrow");
  tick();
  EXPECT_EQ(leases().size(), 2U);
}

}  // namespace
}  // namespace tmesh::server
