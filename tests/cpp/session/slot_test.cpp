// Reconnector and Slot: a place that is kept connected, on a clock that jumps.
#include "cpp/session/slot.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::session {
namespace {

using test::FakeServer;
using test::Peer;

constexpr uint32_t kAll = TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL;
constexpr uint64_t kMinute_us = 60'000'000;

struct Role : SlotRole {
  tmesh_mux_config mux_config(tmesh_subprotocol subprotocol) override {
    return test::mux_config(is_opener, tmesh_subprotocol_is_strict(subprotocol),
                            tmesh_subprotocol_has_windows(subprotocol));
  }
  void on_session(Session& s, tmesh_subprotocol subprotocol) override {
    made.push_back(&s);
    subprotocols.push_back(subprotocol);
    over_count[&s] = 0;  // an address may come again
  }
  void on_session_over(Session& s) override {
    EXPECT_EQ(over_count.count(&s), 1u);
    EXPECT_EQ(++over_count[&s], 1) << "once per session";
    overs_count++;
  }
  void on_open(Session&, tmesh_stream* stream, const tmesh_open_stream&) override {
    tmesh_stream_reset(stream);
    tmesh_stream_release(stream);
  }
  tmesh_status on_control(Session&, const tmesh_frame_header& header, std::span<const uint8_t>) override {
    controls_count += header.type != 0;
    return tmesh_ok();
  }

