#include "cpp/server/agent_registry.hpp"

#include <gtest/gtest.h>

#include "core/proto/capability.h"
#include "cpp/server/link_health.hpp"

namespace tmesh::server {
namespace {

using Registration = AgentRegistry::Registration;

struct Link final : RegisteredLink {
  Link(const char* agent, const char* connection, int64_t number) {
    agent_id = agent;
    connection_id = connection;
    epoch = number;
  }
  bool takes_opens() const override { return takes; }
  std::size_t streams_count() const override { return streams; }
  uint64_t last_heard_us() const override { return heard_us; }
  uint32_t capabilities() const override { return caps; }
  tmesh_mux* mux() override { return nullptr; }
  void on_replaced() override { replaced++; }
  bool is_suspect() const override { return suspect; }
  uint64_t rtt_us() const override { return rtt; }
  uint32_t health_percent() const override { return health; }
  void note_open(bool is_good) override { notes += is_good ? '+' : '-'; }
  void probe() override { probes++; }

  bool takes = true;
  std::size_t streams = 0;
  uint64_t heard_us = 0;
  uint32_t caps = 0;
  int replaced = 0;
  bool suspect = false;
  int probes = 0;
  uint64_t rtt = 0;
  uint32_t health = 100;
  std::string notes;
};

TEST(AgentRegistry, ASuspectedLinkIsTakenOnlyIfThereIsNoOther) {
  AgentRegistry registry(8);
  Link dead("home", "c1", 1);
  Link busy("home", "c2", 1);
  dead.suspect = true;
  dead.heard_us = 9;
  busy.streams = 100;
  ASSERT_EQ(registry.add(dead), Registration::registered);
  EXPECT_EQ(registry.select("home", 0), &dead) << "better than nothing";
  ASSERT_EQ(registry.add(busy), Registration::registered);
  EXPECT_EQ(registry.select("home", 0), &busy);
}

TEST(AgentRegistry, ANewLinkProbesTheOthersOfItsAgent) {
  AgentRegistry registry(2);
  Link first("home", "c1", 1);
  Link other("work", "c1", 1);
  Link second("home", "c2", 1);
  Link third("home", "c3", 1);
  registry.add(first);
  registry.add(other);
  registry.add(second);
  EXPECT_EQ(first.probes, 1);
  EXPECT_EQ(second.probes, 0);
  EXPECT_EQ(other.probes, 0);
  EXPECT_EQ(registry.add(third), Registration::too_many);
  EXPECT_EQ(first.probes, 1) << "a refused link says nothing about the others";
}

TEST(AgentRegistry, ANewerEpochReplacesAndAnOlderOrEqualOneIsRefused) {
  AgentRegistry registry(8);
  Link first("home", "c1", 5);
  Link equal("home", "c1", 5);
  Link older("home", "c1", 4);
  Link newer("home", "c1", 6);
  ASSERT_EQ(registry.add(first), Registration::registered);
  EXPECT_EQ(registry.add(equal), Registration::stale_epoch);
  EXPECT_EQ(registry.add(older), Registration::stale_epoch);
  EXPECT_EQ(first.replaced, 0);
  EXPECT_EQ(registry.add(newer), Registration::registered);
  EXPECT_EQ(first.replaced, 1);
  EXPECT_EQ(registry.links_count("home"), 1u);
  EXPECT_EQ(registry.select("home", 0), &newer);
  registry.remove(first);  // the replaced one goes later
  EXPECT_EQ(registry.select("home", 0), &newer);
}

TEST(AgentRegistry, FencingIsPerAgentAndConnectionId) {
  AgentRegistry registry(8);
  Link a("home", "c1", 5);
  Link b("home", "c2", 1);
  Link c("away", "c1", 1);
  EXPECT_EQ(registry.add(a), Registration::registered);
  EXPECT_EQ(registry.add(b), Registration::registered);
  EXPECT_EQ(registry.add(c), Registration::registered);
  EXPECT_EQ(a.replaced + b.replaced + c.replaced, 0);
}

TEST(AgentRegistry, RefusesTheLinkBeyondTheMaximumOnly) {
  AgentRegistry registry(2);
  Link a("home", "c1", 1);
  Link b("home", "c2", 1);
  Link c("home", "c3", 1);
  Link newer("home", "c1", 2);
  registry.add(a);
  registry.add(b);
  EXPECT_EQ(registry.add(c), Registration::too_many);
  EXPECT_EQ(registry.links_count("home"), 2u);
  EXPECT_EQ(registry.add(newer), Registration::registered) << "it takes the place of another";
  registry.remove(c);  // harmless
  registry.remove(b);
  EXPECT_EQ(registry.add(c), Registration::registered);
}

TEST(AgentRegistry, SelectsTheLeastLoadedAndThenTheOneHeardOfLast) {
  AgentRegistry registry(8);
  Link a("home", "c1", 1);
  Link b("home", "c2", 1);
  Link c("home", "c3", 1);
  for (Link* link : {&a, &b, &c}) registry.add(*link);
  a.streams = 3;
  b.streams = c.streams = 2;
  b.heard_us = 10;
  c.heard_us = 20;
  EXPECT_EQ(registry.select("home", 0), &c);
  b.heard_us = 30;
  EXPECT_EQ(registry.select("home", 0), &b);
  a.streams = 0;
  EXPECT_EQ(registry.select("home", 0), &a);
}

// Requirement E6: weighted least connections.
TEST(AgentRegistry, SelectsTheLowestLoadDividedByHealth) {
  struct Row {
    std::size_t a_streams;
    uint32_t a_health;
    std::size_t b_streams;
    uint32_t b_health;
    char better;
  };
  const Row rows[] = {{0, 100, 0, 99, 'a'}, {0, 50, 0, 100, 'b'},  {0, 50, 1, 100, '='},
                      {0, 50, 2, 100, 'a'}, {9, 100, 4, 50, '='},  {10, 100, 4, 50, 'b'},
                      {0, 5, 18, 100, 'b'}, {0, 5, 20, 100, 'a'},  {3, 100, 4, 100, 'a'},
                      {7, 80, 9, 100, '='}, {0, 1, 1000, 100, 'a'}};
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.a_streams << '/' << row.a_health << ' ' << row.b_streams << '/'
                                    << row.b_health);
    AgentRegistry registry(8);
    Link a("home", "c1", 1);
    Link b("home", "c2", 1);
    registry.add(a);
    registry.add(b);
    a.streams = row.a_streams;
    a.health = row.a_health;
    b.streams = row.b_streams;
    b.health = row.b_health;
    // A tie goes to the lower round-trip time, whichever has it.
    for (const bool is_a_nearer : {true, false}) {
      a.rtt = is_a_nearer ? 10 : 20;
      b.rtt = is_a_nearer ? 20 : 10;
      const bool takes_a = row.better == 'a' || (row.better == '=' && is_a_nearer);
      EXPECT_EQ(registry.select("home", 0), takes_a ? &a : &b);
    }
  }
}

