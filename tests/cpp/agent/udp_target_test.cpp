#include "cpp/agent/udp_target.hpp"

#include <optional>
#include <string>

#include "core/mux/datagram.h"
#include "tests/cpp/agent/target_fixture.hpp"
#include "tests/cpp/net/noted_udp.hpp"

namespace tmesh::agent {
namespace {

using net::bytes_of;
using net::pattern;

struct UdpTargetTest : TargetStreamTest {
  UdpTargetTest() { there = std::move(*net::Udp::bind(loop(), "127.0.0.1", 0, target)); }
  // While the socket that it may name still lives.
  ~UdpTargetTest() override { targets.clear(); }

  // A stream whose dial succeeded.
  void open(test::PlainStream& stream, bool is_strict = false) {
    auto request = test::open_request("dns", 53);
    request.protocol = TMESH_OPEN_UDP;
    stream.takes = false;
    ASSERT_TRUE(stream.open(&pair.opener.mux, request, is_strict));
    pump();
    ASSERT_EQ(dialer.running().size(), 1u);
    EXPECT_TRUE(dialer.running()[0].request.is_datagram);
    dialer.end("dns", test::FakeDialer::connected(net::connected_udp(there.port())));
    pump();
  }
  static void send(test::PlainStream& stream, const std::string& data) {
    ASSERT_TRUE(tmesh_is_ok(tmesh_stream_send_datagram(stream.stream, data.data(), data.size())));
  }
  // The next datagram that came back on the stream.
  static std::optional<std::string> take(test::PlainStream& stream) {
    std::string out(TMESH_DATAGRAM_MAX_BYTES, '\0');
    std::size_t len = 0;
    if (!tmesh_stream_peek_datagram(stream.stream, out.data(), out.size(), &len)) return std::nullopt;
    tmesh_stream_take_datagram(stream.stream);
    out.resize(len);
    return out;
  }

  net::NotedUdp target;
  net::Udp there;
};

TEST_F(UdpTargetTest, BoundariesAreKeptBothWays) {
  test::PlainStream stream;
  open(stream);
  for (const std::size_t n : {0u, 1u, 1400u, 65'507u, 3u}) {
    SCOPED_TRACE(n);
    send(stream, pattern(n));
    ASSERT_TRUE(until([&] { return !target.received.empty(); }));
    EXPECT_EQ(target.received[0].data, pattern(n));
    ASSERT_EQ(there.send_to(target.received[0].from, bytes_of(pattern(n))).code, TMESH_OK);
    std::optional<std::string> back;
    ASSERT_TRUE(until([&] { return (back = take(stream)).has_value(); }));
    EXPECT_EQ(*back, pattern(n));
    target.received.clear();
  }
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_OPEN_RESULT), 0u);
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_WINDOW_UPDATE), 0u);
}

TEST_F(UdpTargetTest, DatagramsThatCameDuringTheDialAreSent) {
  test::PlainStream stream;
  auto request = test::open_request("dns", 53);
  request.protocol = TMESH_OPEN_UDP;
  ASSERT_TRUE(stream.open(&pair.opener.mux, request, false));
  send(stream, "first");
  send(stream, "");
  send(stream, "third");
  pump();
  dialer.end("dns", test::FakeDialer::connected(net::connected_udp(there.port())));
  ASSERT_TRUE(until([&] { return target.received.size() == 3; }));
  EXPECT_EQ(target.received[0].data, "first");
  EXPECT_EQ(target.received[1].data, "");
  EXPECT_EQ(target.received[2].data, "third");
}

TEST_F(UdpTargetTest, ARefusedDialResetsALegacyOpenAndAnswersAStrictOne) {
  for (const bool is_strict : {false, true}) {
    test::PlainStream stream;
    auto request = test::open_request("dns", 53);
    request.protocol = TMESH_OPEN_UDP;
    ASSERT_TRUE(stream.open(&pair.opener.mux, request, is_strict));
    pump();
    dialer.end("dns", test::FakeDialer::failed(TMESH_E_POLICY));
    pump();
    EXPECT_EQ(stream.has_result, is_strict);
    EXPECT_TRUE(is_strict ? stream.result.code == TMESH_OPEN_FORBIDDEN : stream.is_over);
  }
  EXPECT_EQ(overs, 2);
}

TEST_F(UdpTargetTest, ATargetThatIsNotThereEndsNothing) {
  test::PlainStream stream;
  open(stream);
  const uint16_t port = there.port();
  there = net::Udp{};
  for (uint64_t refused = 1; refused <= 3; refused++) {
    send(stream, "lost");  // the refusal comes back through the kernel
    ASSERT_TRUE(until([&] { return datagrams_dropped_count == refused; })) << datagrams_dropped_count;
  }
  // Of two at once the first one's refusal is usually what the send of the second one says.
  send(stream, "lost");
  send(stream, "unsent");
  ASSERT_TRUE(until([&] { return datagrams_dropped_count > 3; }));
  EXPECT_EQ(overs, 0);
  EXPECT_FALSE(stream.is_over);
  there = std::move(*net::Udp::bind(loop(), "127.0.0.1", port, target));
  // The first one may be answered with the refusal of one before.
  ASSERT_TRUE(until([&] {
    send(stream, "there");
    return !target.received.empty();
  }));
}