  bool is_opener = true;
  std::vector<Session*> made;
  std::vector<tmesh_subprotocol> subprotocols;
  std::map<Session*, int> over_count;
  std::size_t overs_count = 0;
  std::size_t controls_count = 0;
};

class SlotTest : public net::LoopTest {
 protected:
  SlotTest() : server(loop()), dialer(loop(), server.port()) {
    endpoint.url = {false, "localhost", server.port(), "/ws/client"};
    endpoint.token = &token;
  }
  void make(bool has_offer = true) {
    role.is_opener = has_offer;
    slot.emplace(loop(), timers, dialer, endpoint, has_offer, kAll, 1, role);
  }
  void start(bool has_offer = true) {
    make(has_offer);
    slot->start();
    timers.advance(0);
  }
  // The n-th request from 0 arrives.
  void request(std::size_t n) {
    ASSERT_TRUE(run_until([&] { return server.has_request(n); })) << "request " << n;
    ASSERT_EQ(server.count(), n + 1);
  }
  // ... and is answered; then the session is there.
  void up(std::size_t n, tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_METADATA) {
    request(n);
    const std::size_t sessions = role.made.size();
    server.peer(n).upgrade(subprotocol);
    ASSERT_TRUE(run_until([&] { return role.made.size() == sessions + 1; }));
    EXPECT_EQ(slot->ready(), role.made.back());
  }
  // The n-th request is refused with this status, and the Connector has noticed.
  void refuse(std::size_t n, int status) {
    request(n);
    server.peer(n).reply("HTTP/1.1 " + std::to_string(status) + " No\r\nContent-Length: 0\r\n\r\n");
    ASSERT_TRUE(run_until([&] { return server.peer(n).is_eof || server.peer(n).down.has_value(); }));
  }
  void down(std::size_t n) {
    server.peers[n]->link = {};
    ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  }
  // No dial begins in this time, nor when the loop had every chance.
  void expect_quiet(uint64_t us = 0) {
    const std::size_t before = dialer.count;
    timers.advance(us);
    EXPECT_FALSE(run_until([&] { return dialer.count != before; }, 10'000));
  }
  // Jumps to the next attempt; how long that was (in steps of 10 ms).
  uint64_t wait_us() {
    const std::size_t before = dialer.count;
    uint64_t waited_us = 0;
    for (; dialer.count == before && waited_us < kMinute_us; waited_us += 10'000) timers.advance(10'000);
    EXPECT_EQ(dialer.count, before + 1);
    return waited_us;
  }
  bool offers(std::size_t n) { return !server.peer(n).header("Sec-WebSocket-Protocol").empty(); }
  tmesh_stream* open_stream(Session& session) {
    tmesh_open_stream open{};
    open.protocol = TMESH_OPEN_TCP;
    open.target_host[0] = 'h';
    open.target_port = 80;
    tmesh_open_params params{&open, false, 0};
    tmesh_status why{};
    tmesh_stream* const stream = tmesh_mux_open(session.mux(), &params, &why);
    EXPECT_NE(stream, nullptr);
    tmesh_stream_attach(stream, this, [](void* self, tmesh_stream* s, unsigned events) {
      if ((events & TMESH_STREAM_EV_OVER) == 0) return;
      static_cast<SlotTest*>(self)->streams_over_count++;
      tmesh_stream_release(s);
    });
    return stream;
  }

  test::FakeTimers timers;
  Secret token{"t"};
  FakeServer server;
  test::LoopbackDialer dialer;
  ServerEndpoint endpoint;
  Role role;
  std::optional<Slot> slot;
  std::size_t streams_over_count = 0;
};

TEST_F(SlotTest, ConnectsAtOnceAndTellsTheRole) {
  make();
  EXPECT_EQ(slot->ready(), nullptr);
  slot->start();
  EXPECT_EQ(dialer.count, 0u) << "never from inside start()";
  timers.advance(0);
  up(0);
  EXPECT_EQ(role.subprotocols.back(), TMESH_SUBPROTOCOL_METADATA);
  EXPECT_TRUE(offers(0));
  EXPECT_EQ(slot->number(), 1u);
  expect_quiet(60 * kMinute_us);
  slot.reset();
  EXPECT_EQ(role.overs_count, 1u);
  ASSERT_TRUE(run_until([&] { return server.last().down.has_value(); }));
}

TEST_F(SlotTest, AnAgentNeverOffers) {
  start(false);
  request(0);
  EXPECT_FALSE(offers(0));
  refuse(0, 400);
  expect_quiet(0);  // nothing to retry without
  timers.advance(1'000'000);
  request(1);
  EXPECT_FALSE(offers(1));
}

TEST_F(SlotTest, A400Or403IsRetriedOnceAtOnceWithoutAnOffer) {
  for (const int status : {400, 403}) {
    const std::size_t n = server.count();
    start();
    refuse(n, status);
    EXPECT_TRUE(offers(n));
    timers.advance(0);
    refuse(n + 1, status);
    EXPECT_FALSE(offers(n + 1)) << "the one retry";
    expect_quiet(0);  // no second one
    timers.advance(1'000'000);
    refuse(n + 2, status);
    EXPECT_TRUE(offers(n + 2)) << "the next attempt offers all again";
    timers.advance(0);
    request(n + 3);
    EXPECT_FALSE(offers(n + 3)) << "and has its own retry";
    slot.reset();
  }
}

TEST_F(SlotTest, NothingElseIsAReasonToDowngrade) {
  for (const int status : {200, 401, 404, 426, 429, 500, 502, 503}) {
    const std::size_t n = server.count();
    start();
    refuse(n, status);
    expect_quiet(0);
    timers.advance(1'000'000);
    request(n + 1);
    EXPECT_TRUE(offers(n + 1)) << status;
    slot.reset();
  }
}

TEST_F(SlotTest, ANetworkErrorIsNoReasonToDowngrade) {
  start();
  request(0);
  server.peers[0]->transport = {};
  expect_quiet();
  timers.advance(1'000'000);
  request(1);
  EXPECT_TRUE(offers(1));
}

TEST_F(SlotTest, ALegacyLinkOffersAgainAtTheNextReconnect) {
  start();
  refuse(0, 400);
  timers.advance(0);
  up(1, TMESH_SUBPROTOCOL_NONE);
  EXPECT_EQ(role.subprotocols.back(), TMESH_SUBPROTOCOL_NONE);
  down(1);
  timers.advance(1'000'000);
  request(2);
  EXPECT_TRUE(offers(2));
}

TEST_F(SlotTest, FailuresBackOffAndNeverGiveUp) {
  dialer.result = test::FakeDialer::failed(TMESH_E_REFUSED);
  start();
  for (int i = 0; i < 40; i++) {
    ASSERT_FALSE(run_until([] { return false; }, 300));  // the failure is delivered
    ASSERT_EQ(timers.count(), 1u) << "one attempt waits, and no timeout of an old one";
    const uint64_t waited_us = wait_us();
    EXPECT_GE(waited_us, i < 5 ? 100'000u : 1'600'000u);
    EXPECT_LE(waited_us, i < 5 ? 1'010'000u : 36'010'000u);
    EXPECT_GE(waited_us, i > 10 ? 24'000'000u : 0u);
  }
}

TEST_F(SlotTest, ALinkThatEndsIsReplacedAfterAWait) {
  start();
  up(0);
  down(0);
  EXPECT_EQ(role.overs_count, 1u);
  expect_quiet(99'999);
  timers.advance(900'001);
  up(1);
  EXPECT_EQ(role.made.size(), 2u);
  EXPECT_EQ(role.overs_count, 1u);
}

TEST_F(SlotTest, AGoodLinkResetsTheBackoff) {
  start();
  for (std::size_t n = 0; n < 8; n++) {  // short links: the waits grow
    up(n);
    down(n);
    EXPECT_GE(wait_us(), n < 5 ? 100'000u : 1'600'000u);
  }
  up(8);
  timers.advance(kMinute_us);
  down(8);
  EXPECT_LE(wait_us(), 1'010'000u);
}

TEST_F(SlotTest, AnIdleGoawayPutsTheSessionAsideAndASuccessorComesAtOnce) {
  start();
  up(0);
  timers.advance(kMinute_us);
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  EXPECT_EQ(role.overs_count, 0u) << "it drains";
  timers.advance(0);
  up(1);
  timers.advance(1'000'000);
  EXPECT_EQ(role.overs_count, 1u) << "nothing was left to drain";
  EXPECT_EQ(role.over_count[role.made[0]], 1);
  ASSERT_TRUE(run_until([&] { return server.peer(0).down.has_value(); }));
  EXPECT_EQ(slot->ready(), role.made[1]);
}

TEST_F(SlotTest, ADrainingSessionLivesUntilItsLastStreamIsReleased) {
  start();
  up(0);
  timers.advance(kMinute_us);
  tmesh_stream* const stream = open_stream(*role.made[0]);
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.size() == 1; }));
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  timers.advance(0);
  up(1);
  timers.advance(10 * kMinute_us);
  EXPECT_EQ(role.overs_count, 0u);
  EXPECT_EQ(streams_over_count, 0u);
  tmesh_stream_release(stream);
  // The RESET has to leave first.
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.front().over.has_value(); }));
  timers.advance(1'000'000);
  EXPECT_EQ(role.overs_count, 1u);
  EXPECT_EQ(timers.count(), 0u) << "the sweep has ended too";
}

TEST_F(SlotTest, AStreamThatIsOverKeepsADrainingSessionUntilItIsReleased) {
  // Its last bytes may still be on their way to the other end of its splice.
  start();
  up(0);
  timers.advance(kMinute_us);
  tmesh_stream* const stream = open_stream(*role.made[0]);
  tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream*, unsigned) {});
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.size() == 1; }));
  server.peer(0).streams.front().release();
  ASSERT_TRUE(run_until([&] { return stream->state == TMESH_STREAM_RESET; }));
  slot->rotate("test");
  timers.advance(0);
  up(1);
  timers.advance(kMinute_us);
  EXPECT_EQ(role.made[0]->live_streams_count(), 0u);
  EXPECT_EQ(role.overs_count, 0u);
  tmesh_stream_release(stream);
  timers.advance(1'000'000);
  EXPECT_EQ(role.overs_count, 1u);
}

