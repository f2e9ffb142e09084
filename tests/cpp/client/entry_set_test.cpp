// One list of tunnels becomes another one while streams run (LESSONS P-K5). Entries are fakes
// that share a world of taken addresses.
#include "cpp/client/entry_set.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/client/tunnels_fixture.hpp"

namespace tmesh::client {
namespace {

using Protocol = config::Tunnel::Protocol;

constexpr const char* kNotHere = "192.0.2.1";

// What listens now.
std::set<std::string> taken;
uint16_t next_port = 50'000;
int made_count = 0;

class FakeEntry final : public Entry {
 public:
  explicit FakeEntry(const config::Tunnel& made_for) : tunnel_(made_for) { made_count++; }
  ~FakeEntry() override { release(); }
  Result<void> listen() override {
    if (tunnel_.listen.host == kNotHere) return fail(TMESH_E_INVALID, "is no address of this machine");
    const uint16_t wanted = tunnel_.listen.port;
    if (tunnel_.socket_path.empty()) port_ = wanted == 0 ? next_port++ : wanted;
    place_ = tunnel_.socket_path.empty()
                 ? (tunnel_.protocol == Protocol::udp ? "udp " : "tcp ") + std::to_string(port_)
                 : tunnel_.socket_path;
    if (!taken.insert(place_).second) {
      place_.clear();
      return fail(TMESH_E_REFUSED, "the address is already in use");
    }
    return {};
  }
  void stop_listening() override {
    release();
    locals -= idle;
    idle = 0;
  }
  uint16_t port() const override { return place_.empty() ? 0 : port_; }
  std::size_t locals_count() const override { return locals; }
  const EntryStats& stats() const override { return stats_; }

  std::size_t locals = 0;
  std::size_t idle = 0;  // of those

 private:
  void release() {
    if (!place_.empty()) taken.erase(place_);
    place_.clear();
  }
  const config::Tunnel tunnel_;
  uint16_t port_ = 0;
  std::string place_;
  EntryStats stats_;
};

std::unique_ptr<Entry> make_fake(const EntryDeps&, const config::Tunnel& made_for, Entry::Broken) {
  return std::make_unique<FakeEntry>(made_for);
}

class EntrySetTest : public TunnelsTest {
 public:
  void on_broken(Entry&) {}
  void on_left() { left_count++; }

 protected:
  EntrySetTest() {
    taken.clear();
    made_count = 0;
  }
  // What failed, as names.
  std::vector<std::string> apply(const std::vector<config::Tunnel>& wanted) {
    std::vector<std::string> names;
    for (const auto& failure : set.apply(wanted, deps())) names.push_back(failure.tunnel);
    return names;
  }
  FakeEntry& entry(const std::string& name) {
    const auto it = std::find_if(set.running().begin(), set.running().end(),
                                 [&](const auto& one) { return one->tunnel.name == name; });
    EXPECT_NE(it, set.running().end()) << name;
    return static_cast<FakeEntry&>(*(*it)->entry);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& one : set.running()) out.push_back(one->tunnel.name);
    return out;
  }

