#include "cpp/net/udp.hpp"

#include "cpp/net/dialer.hpp"
#include "tests/cpp/net/loop_fixture.hpp"
#include "tests/cpp/net/noted_udp.hpp"

namespace tmesh::net {
namespace {

class UdpTest : public LoopTest {
 protected:
  Udp bound(UdpHandler& handler, const std::string& host = "127.0.0.1", uint16_t port = 0) {
    auto udp = Udp::bind(loop(), host, port, handler);
    EXPECT_TRUE(udp.has_value());
    return udp ? std::move(*udp) : Udp{};
  }
  Udp connected(UdpHandler& handler, uint16_t port) {
    auto udp = Udp::adopt(loop(), connected_udp(port), handler);
    EXPECT_TRUE(udp.has_value());
    return udp ? std::move(*udp) : Udp{};
  }
};

TEST_F(UdpTest, DatagramsOfEverySizeComeWholeWithTheirSender) {
  NotedUdp a_side;
  NotedUdp b_side;
  Udp a = bound(a_side);
  Udp b = connected(b_side, a.port());
  for (const std::size_t n : {0u, 1u, 1400u, 65'507u}) {
    const std::string sent = pattern(n);
    ASSERT_EQ(b.send(bytes_of(sent)).code, TMESH_OK);
    ASSERT_TRUE(run_until([&] { return !a_side.received.empty(); })) << n;
    EXPECT_EQ(a_side.received[0].data, sent);
    ASSERT_EQ(a.send_to(a_side.received[0].from, bytes_of(sent)).code, TMESH_OK);
    ASSERT_TRUE(run_until([&] { return !b_side.received.empty(); })) << n;
    EXPECT_EQ(b_side.received[0].data, sent);
    a_side.received.clear();
    b_side.received.clear();
  }
}

TEST_F(UdpTest, SendersAreToldApartAndOneStaysTheSame) {
  NotedUdp a_side;
  NotedUdp others;
  Udp a = bound(a_side);
  Udp b = connected(others, a.port());
  Udp c = connected(others, a.port());
  ASSERT_EQ(b.send(bytes_of("b")).code, TMESH_OK);
  ASSERT_EQ(c.send(bytes_of("c")).code, TMESH_OK);
  ASSERT_EQ(b.send(bytes_of("b")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return a_side.received.size() == 3; }));
  EXPECT_EQ(a_side.received[0].from, a_side.received[2].from);
  EXPECT_NE(a_side.received[0].from, a_side.received[1].from);
  EXPECT_EQ(UdpAddressHash{}(a_side.received[0].from), UdpAddressHash{}(a_side.received[2].from));
}

TEST_F(UdpTest, APortThatNobodyHasIsAnEventAndNotTheEnd) {
  NotedUdp handler;
  uint16_t port = 0;
  {
    NotedUdp nobody;
    Udp gone = bound(nobody);
    port = gone.port();
  }
  // The port is free when the loop has closed the socket.
  ASSERT_TRUE(run_until([&] {
    NotedUdp probe;
    return Udp::bind(loop(), "127.0.0.1", port, probe).has_value();
  }));
  Udp udp = connected(handler, port);
  ASSERT_EQ(udp.send(bytes_of("x")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return !handler.errors.empty(); }));
  EXPECT_EQ(handler.errors[0], TMESH_E_REFUSED);
  NotedUdp there;
  Udp other = bound(there, "127.0.0.1", port);
  ASSERT_EQ(udp.send(bytes_of("y")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return !there.received.empty(); }));
  EXPECT_EQ(there.received[0].data, "y");
}