TEST_F(SlotTest, ADrainingSessionThatGoesDownIsOverOnce) {
  start();
  up(0);
  timers.advance(kMinute_us);
  open_stream(*role.made[0]);
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  timers.advance(0);
  up(1);
  server.peers[0]->link = {};
  server.peers[0]->streams.clear();
  ASSERT_TRUE(run_until([&] { return role.overs_count == 1; }));
  EXPECT_EQ(streams_over_count, 1u);
  expect_quiet(kMinute_us);
  EXPECT_EQ(slot->ready(), role.made[1]) << "the current one is not touched";
}

TEST_F(SlotTest, AServerThatSendsEverybodyAwayIsNotCalledInACircle) {
  start();
  for (std::size_t n = 0; n < 7; n++) {
    up(n);
    server.peer(n).control(TMESH_FRAME_GOAWAY);
    ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
    EXPECT_GE(wait_us(), n < 5 ? 100'000u : 1'600'000u);
  }
}

TEST_F(SlotTest, AClientSendsNoGoaway) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  up(1);
  slot->drain();
  ASSERT_FALSE(run_until([] { return false; }, 10'000));
  EXPECT_EQ(server.peer(0).goaways_count + server.peer(1).goaways_count, 0u);
}

TEST_F(SlotTest, AnAgentTellsTheServerToOpenNoMore) {
  start(false);
  up(0, TMESH_SUBPROTOCOL_NONE);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  up(1, TMESH_SUBPROTOCOL_NONE);
  slot->drain();
  ASSERT_TRUE(
      run_until([&] { return server.peer(0).goaways_count == 1 && server.peer(1).goaways_count == 1; }));
}

TEST_F(SlotTest, RotationKeepsTheOldSessionUntilTheNewOneIsThere) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  slot->rotate("test");
  EXPECT_EQ(slot->ready(), role.made[0]);
  timers.advance(0);
  request(1);
  EXPECT_EQ(slot->ready(), role.made[0]) << "it goes on taking streams";
  slot->rotate("test");
  expect_quiet(0);
  up(1);
  EXPECT_EQ(slot->ready(), role.made[1]);
  slot->rotate("test");  // and it can happen again
  timers.advance(1'000'000);
  request(2);
}

TEST_F(SlotTest, ARotationThatFailsGoesOnWithTheBackoff) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  refuse(1, 503);
  for (int i = 0; i < 100; i++) slot->rotate("test");  // every open asks again
  expect_quiet(0);
  EXPECT_EQ(slot->ready(), role.made[0]);
  timers.advance(1'000'000);
  up(2);
  EXPECT_EQ(role.overs_count, 0u);
  timers.advance(1'000'000);
  EXPECT_EQ(role.overs_count, 1u);
}