TEST(AgentRegistry, AnUnknownRoundTripTimeIsTheWorst) {
  AgentRegistry registry(8);
  Link a("home", "c1", 1);
  Link b("home", "c2", 1);
  registry.add(a);
  registry.add(b);
  a.heard_us = 9;
  b.rtt = 3'000'000;
  EXPECT_EQ(registry.select("home", 0), &b);
  b.rtt = 0;
  EXPECT_EQ(registry.select("home", 0), &a) << "heard of last";
}

TEST(AgentRegistry, TheEndOfAnOpenIsNotedWhereItHappened) {
  using End = AgentRegistry::OpenEnd;
  AgentRegistry registry(8);
  Link a("home", "c1", 1);
  Link b("home", "c2", 1);
  Link newer("home", "c1", 2);
  registry.add(a);
  registry.add(b);
  ASSERT_NE(a.link_number, b.link_number);
  for (const End end : {End::answered, End::full, End::broken}) registry.note_open(a.link_number, 50, end);
  EXPECT_EQ(a.notes, "+--");
  a.heard_us = 50;
  registry.note_open(a.link_number, 50, End::silent);
  EXPECT_EQ(a.notes, "+---");
  a.heard_us = 51;
  registry.note_open(a.link_number, 50, End::silent);
  EXPECT_EQ(a.notes, "+---") << "a link that was heard of since is not at fault";
  EXPECT_EQ(b.notes, "");
  const uint64_t of_a = a.link_number;
  registry.add(newer);
  registry.note_open(of_a, 50, End::broken);
  registry.remove(b);
  registry.note_open(b.link_number, 50, End::broken);
  EXPECT_EQ(a.notes + b.notes + newer.notes, "+---") << "what is gone is not noted, nor is its successor";
}

