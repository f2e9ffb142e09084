#include "cpp/server/agent_registry.hpp"

#include <gtest/gtest.h>

#include "core/proto/capability.h"

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
  void probe() override { probes++; }

  bool takes = true;
  std::size_t streams = 0;
  uint64_t heard_us = 0;
  uint32_t caps = 0;
  int replaced = 0;
  bool suspect = false;
  int probes = 0;
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

}  // namespace
}  // namespace tmesh::server