TEST_F(SlotTest, ALinkThatEndsDuringARotationIsNotDialledTwice) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  request(1);
  down(0);
  expect_quiet(0);
  up(1);
  expect_quiet(kMinute_us);
  EXPECT_EQ(role.overs_count, 1u);
}

TEST_F(SlotTest, AGoawayDuringARotationIsNotDialledTwice) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  request(1);
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  expect_quiet(0);
  up(1);
}

TEST_F(SlotTest, ALinkWithoutASubprotocolIsRenegotiatedAfter5Minutes) {
  start();
  up(0, TMESH_SUBPROTOCOL_NONE);
  expect_quiet(5 * kMinute_us - 1);
  timers.advance(1);
  EXPECT_EQ(slot->ready(), role.made[0]);
  request(1);
  EXPECT_TRUE(offers(1));
  up(1, TMESH_SUBPROTOCOL_METADATA);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, RenegotiationGoesOnWhileTheServerStaysLegacy) {
  start();
  up(0, TMESH_SUBPROTOCOL_NONE);
  for (std::size_t n = 1; n < 4; n++) {
    timers.advance(5 * kMinute_us);
    up(n, TMESH_SUBPROTOCOL_NONE);
  }
}

TEST_F(SlotTest, ASelectedV1IsNotRenegotiated) {
  start();
  up(0, TMESH_SUBPROTOCOL_V1);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, AnAgentsLinkIsNotRenegotiated) {
  start(false);
  up(0, TMESH_SUBPROTOCOL_NONE);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, TheRenegotiationOfADeadLinkIsForgotten) {
  start();
  up(0, TMESH_SUBPROTOCOL_NONE);
  timers.advance(4 * kMinute_us);
  down(0);
  timers.advance(1'000'000);
  up(1);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, DrainStopsReconnectingAndKeepsStreams) {
  start();
  up(0);
  open_stream(*role.made[0]);
  slot->drain();
  EXPECT_EQ(slot->ready(), nullptr);
  slot->rotate("test");
  expect_quiet(60 * kMinute_us);
  EXPECT_EQ(streams_over_count, 0u);
  server.peers[0]->streams.clear();
  server.peers[0]->link = {};
  ASSERT_TRUE(run_until([&] { return role.overs_count == 1; }));
  EXPECT_EQ(streams_over_count, 1u);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, AGoawayWhileDrainingDoesNotReconnect) {
  start();
  up(0);
  slot->drain();
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  server.peer(0).control(TMESH_FRAME_CLIENT_METADATA_ACK);
  ASSERT_TRUE(run_until([&] { return role.controls_count == 1; }));
  expect_quiet(kMinute_us);
}

TEST_F(SlotTest, DrainCancelsTheAttemptUnderWay) {
  start();
  request(0);
  slot->drain();
  ASSERT_TRUE(run_until([&] { return server.last().is_eof || server.last().down.has_value(); }));
  EXPECT_EQ(timers.count(), 0u);
  slot->drain();
}

TEST_F(SlotTest, DestroyingItEndsEverySessionAndAttempt) {
  start();
  up(0);
  timers.advance(kMinute_us);
  open_stream(*role.made[0]);
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  timers.advance(0);
  up(1);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  request(2);
  slot.reset();
  EXPECT_EQ(role.overs_count, 2u);
  EXPECT_EQ(timers.count(), 0u);
  ASSERT_TRUE(run_until([&] { return streams_over_count == 1; }));
}

TEST_F(SlotTest, EarlyFramesBehindThe101ReachTheRoleAfterOnSession) {
  start();
  request(0);
  // The server's first frame, in the same segment as its 101: an acknowledgement.
  std::string frame("\x82\x10", 2);
  frame.resize(18);
  tmesh_frame_header header{};
  header.type = TMESH_FRAME_CLIENT_METADATA_ACK;
  ASSERT_TRUE(tmesh_is_ok(tmesh_frame_header_encode(reinterpret_cast<uint8_t*>(frame.data()) + 2, &header)));
  server.last().reply(server.last().switching("tunnelmesh.v1") + frame);
  ASSERT_TRUE(run_until([&] { return role.controls_count == 1; }));
  EXPECT_EQ(role.made.size(), 1u);
}

}  // namespace
}  // namespace tmesh::session