  test::FakeTimers clock;
  int left_count = 0;
  EntrySet set{clock, Entry::Broken::bind<&EntrySetTest::on_broken>(this),
               Delegate<void()>::bind<&EntrySetTest::on_left>(this), &make_fake};
};

using Names = std::vector<std::string>;
using Places = std::set<std::string>;

TEST_F(EntrySetTest, TheSameListTouchesNothing) {
  apply({tunnel("a", 1), tunnel("b", 2)});
  EXPECT_EQ(apply({tunnel("b", 2), tunnel("a", 1)}), Names{});
  EXPECT_EQ(made_count, 2);
  EXPECT_EQ(names(), (Names{"b", "a"})) << "in the order of the list";
}

TEST_F(EntrySetTest, OneThatIsGoneGoesWithItsLastLocal) {
  apply({tunnel("a", 1, "home"), tunnel("b", 2, "away")});
  FakeEntry& gone = entry("b");
  gone.locals = 1;
  apply({tunnel("a", 1, "home")});
  EXPECT_EQ(taken, Places{"tcp 1"}) << "it listens no more";
  EXPECT_EQ(set.locals_count(), 1u);
  EXPECT_EQ(set.agents(), (std::set<std::string>{"away", "home"})) << "its next request needs a link";
  clock.advance(EntrySet::kSweep_us);
  EXPECT_EQ(set.leaving_count(), 1u);
  gone.locals = 0;
  left_count = 0;
  clock.advance(EntrySet::kSweep_us);
  EXPECT_EQ(set.leaving_count(), 0u);
  EXPECT_EQ(left_count, 1);
  EXPECT_EQ(set.agents(), std::set<std::string>{"home"});
}

TEST_F(EntrySetTest, WhatBecomesIdleLaterIsClosedThen) {
  apply({tunnel("a", 1)});
  FakeEntry& gone = entry("a");
  gone.locals = 1;
  apply({});
  gone.idle = 1;
  clock.advance(EntrySet::kSweep_us);
  EXPECT_EQ(set.leaving_count(), 0u);
}

TEST_F(EntrySetTest, ReplacedAtTheSamePlace) {
  apply({tunnel("a", 1)});
  entry("a").locals = 1;
  EXPECT_EQ(apply({tunnel("a", 1, "away")}), Names{});
  EXPECT_EQ(taken, Places{"tcp 1"});
  EXPECT_EQ(set.locals_count(), 1u);
  EXPECT_EQ(set.leaving_count(), 1u);
}

TEST_F(EntrySetTest, AChosenPortStays) {
  apply({tunnel("a", 0)});
  const Places before = taken;
  apply({tunnel("a", 0, "away")});
  EXPECT_EQ(taken, before);
  apply({tunnel("a", 0, "away")});
  EXPECT_EQ(made_count, 2) << "compared as it is written";
}

TEST_F(EntrySetTest, MovedToAnotherPlace) {
  apply({tunnel("a", 1)});
  entry("a").locals = 1;
  EXPECT_EQ(apply({tunnel("a", 2)}), Names{});
  EXPECT_EQ(taken, Places{"tcp 2"});
  EXPECT_EQ(set.locals_count(), 1u) << "its flow goes on";
}

TEST_F(EntrySetTest, APlaceThatIsTakenIsTheErrorOfOneTunnelOnly) {
  apply({tunnel("a", 1), tunnel("b", 2)});
  FakeEntry& b = entry("b");
  taken.insert("tcp 9");
  taken.insert("udp 2");
  config::Tunnel udp = tunnel("e", 2);
  udp.protocol = Protocol::udp;
  EXPECT_EQ(apply({tunnel("a", 1), tunnel("b", 9), tunnel("c", 9), tunnel("d", 4), udp}),
            (Names{"b", "c", "e"}));
  EXPECT_EQ(taken, (Places{"tcp 1", "tcp 2", "tcp 4", "tcp 9", "udp 2"})) << "b stays where it was";
  EXPECT_EQ(&entry("b"), &b);
  EXPECT_EQ(names(), (Names{"a", "b", "d"}));
  taken.erase("tcp 9");
  EXPECT_EQ(apply({tunnel("a", 1), tunnel("b", 9), tunnel("d", 4)}), Names{}) << "tried again";
  EXPECT_EQ(taken, (Places{"tcp 1", "tcp 4", "tcp 9", "udp 2"}));
}

TEST_F(EntrySetTest, PlacesThatAreSwapped) {
  apply({tunnel("a", 1), tunnel("b", 2), tunnel("c", 3)});
  EXPECT_EQ(apply({tunnel("a", 2), tunnel("b", 3), tunnel("c", 1)}), Names{});
  EXPECT_EQ(taken, (Places{"tcp 1", "tcp 2", "tcp 3"}));
  EXPECT_EQ(entry("a").port(), 2);
  EXPECT_EQ(entry("c").port(), 1);
}

TEST_F(EntrySetTest, RenamedAtTheSamePlace) {
  apply({tunnel("a", 1)});
  EXPECT_EQ(apply({tunnel("b", 1)}), Names{});
  EXPECT_EQ(taken, Places{"tcp 1"});
}

TEST_F(EntrySetTest, APlaceThatOneLeavesOnlyInVainIsGivenBack) {
  apply({tunnel("a", 1), tunnel("b", 2)});
  taken.insert("tcp 9");
  // b wants the place of a, which cannot go where it wants to.
  EXPECT_EQ(apply({tunnel("a", 9), tunnel("b", 1)}), Names{"a"});
  EXPECT_EQ(entry("b").port(), 1) << "it was free for a moment, and b was wanted there";
}

TEST_F(EntrySetTest, OneThatMadeWayInVainComesBack) {
  apply({tunnel("a", 0), tunnel("b", 2)});
  const uint16_t port = entry("a").port();
  taken.insert("tcp 9");
  config::Tunnel elsewhere = tunnel("b", port);
  elsewhere.listen.host = kNotHere;
  EXPECT_EQ(apply({tunnel("a", 9), elsewhere}), (Names{"a", "b"}));
  EXPECT_EQ(entry("a").port(), port);
  EXPECT_EQ(entry("b").port(), 2);
}

TEST_F(EntrySetTest, AnotherHostOnTheSamePort) {
  apply({tunnel("a", 1)});
  config::Tunnel everywhere = tunnel("a", 1);
  everywhere.listen.host = "0.0.0.0";
  EXPECT_EQ(apply({everywhere}), Names{}) << "its own old listener was in the way";
  EXPECT_EQ(taken, Places{"tcp 1"});
}

TEST_F(EntrySetTest, AnAssociationDoesNotKeepTheSocketOfItsSuccessor) {
  config::Tunnel old = tunnel("a", 1);
  old.protocol = Protocol::udp;
  apply({old});
  entry("a").locals = 3;
  config::Tunnel other = old;
  other.agent_id = "away";
  EXPECT_EQ(apply({other}), Names{});
  EXPECT_EQ(set.leaving_count(), 0u);
  EXPECT_EQ(taken, Places{"udp 1"});
}

TEST_F(EntrySetTest, AReplacementThatCannotListenBringsTheOldOneBack) {
  EntrySet unlucky(clock, Entry::Broken::bind<&EntrySetTest::on_broken>(this),
                   Delegate<void()>::bind<&EntrySetTest::on_left>(this),
                   [](const EntryDeps& d, const config::Tunnel& t, Entry::Broken b) {
                     // Somebody else holds the port for a moment: the third entry is the old one again.
                     if (made_count == 1) taken.insert("tcp 5");
                     if (made_count == 2) taken.erase("tcp 5");
                     return make_fake(d, t, b);
                   });
  EXPECT_TRUE(unlucky.apply({tunnel("x", 5)}, deps()).empty());
  EXPECT_EQ(unlucky.apply({tunnel("x", 5, "away")}, deps()).size(), 1u);
  ASSERT_EQ(unlucky.running().size(), 1u);
  EXPECT_EQ(unlucky.running().front()->tunnel.agent_id, "home");
  EXPECT_EQ(unlucky.running().front()->entry->port(), 5);
}

// With entries that really listen: the old one gives the place up in time.
TEST_F(EntrySetTest, RealListenersAreReplacedAtTheirPlace) {
  EntrySet real(loop(), Entry::Broken::bind<&EntrySetTest::on_broken>(this),
                Delegate<void()>::bind<&EntrySetTest::on_left>(this));
  std::string folder = testing::TempDir() + "tmesh-entries-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  config::Tunnel local = tunnel("local", 0);
  local.socket_path = folder + "/x.sock";
  ASSERT_TRUE(real.apply({tunnel("tcp", 0), local}, deps()).empty());
  const uint16_t port = real.running().front()->entry->port();
  for (const char* agent : {"away", "home"}) {
    local.agent_id = agent;
    ASSERT_TRUE(real.apply({tunnel("tcp", 0, agent), local}, deps()).empty());
    EXPECT_EQ(real.running().front()->entry->port(), port);
    EXPECT_TRUE(net::RawClient(port).is_connected());
    EXPECT_EQ(::access(local.socket_path.c_str(), F_OK), 0) << "the file is the new one's";
  }
  real.apply({}, deps());
  EXPECT_FALSE(net::RawClient(port).is_connected());
  EXPECT_NE(::access(local.socket_path.c_str(), F_OK), 0);
  ::rmdir(folder.c_str());
}

TEST_F(EntrySetTest, StopListeningStopsThemAll) {
  apply({tunnel("a", 1), tunnel("b", 2)});
  set.stop_listening();
  EXPECT_TRUE(taken.empty());
}

}  // namespace
}  // namespace tmesh::client
