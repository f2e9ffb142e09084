// What becomes of each tunnel when one list of them follows another one (LESSONS P-K5).
#include <set>

#include "tests/cpp/client/tunnels_fixture.hpp"

namespace tmesh::client {
namespace {

using Step = TunnelPlan::Step;
using Protocol = config::Tunnel::Protocol;
using Places = std::set<std::string>;

class PlanTest : public TunnelsTest {
 protected:
  TunnelPlan plan(const std::vector<config::Tunnel>& running, const std::vector<config::Tunnel>& wanted) {
    const EntryDeps before = deps();
    std::vector<Served> served;
    for (const auto& one : running) {
      served.push_back({&one, &before, one.listen.port == 0 ? uint16_t{50'000} : one.listen.port});
    }
    handshake_timeout_us = later_timeout_us;
    return plan_tunnels(served, wanted, deps());
  }
  Step step(const config::Tunnel& running, const config::Tunnel& wanted) {
    return plan({running}, {wanted}).wanted.front().step;
  }
  uint64_t later_timeout_us = 10'000'000;
};

TEST_F(PlanTest, ByName) {
  const TunnelPlan found = plan({tunnel("a", 1), tunnel("b", 2), tunnel("c", 3)},
                                {tunnel("c", 3), tunnel("a", 7), tunnel("d", 2)});
  ASSERT_EQ(found.wanted.size(), 3u);
  EXPECT_EQ(found.wanted[0].step, Step::keep);
  EXPECT_EQ(found.wanted[0].running, 2u);
  EXPECT_EQ(found.wanted[1].step, Step::move);
  EXPECT_EQ(found.wanted[1].running, 0u);
  EXPECT_EQ(found.wanted[2].step, Step::add);
  EXPECT_EQ(found.obsolete, std::vector<std::size_t>{1});
}

TEST_F(PlanTest, WhatChangedDecidesTheStep) {
  const config::Tunnel old = tunnel("a", 1);
  config::Tunnel other = old;
  EXPECT_EQ(step(old, other), Step::keep);
  other.agent_id = "away";
  EXPECT_EQ(step(old, other), Step::replace);
  other = old;
  other.listen.host = "0.0.0.0";
  EXPECT_EQ(step(old, other), Step::move);
  other = old;
  other.protocol = Protocol::udp;
  EXPECT_EQ(step(old, other), Step::move) << "another kind of socket";
  other = old;
  other.socket_path = "/run/a";
  EXPECT_EQ(step(old, other), Step::move);
  config::Tunnel same_path = other;
  same_path.socket_mode = 0660;
  EXPECT_EQ(step(other, same_path), Step::replace);
}

TEST_F(PlanTest, APortThatTheSystemChose) {
  const config::Tunnel old = tunnel("a", 0);
  EXPECT_EQ(step(old, tunnel("a", 0)), Step::keep);
  EXPECT_EQ(step(old, tunnel("a", 0, "away")), Step::replace);
  EXPECT_EQ(step(old, tunnel("a", 50'000)), Step::replace) << "the port that it has already";
  EXPECT_EQ(step(old, tunnel("a", 50'001)), Step::move);
  config::Tunnel udp = old;
  udp.protocol = Protocol::udp;
  EXPECT_EQ(step(old, udp), Step::move) << "the number may be taken there";
}

TEST_F(PlanTest, SettingsOfTheProgramCountWhereTheyMatter) {
  later_timeout_us = 1;
  EXPECT_EQ(step(tunnel("a", 1), tunnel("a", 1)), Step::replace);
  later_timeout_us = 10'000'000;
  handshake_timeout_us = 10'000'000;
  socks5 = {"ann", Secret("one")};
  const EntryDeps before = deps();
  std::vector<config::Tunnel> list = {tunnel("tcp", 1), tunnel("socks5", 2), tunnel("proxy", 3),
                                      tunnel("udp", 4)};
  list[1].auth = config::Tunnel::Auth::password;
  list[2].auth = config::Tunnel::Auth::basic;
  list[3].protocol = Protocol::udp;
  std::vector<Served> running;
  for (const config::Tunnel& one : list) running.push_back({&one, &before, one.listen.port});
  const auto replaced = [&] {
    Places names;
    const TunnelPlan found = plan_tunnels(running, list, deps());
    for (std::size_t i = 0; i < list.size(); i++) {
      if (found.wanted[i].step != Step::keep) names.insert(list[i].name);
    }
    return names;
  };
  EXPECT_EQ(replaced(), Places{});
  socks5 = {"ann", Secret("two")};
  EXPECT_EQ(replaced(), Places{"socks5"});
  socks5 = before.socks5;
  http_proxy = {"ann", Secret("one")};
  EXPECT_EQ(replaced(), Places{"proxy"});
  http_proxy = {};
  udp_idle_timeout_us = 1;
  EXPECT_EQ(replaced(), Places{"udp"});
  link_wait_us = 1;
  EXPECT_EQ(replaced().size(), list.size());
}

}  // namespace
}  // namespace tmesh::client