TEST_F(UdpTest, WhatIsTooLargeIsSaidAndLost) {
  NotedUdp handler;
  NotedUdp there;
  Udp target = bound(there);
  Udp udp = connected(handler, target.port());
  EXPECT_EQ(udp.send(bytes_of(pattern(65'508))).code, TMESH_E_TOO_LARGE);
  EXPECT_EQ(udp.send(bytes_of("small")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return !there.received.empty(); }));
  EXPECT_EQ(there.received[0].data, "small");
}

TEST_F(UdpTest, ABusyPortAndAForeignAddressAreNamed) {
  NotedUdp handler;
  Udp first = bound(handler);
  auto second = Udp::bind(loop(), "127.0.0.1", first.port(), handler);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, TMESH_E_REFUSED);
  auto foreign = Udp::bind(loop(), "192.0.2.1", 0, handler);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, TMESH_E_INVALID);
  EXPECT_FALSE(Udp::bind(loop(), "example.test", 0, handler));
}

// Whoever shared it would get the datagrams.
TEST_F(UdpTest, APortIsSharedWithNobodyWhateverTheyAskFor) {
  NotedUdp handler;
  Udp udp = bound(handler);
  for (const int option : {SO_REUSEADDR, SO_REUSEPORT}) {
    const int other = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ASSERT_EQ(::setsockopt(other, SOL_SOCKET, option, &on, sizeof on), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(udp.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(other, reinterpret_cast<sockaddr*>(&address), sizeof address), -1);
    EXPECT_EQ(errno, EADDRINUSE);
    ::close(other);
  }
}

TEST_F(UdpTest, OfWhatTheKernelDoesNotTakeOneIsKeptAndTheRestNotTaken) {
  NarrowPair narrow;
  NotedUdp handler;
  auto udp = Udp::adopt(loop(), narrow.fds[0], handler);
  ASSERT_TRUE(udp);
  std::vector<std::string> sent;
  const auto send_next = [&] { return udp->send(bytes_of("datagram " + std::to_string(sent.size()))); };
  tmesh_status st = tmesh_ok();
  while (tmesh_is_ok(st = send_next())) sent.push_back("datagram " + std::to_string(sent.size()));
  EXPECT_EQ(st.code, TMESH_E_AGAIN);
  EXPECT_EQ(send_next().code, TMESH_E_AGAIN);
  std::vector<std::string> got = narrow.read();
  EXPECT_EQ(got.size() + 1, sent.size());
  EXPECT_EQ(handler.writable_count, 0u);
  ASSERT_TRUE(run_until([&] { return handler.writable_count > 0; }));
  EXPECT_EQ(send_next().code, TMESH_OK);
  sent.push_back("datagram " + std::to_string(sent.size()));
  for (const std::string& one : narrow.read()) got.push_back(one);
  EXPECT_EQ(got, sent);
}

TEST_F(UdpTest, EveryAddressIncludesIPv4AndItsRepliesGoBack) {
  NotedUdp a_side;
  NotedUdp b_side;
  Udp a = bound(a_side, "*");
  Udp b = connected(b_side, a.port());
  ASSERT_EQ(b.send(bytes_of("to")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return !a_side.received.empty(); }));
  ASSERT_EQ(a.send_to(a_side.received[0].from, bytes_of("fro")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return !b_side.received.empty(); }));
  EXPECT_EQ(b_side.received[0].data, "fro");
}

TEST_F(UdpTest, AHandlerMayDestroyItInACallback) {
  NotedUdp a_side;
  NotedUdp b_side;
  Udp a = bound(a_side);
  Udp b = connected(b_side, a.port());
  a_side.destroyed_by_datagram = &a;
  ASSERT_EQ(b.send(bytes_of("1")).code, TMESH_OK);
  ASSERT_EQ(b.send(bytes_of("2")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return !a_side.received.empty(); }));
  EXPECT_FALSE(a);
  b_side.destroyed_by_error = &b;
  (void)run_until([&] { return !static_cast<bool>(b); }, 50'000);
  if (b) {
    (void)b.send(bytes_of("3"));
    ASSERT_TRUE(run_until([&] { return !static_cast<bool>(b); }));
  }
  EXPECT_EQ(a_side.received.size(), 1u);
}

TEST_F(UdpTest, ADialMakesAConnectedSocketThatPolicyHasSeen) {
  auto dialer = Dialer::create(loop());
  ASSERT_TRUE(dialer);
  NotedUdp there;
  Udp target = bound(there);
  struct Outcome {
    void done(DialResult r) {
      result = r;
      is_done = true;
    }
    bool permits(const IpAddress& address, bool is_name) {
      asked_count++;
      return is_loopback(address) && !is_name && may;
    }
    DialResult result;
    bool is_done = false;
    bool may = true;
    unsigned asked_count = 0;
  } outcome;
  DialRequest request;
  request.host = "127.0.0.1";
  request.port = target.port();
  request.is_datagram = true;
  request.timeout_us = 5'000'000;
  request.filter = Delegate<bool(const IpAddress&, bool)>::bind<&Outcome::permits>(&outcome);
  auto ticket = (*dialer)->dial(request, Delegate<void(DialResult)>::bind<&Outcome::done>(&outcome));
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(run_until([&] { return outcome.is_done; }));
  ASSERT_EQ(outcome.result.status.code, TMESH_OK);
  EXPECT_EQ(outcome.asked_count, 1u);
  NotedUdp handler;
  auto udp = Udp::adopt(loop(), outcome.result.fd, handler);
  ASSERT_TRUE(udp);
  ASSERT_EQ(udp->send(bytes_of("hello")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return !there.received.empty(); }));

  outcome.is_done = false;
  outcome.may = false;
  ticket = (*dialer)->dial(request, Delegate<void(DialResult)>::bind<&Outcome::done>(&outcome));
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(run_until([&] { return outcome.is_done; }));
  EXPECT_EQ(outcome.result.status.code, TMESH_E_POLICY);
}

}  // namespace
}  // namespace tmesh::net