TEST(AgentRegistry, SkipsLinksThatTakeNoOpens) {
  AgentRegistry registry(8);
  Link a("home", "c1", 1);
  Link b("home", "c2", 1);
  registry.add(a);
  registry.add(b);
  b.streams = 100;
  a.takes = false;
  EXPECT_EQ(registry.select("home", 0), &b);
  b.takes = false;
  EXPECT_EQ(registry.select("home", 0), nullptr);
}

TEST(AgentRegistry, SelectsOnlyLinksWithWhatTheOpenNeeds) {
  AgentRegistry registry(8);
  Link old("home", "c1", 1);
  Link strict("home", "c2", 1);
  registry.add(old);
  registry.add(strict);
  strict.caps = TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL;
  strict.streams = 50;
  EXPECT_EQ(registry.select("home", TMESH_CAP_OPEN_RESULT), &strict);
  EXPECT_EQ(registry.select("home", 0), &old);
  strict.takes = false;
  EXPECT_EQ(registry.select("home", TMESH_CAP_OPEN_RESULT), nullptr);
}

TEST(AgentRegistry, AgentIdsCompareByteByByte) {
  AgentRegistry registry(8);
  Link a("Home", "c1", 1);
  registry.add(a);
  EXPECT_EQ(registry.select("home", 0), nullptr);
  EXPECT_EQ(registry.select("Home", 0), &a);
  EXPECT_EQ(registry.select("", 0), nullptr);
}

// --- the health of one link -------------------------------------------------------------

TEST(LinkHealth, ALinkBeginsHealthyAndStaysSo) {
  LinkHealth health;
  EXPECT_EQ(health.percent(0), 100u);
  for (uint64_t i = 0; i < 100; i++) health.note(true, i);
  EXPECT_EQ(health.percent(100), 100u);
}

TEST(LinkHealth, EachFailureTakesAnEighthOfWhatIsLeft) {
  LinkHealth health;
  health.note(false, 0);
  EXPECT_EQ(health.percent(0), 88u);
  health.note(false, 0);
  EXPECT_EQ(health.percent(0), 77u);
  health.note(true, 0);
  EXPECT_EQ(health.percent(0), 80u) << "and an answer gives an eighth of what is missing back";
}

TEST(LinkHealth, ItIsNeverZeroAndNeverStuck) {
  LinkHealth health;
  for (int i = 0; i < 1000; i++) health.note(false, 0);
  EXPECT_EQ(health.percent(0), LinkHealth::kWorst_percent);
  EXPECT_EQ(health.percent(LinkHealth::kHalfLife_us - 1), LinkHealth::kWorst_percent);
  EXPECT_EQ(health.percent(LinkHealth::kHalfLife_us), 51u) << "time alone heals";
  EXPECT_EQ(health.percent(20 * LinkHealth::kHalfLife_us), 100u);
  EXPECT_EQ(health.percent(UINT64_MAX), 100u);
  for (int i = 0; i < 1000; i++) health.note(true, 1);
  EXPECT_EQ(health.percent(1), 100u);
}

}  // namespace
}  // namespace tmesh::server
