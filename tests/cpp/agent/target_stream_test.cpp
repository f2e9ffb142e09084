#include "cpp/agent/target_stream.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/cpp/agent/target_fixture.hpp"

namespace tmesh::agent {
namespace {

TEST_F(TargetStreamTest, TheTargetIsInstalledBeforeTheAnswer) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1)));
  pump();
  EXPECT_FALSE(stream.has_result) << "nothing is faked";
  net::RawClient& target = connect("db");
  // The answer is queued now and nothing of it was pulled: the target is already there.
  target.send("greeting");
  ASSERT_TRUE(until([&] { return stream.received == "greeting"; }));
  EXPECT_TRUE(stream.result.accepted);
  std::vector<unsigned> types;
  for (const auto& f : pair.acceptor.sent) types.push_back(f.header.type);
  EXPECT_EQ(types, (std::vector<unsigned>{TMESH_FRAME_OPEN_RESULT, TMESH_FRAME_DATA}));
  stream.write("question");
  ASSERT_TRUE(until([&] { return target.pump().received == "question"; }));
}

TEST_F(TargetStreamTest, HalfCloseGoesEachWayAndThenItIsOver) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1)));
  pump();
  net::RawClient& target = connect("db");
  pump();
  stream.write("all");
  stream.finish();
  ASSERT_TRUE(until([&] { return target.pump().is_eof; }));
  EXPECT_EQ(target.received, "all");
  EXPECT_EQ(overs, 0);
  target.send("late");
  target.finish();
  ASSERT_TRUE(until([&] { return stream.is_eof && overs == 1; }));
  EXPECT_EQ(stream.received, "late");
  EXPECT_FALSE(stream.is_over);
}

TEST_F(TargetStreamTest, ARefusalOfTheDialIsPassedOn) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1)));
  pump();
  dialer.end("db", FakeDialer::failed(TMESH_E_REFUSED));
  pump();
  expect_refused(stream, TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED);
  EXPECT_EQ(overs, 1);
  EXPECT_TRUE(targets.empty());
}

TEST_F(TargetStreamTest, ALegacyOpenThatFailsIsReset) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1), false));
  pump();
  dialer.end("db", FakeDialer::failed(TMESH_E_DNS, true));
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_OPEN_RESULT), 0u);
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_RESET), 1u);
}