TEST_F(UdpTargetTest, TheOpenersEndClosesItAfterTheLastDatagram) {
  test::PlainStream stream;
  open(stream);
  send(stream, "a");
  send(stream, "b");
  stream.finish();
  ASSERT_TRUE(until([&] { return overs == 1; }));
  ASSERT_TRUE(until([&] { return target.received.size() == 2; }));
  EXPECT_FALSE(stream.is_over) << "both directions ended regularly, nobody was reset";
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_HALF_CLOSE), 1u);
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_RESET), 0u);
}

TEST_F(UdpTargetTest, AResetClosesItAtOnce) {
  test::PlainStream stream;
  open(stream);
  stream.reset();
  pump();
  EXPECT_EQ(overs, 1);
  EXPECT_TRUE(targets.empty());
}

TEST_F(UdpTargetTest, SilenceEndsItAndADatagramEitherWayKeepsIt) {
  test::PlainStream stream;
  open(stream);
  timers.advance(UdpTarget::kIdle_us - 1);
  send(stream, "out");
  ASSERT_TRUE(until([&] { return !target.received.empty(); }));
  timers.advance(UdpTarget::kIdle_us - 1);
  ASSERT_EQ(there.send_to(target.received[0].from, bytes_of("in")).code, TMESH_OK);
  ASSERT_TRUE(until([&] { return take(stream).has_value(); }));
  timers.advance(UdpTarget::kIdle_us - 1);
  pump();
  EXPECT_EQ(overs, 0);
  timers.advance(1);
  pump();
  EXPECT_EQ(overs, 1);
  EXPECT_TRUE(stream.is_over);
}

TEST_F(UdpTargetTest, WhatTheStreamHasNoRoomForIsDroppedAndCounted) {
  test::PlainStream stream;
  open(stream);
  send(stream, "hello");
  ASSERT_TRUE(until([&] { return !target.received.empty(); }));
  pair.is_held[1] = true;  // nothing leaves the agent's link
  const std::string big = pattern(60'000);
  uint64_t dropped = 0;
  EXPECT_EQ(datagrams_dropped_count, 0u);
  for (int i = 0; i < 40 && dropped == 0; i++) {
    (void)there.send_to(target.received[0].from, bytes_of(big));
    (void)run_until([] { return false; }, 2'000);
    dropped = pair.acceptor.mux.stats.datagrams_dropped_count;
  }
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(datagrams_dropped_count, dropped);
  pair.is_held[1] = false;
  ASSERT_TRUE(until([&] {
    while (take(stream)) {
    }
    return pair.acceptor.mux.writer.ring.next == &pair.acceptor.mux.writer.round;
  }));
  ASSERT_EQ(there.send_to(target.received[0].from, bytes_of("after")).code, TMESH_OK);
  std::optional<std::string> back;
  ASSERT_TRUE(until([&] {
    for (auto next = take(stream); next; next = take(stream)) back = next;
    return back == "after";
  }));
}

TEST_F(UdpTargetTest, WhatTheKernelDoesNotTakeYetWaitsInTheStream) {
  net::NarrowPair narrow;
  test::PlainStream stream;
  auto request = test::open_request("dns", 53);
  request.protocol = TMESH_OPEN_UDP;
  ASSERT_TRUE(stream.open(&pair.opener.mux, request, false));
  pump();
  dialer.end("dns", test::FakeDialer::connected(narrow.fds[0]));
  std::vector<std::string> sent;
  for (unsigned i = 0; i < 200; i++) {
    sent.push_back("datagram " + std::to_string(i));
    send(stream, sent.back());
  }
  pump();
  std::vector<std::string> got = narrow.read();
  EXPECT_LT(got.size(), sent.size());
  ASSERT_TRUE(until([&] {
    for (const std::string& one : narrow.read()) got.push_back(one);
    return got.size() == sent.size();
  }));
  EXPECT_EQ(got, sent);
}

TEST_F(UdpTargetTest, ManyWaitingDatagramsTakeSeveralTurns) {
  test::PlainStream stream;
  auto request = test::open_request("dns", 53);
  request.protocol = TMESH_OPEN_UDP;
  ASSERT_TRUE(stream.open(&pair.opener.mux, request, false));
  for (std::size_t i = 0; i < 2 * UdpTarget::kTurnMax; i++) send(stream, "");
  while (pair.step()) {
  }
  dialer.end("dns", test::FakeDialer::connected(net::connected_udp(there.port())));
  // One turn, and the clock has not moved.
  ASSERT_TRUE(run_until([&] { return target.received.size() == UdpTarget::kTurnMax; }));
  ASSERT_TRUE(until([&] { return target.received.size() == 2 * UdpTarget::kTurnMax; }));
}

}  // namespace
}  // namespace tmesh::agent
