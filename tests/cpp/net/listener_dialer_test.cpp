#include <gtest/gtest.h>

#include <optional>

#include "cpp/net/dialer.hpp"
#include "cpp/net/listener.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::net {
namespace {

class ListenerTest : public LoopTest {
 protected:
  ~ListenerTest() override {
    for (int fd : accepted) ::close(fd);
  }
  Result<Listener> open(const std::string& host, uint16_t port = 0) {
    return Listener::open(loop(), host, port,
                          {Delegate<void(int, const Peer&)>::bind<&ListenerTest::on_accept>(this),
                           Delegate<void(tmesh_status)>::bind<&ListenerTest::on_broken>(this)});
  }
  void on_accept(int fd, const Peer& peer) {
    accepted.push_back(fd);
    peers.push_back(peer);
    if (to_close != nullptr) to_close->close();
  }
  void on_broken(tmesh_status) {}

  std::vector<int> accepted;
  std::vector<Peer> peers;
  Listener* to_close = nullptr;
};

TEST_F(ListenerTest, SaysWhoConnected) {
  auto listener = open("127.0.0.1");
  ASSERT_TRUE(listener.has_value());
  EXPECT_NE(listener->port(), 0);
  RawClient client(listener->port());
  ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
  EXPECT_EQ(peers[0].text(), "127.0.0.1");
  EXPECT_NE(peers[0].port, 0);
  EXPECT_EQ(listener->accepted_count(), 1u);
  EXPECT_NE(::fcntl(accepted[0], F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(accepted[0], F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(ListenerTest, DualStackPeersOfIpv4AreIpv4) {
  auto listener = open("*");
  ASSERT_TRUE(listener.has_value());
  RawClient client(listener->port());
  ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
  EXPECT_EQ(peers[0].text(), "127.0.0.1");
}

TEST_F(ListenerTest, LocalhostIsTheLoopbackAddress) {
  auto listener = open("localhost");
  ASSERT_TRUE(listener.has_value());
  EXPECT_TRUE(RawClient(listener->port()).is_connected());
}

TEST_F(ListenerTest, NamesTheReasonWhenItCannotListen) {
  auto first = open("127.0.0.1");
  ASSERT_TRUE(first.has_value());
  auto second = open("127.0.0.1", first->port());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, TMESH_E_REFUSED);
  EXPECT_STREQ(second.error().text, "the address is already in use");
  auto foreign = open("192.0.2.1");
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(foreign.error().code, TMESH_E_INVALID);
  EXPECT_FALSE(open("no-address").has_value());
}

TEST_F(ListenerTest, DestroyingItStopsAccepting) {
  uint16_t port = 0;
  {
    auto listener = open("127.0.0.1");
    ASSERT_TRUE(listener.has_value());
    port = listener->port();
  }
  EXPECT_FALSE(RawClient(port).is_connected());
}

TEST_F(ListenerTest, MayBeClosedFromItsOwnCallback) {
  auto listener = open("127.0.0.1");
  ASSERT_TRUE(listener.has_value());
  to_close = &*listener;
  RawClient one(listener->port());
  RawClient two(listener->port());
  ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
  EXPECT_FALSE(static_cast<bool>(*listener));
  EXPECT_EQ(accepted.size(), 1u);
}

class DialerTest : public ListenerTest {
 protected:
  DialerTest() { dialer = std::move(*Dialer::create(loop(), "127.0.0.1:9")); }
  ~DialerTest() override {
    if (result && result->fd >= 0) ::close(result->fd);
  }
  Result<Ticket> dial(std::string_view host, uint16_t port) {
    DialRequest request;
    request.host = host;
    request.port = port;
    request.timeout_us = 3'000'000;
    request.filter = filter;
    return dialer->dial(request, Delegate<void(DialResult)>::bind<&DialerTest::on_done>(this));
  }
  void on_done(DialResult value) {
    result = value;
    ticket = {};
  }
  struct Filter {
    std::string seen;
    bool deny(const IpAddress& ip, bool is_name) {
      seen = format_ip(ip) + (is_name ? " name" : " literal");
      return false;
    }
  } filter_log;

  std::unique_ptr<Dialer> dialer;
  Delegate<bool(const IpAddress&, bool)> filter;
  Ticket ticket;
  std::optional<DialResult> result;
};

TEST_F(DialerTest, ConnectsAndHandsTheDescriptorOver) {
  auto listener = open("127.0.0.1");
  auto started = dial("127.0.0.1", listener->port());
  ASSERT_TRUE(started.has_value());
  ticket = std::move(*started);
  EXPECT_FALSE(result.has_value()) << "never from inside the call";
  ASSERT_TRUE(run_until([&] { return result && !accepted.empty(); }));
  EXPECT_TRUE(tmesh_is_ok(result->status));
  EXPECT_GE(result->fd, 0);
  EXPECT_EQ(dialer->active_count(), 0u);
}

TEST_F(DialerTest, ReportsARefusalInConnect) {
  uint16_t port = open("127.0.0.1")->port();  // closed again
  ticket = std::move(*dial("127.0.0.1", port));
  ASSERT_TRUE(run_until([&] { return result.has_value(); }));
  EXPECT_EQ(result->status.code, TMESH_E_REFUSED);
  EXPECT_FALSE(result->failed_in_dns);
  EXPECT_EQ(result->fd, -1);
}

TEST_F(DialerTest, AsksTheFilterAboutEachAddress) {
  filter = Delegate<bool(const IpAddress&, bool)>::bind<&Filter::deny>(&filter_log);
  ticket = std::move(*dial("::ffff:127.0.0.1", 9));
  ASSERT_TRUE(run_until([&] { return result.has_value(); }));
  EXPECT_EQ(result->status.code, TMESH_E_POLICY);
  EXPECT_EQ(filter_log.seen, "127.0.0.1 literal") << "mapped addresses cannot slip past an IPv4 rule";
}

TEST_F(DialerTest, RefusesWhatIsNoName) {
  for (std::string_view host :
       {std::string_view("0x7f.1"), std::string_view("12345"), std::string_view("a\0b", 3)}) {
    auto started = dial(host, 9);
    if (!started) {
      EXPECT_EQ(started.error().code, TMESH_E_DNS);
      continue;
    }
    result.reset();
    ticket = std::move(*started);
    ASSERT_TRUE(run_until([&] { return result.has_value(); }));
    EXPECT_EQ(result->status.code, TMESH_E_DNS) << host;
  }
}

TEST_F(DialerTest, ADestroyedTicketMeansNoCall) {
  auto listener = open("127.0.0.1");
  {
    Ticket gone = std::move(*dial("127.0.0.1", listener->port()));
  }
  EXPECT_EQ(dialer->active_count(), 0u);
  EXPECT_FALSE(run_until([&] { return result.has_value(); }, 20'000));
}

TEST_F(DialerTest, DestroyingTheDialerCancelsItsDials) {
  auto listener = open("127.0.0.1");
  auto started = dial("127.0.0.1", listener->port());
  started->release();
  dialer.reset();
  EXPECT_FALSE(run_until([&] { return result.has_value(); }, 20'000));
}

}  // namespace
}  // namespace tmesh::net