// Requirement E6: what the agent's pool decides by.
TEST_F(TargetStreamTest, ItsMomentsAreSamplesForThePool) {
  PlainStream streams[3];
  for (const char* host : {"a", "b", "c"}) {
    ASSERT_TRUE(streams[host[0] - 'a'].open(mux(), test::open_request(host, 1)));
  }
  pump();
  ASSERT_EQ(executor->pending_count(), 1u);
  timers.advance(10'000);
  net::RawClient& target = connect("a");
  pump();
  EXPECT_EQ(executor->pending_count(), 0u) << "the third one waited until now";
  timers.advance(20'000);
  target.send("x");
  ASSERT_FALSE(tmesh_mux_has_output(&pair.acceptor.mux));
  ASSERT_TRUE(run_until([&] { return tmesh_mux_has_output(&pair.acceptor.mux); })) << "read, and not sent";
  timers.advance(30'000);
  pump();
  for (const char* host : {"b", "c"}) {
    dialer.end(host, FakeDialer::failed(TMESH_E_REFUSED));
    pump();
  }
  const LoadSamples::Taken taken = samples.take();
  EXPECT_EQ(taken.open_p95_us, 10'000u);
  EXPECT_EQ(taken.dial_wait_us, 10'000u);
  EXPECT_EQ(taken.ttfb_p95_us, 30'000u);
  EXPECT_EQ(taken.writer_wait_p95_us, 30'000u);
  EXPECT_EQ(taken.error_rate_percent, 66u);
}

TEST_F(TargetStreamTest, AResetCancelsTheDial) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1)));
  pump();
  ASSERT_EQ(dialer.running().size(), 1u);
  stream.reset();
  pump();
  EXPECT_EQ(dialer.cancelled_count(), 1u);
  EXPECT_EQ(executor->running_count(), 0u);
  EXPECT_EQ(overs, 1);
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_RESET), 0u);
}

TEST_F(TargetStreamTest, AResetWhileWaitingLeavesTheQueue) {
  PlainStream streams[3];
  for (PlainStream& s : streams) ASSERT_TRUE(s.open(mux(), test::open_request("db", 1)));
  pump();
  ASSERT_EQ(executor->pending_count(), 1u);
  streams[2].reset();
  pump();
  EXPECT_EQ(executor->pending_count(), 0u);
  EXPECT_EQ(overs, 1);
}

TEST_F(TargetStreamTest, AFullDialQueueIsQueueFullAtOnce) {
  PlainStream streams[5];
  for (PlainStream& s : streams) ASSERT_TRUE(s.open(mux(), test::open_request("db", 1)));
  pump();
  expect_refused(streams[4], TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL);
  EXPECT_TRUE(streams[4].result.retryable);
  EXPECT_FALSE(streams[3].has_result);
  EXPECT_EQ(targets.size(), 4u);
}

TEST_F(TargetStreamTest, WhatItCannotDialIsUnsupported) {
  auto https = test::open_request("web", 443);
  https.protocol = TMESH_OPEN_HTTP;
  https.is_target_https = true;
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), https));
  pump();
  expect_refused(stream, TMESH_STAGE_PROTOCOL, TMESH_OPEN_UNSUPPORTED_CAPABILITY);
  EXPECT_FALSE(stream.result.retryable);

  // Protocols that have no number here come as text only.
  for (const char* protocol : {"icmp-echo", "ws"}) {
    SCOPED_TRACE(protocol);
    const std::string json =
        std::string(R"({"protocol":")") + protocol + R"(","target_host":"a","target_port":1})";
    tmesh_frame_header header{};
    header.type = TMESH_FRAME_OPEN_STREAM;
    header.flags = TMESH_FLAG_STRICT_OPEN;
    header.stream_id = 1000 + static_cast<uint32_t>(pair.acceptor.sent.size());
    header.length_bytes = static_cast<uint32_t>(json.size());
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(&pair.acceptor.mux, &header)));
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_payload(
        &pair.acceptor.mux, reinterpret_cast<const uint8_t*>(json.data()), json.size())));
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(&pair.acceptor.mux)));
    pump();
    const auto results = pair.acceptor.sent_of(TMESH_FRAME_OPEN_RESULT, header.stream_id);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(
        results[0].payload,
        R"({"accepted":false,"stage":"protocol","code":"unsupported_capability","retryable":false,"retry_after_ms":0})");
  }
  EXPECT_TRUE(dialer.started().empty());
  EXPECT_TRUE(targets.empty());
}

TEST_F(TargetStreamTest, PlainHttpIsATcpStream) {
  auto http = test::open_request("web", 80);
  http.protocol = TMESH_OPEN_HTTP;
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), http));
  pump();
  EXPECT_EQ(dialer.started(), std::vector<std::string>{"web"});
}

TEST_F(TargetStreamTest, EarlyBytesOfALegacyPeerAreDeliveredInOrderAndCredited) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1), false));
  std::string all;
  for (int i = 0; i < 8; i++) {
    all += std::string(32768, static_cast<char>('a' + i));
    stream.write(all.substr(all.size() - 32768));
    pump();
  }
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_WINDOW_UPDATE), 0u) << "credit only for what the target took";
  net::RawClient& target = connect("db");
  ASSERT_TRUE(until([&] { return target.pump().received.size() == all.size(); }));
  EXPECT_EQ(target.received, all);
  EXPECT_EQ(pair.acceptor.count_of(TMESH_FRAME_OPEN_RESULT), 0u);
  EXPECT_GT(pair.acceptor.count_of(TMESH_FRAME_WINDOW_UPDATE), 0u);
}

TEST_F(TargetStreamTest, TooManyEarlyBytesEndTheStreamAndItsDial) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1), false, 0));
  for (int i = 0; i < 9; i++) {
    stream.write(std::string(32768, 'x'));
    pump();
  }
  EXPECT_TRUE(stream.is_over);
  EXPECT_EQ(dialer.cancelled_count(), 1u);
  EXPECT_EQ(overs, 1);
}

TEST_F(TargetStreamTest, DataBeforeTheAnswerOfAStrictOpenEndsIt) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1)));
  pump();
  tmesh_frame_header header{};
  header.type = TMESH_FRAME_DATA;
  header.stream_id = stream.id;
  header.length_bytes = 1;
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(&pair.acceptor.mux, &header)));
  ASSERT_TRUE(
      tmesh_is_ok(tmesh_mux_frame_payload(&pair.acceptor.mux, reinterpret_cast<const uint8_t*>("x"), 1)));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(&pair.acceptor.mux)));
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_EQ(dialer.cancelled_count(), 1u);
}

TEST_F(TargetStreamTest, ATargetThatResetsEndsItsStreamOnly) {
  PlainStream a;
  PlainStream b;
  ASSERT_TRUE(a.open(mux(), test::open_request("a", 1)));
  ASSERT_TRUE(b.open(mux(), test::open_request("b", 1)));
  pump();
  net::RawClient& at_a = connect("a");
  net::RawClient& at_b = connect("b");
  pump();
  at_a.reset();
  ASSERT_TRUE(until([&] { return a.is_over; }));
  b.write("alive");
  ASSERT_TRUE(until([&] { return at_b.pump().received == "alive"; }));
  EXPECT_EQ(overs, 1);
}

TEST_F(TargetStreamTest, AnAnswerThatCrossesTheResetClosesTheTarget) {
  PlainStream stream;
  ASSERT_TRUE(stream.open(mux(), test::open_request("db", 1)));
  pump();
  // The RESET is in the mux, its event not yet dispatched, when the dial ends.
  tmesh_frame_header header{};
  header.type = TMESH_FRAME_RESET;
  header.stream_id = stream.id;
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(&pair.acceptor.mux, &header)));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(&pair.acceptor.mux)));
  net::RawClient& target = connect("db");
  pump();
  EXPECT_EQ(overs, 1);
  ASSERT_TRUE(until([&] { return target.is_over(); }));
}

TEST_F(TargetStreamTest, ALostLinkStartsNoWaitingDial) {
  std::list<PlainStream> streams;
  for (int i = 0; i < 4; i++)
    ASSERT_TRUE(streams.emplace_back().open(mux(), test::open_request(std::to_string(i), 1)));
  pump();
  ASSERT_EQ(dialer.started().size(), 2u);
  pair.cut();
  pump();
  EXPECT_EQ(overs, 4);
  EXPECT_EQ(dialer.started().size(), 2u) << "the freed slots went to streams that were over too";
  EXPECT_EQ(dialer.cancelled_count(), 2u);
}

TEST_F(TargetStreamTest, DestroyingItCancelsTheDialOrResetsTheTarget) {
  PlainStream dialling;
  PlainStream open;
  ASSERT_TRUE(open.open(mux(), test::open_request("a", 1)));
  ASSERT_TRUE(dialling.open(mux(), test::open_request("b", 1)));
  pump();
  net::RawClient& target = connect("a");
  pump();
  targets.clear();
  pump();
  EXPECT_EQ(dialer.cancelled_count(), 1u);
  EXPECT_TRUE(open.is_over);
  EXPECT_TRUE(dialling.is_over);
  ASSERT_TRUE(until([&] { return target.is_over(); }));
  EXPECT_EQ(overs, 0);
}

}  // namespace
}  // namespace tmesh::agent
