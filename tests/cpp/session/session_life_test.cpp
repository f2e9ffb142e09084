// How a session finds out whether its link lives, and how far away its peer is.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/cpp/session/session_fixture.hpp"

namespace tmesh::session {
namespace {

TEST_F(SessionTest, PingsGoOutAtTheIntervalAndMeasureTheRoundTrip) {
  connect_links({10'000, 0, 0});
  EXPECT_EQ(session->rtt_us(), 0u) << "nothing was measured yet";
  ASSERT_TRUE(run_until([&] { return session->rtt_us() > 0; }));
  EXPECT_LT(session->rtt_us(), 5'000'000u);
  EXPECT_GT(session->smoothed_rtt_us(), 0u);
  const uint64_t frames = peer().link.mux()->stats.frames_in_count;
  EXPECT_GE(frames, 1u);
  ASSERT_TRUE(run_until([&] { return peer().link.mux()->stats.frames_in_count >= frames + 3; }));
  EXPECT_FALSE(is_down());
}

TEST_F(SessionTest, NoLifeSettingsMeanNoPingAndNoDeath) {
  connect({0, 0, 0});
  run_for(60'000);
  EXPECT_TRUE(peer().bytes.empty());
  EXPECT_FALSE(is_down());
}

TEST_F(SessionTest, AForeignOrLatePongIsIgnored) {
  connect_links({3'600'000'000, 0, 0});
  peer().control(TMESH_FRAME_PONG, "");
  peer().control(TMESH_FRAME_PONG, std::string(8, '\0'));  // the id of a PING that was never sent
  peer().control(TMESH_FRAME_PONG, std::string(1000, 'x'));
  peer().control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return handler.goaways_count == 1; }));
  EXPECT_EQ(session->rtt_us(), 0u);
}

TEST_F(SessionTest, OnlyThePongOfTheLastPingMeasures) {
  connect({500'000, 0, 0});
  ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_BINARY) == 1; }));
  peer().reply(raw_frame(TMESH_FRAME_PONG, std::string("\0\0\0\0\0\0\0\7", 8)) +
               raw_frame(TMESH_FRAME_GOAWAY));
  ASSERT_TRUE(run_until([&] { return handler.goaways_count == 1; }));
  EXPECT_EQ(session->rtt_us(), 0u);
  ASSERT_TRUE(run_until([&] {
    const auto id = static_cast<char>(ws_frames(TMESH_WS_OP_BINARY));
    peer().reply(raw_frame(TMESH_FRAME_PONG, std::string(7, '\0') + id));
    return session->rtt_us() > 0;
  }));
}

TEST_F(SessionTest, ASilentLinkIsPingedOnceByWebSocket) {
  connect({0, 20'000, 0});
  ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_PING) == 1; }));
  std::size_t rounds = 0;
  ASSERT_FALSE(run_until([&] { return ++rounds == 0; }, 80'000));
  EXPECT_LT(rounds, 200u) << "the loop rests";
  EXPECT_EQ(ws_frames(TMESH_WS_OP_PING), 1u) << "once per silence";
  peer().reply(std::string("\x8A\x00", 2));  // its pong; then silence again
  ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_PING) == 2; }));
  EXPECT_EQ(ws_frames(TMESH_WS_OP_BINARY), 0u);
  EXPECT_FALSE(is_down());
}

// Patience with opens, with PINGs, with a probe.
constexpr SessionLife kQuickDoubt{0, 0, 0, 20'000, 0, 40'000};

TEST_F(SessionTest, AnUnansweredOpenIsProbedThenSuspectThenDead) {
  connect(kQuickDoubt);
  session->expect_answer();
  ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_PING) == 1; }));
  EXPECT_TRUE(session->takes_opens());
  ASSERT_TRUE(run_until([&] { return handler.suspects_count == 1; }));
  EXPECT_TRUE(session->is_suspect());
  ASSERT_TRUE(run_until([&] { return is_down(); }));
  EXPECT_EQ(handler.down->code, TMESH_E_TIMEOUT);
  EXPECT_EQ(handler.suspects_count, 1u);
}

TEST_F(SessionTest, AByteMakesASuspectTakeOpensAgain) {
  connect(kQuickDoubt);
  session->doubt();
  ASSERT_TRUE(run_until([&] { return handler.suspects_count == 1; }));
  EXPECT_FALSE(session->takes_opens());
  peer().reply(std::string("\x8A\x00", 2));
  ASSERT_TRUE(run_until([&] { return session->takes_opens(); }));
  run_for(150'000);
  EXPECT_FALSE(is_down());
}

TEST_F(SessionTest, OpensOnALivingLinkRaiseNoDoubt) {
  connect_links({0, 0, 0, 200'000, 0, 40'000});
  peer().on_stream = [](test::PeerStream& s) { s.answer(tmesh_open_accept()); };
  for (std::size_t n = 1; n <= 100; n++) {
    tmesh_stream* const stream = open_stream();
    ASSERT_NE(stream, nullptr);
    tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream*, unsigned) {});
    session->expect_answer();
    ASSERT_TRUE(run_until([&] { return stream->state == TMESH_STREAM_OPEN; }));
    tmesh_stream_release(stream);
  }
  EXPECT_EQ(handler.suspects_count, 0u);
}

TEST_F(SessionTest, MeasuringStartsAtOnceAndGivesTheMuxTheLowestRoundTrip) {
  connect({0, 0, 0});
  run_for(20'000);
  EXPECT_EQ(ws_frames(TMESH_WS_OP_BINARY), 0u) << "a server sends no PING by itself";
  // The second one is the fastest, and too old for the last.
  std::vector<uint64_t> rtts_us;
  const uint64_t delays_us[] = {30'000, 2'000, 40'000, 40'000, 40'000, 40'000};
  for (std::size_t n = 1; n <= 6; n++) {
    session->measure_rtt();
    ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_BINARY) == n; }));
    run_for(delays_us[n - 1]);
    const uint64_t in_bytes = session->bytes_in();
    peer().reply(raw_frame(TMESH_FRAME_PONG, std::string(7, '\0') + static_cast<char>(n)));
    ASSERT_TRUE(run_until([&] { return session->bytes_in() != in_bytes; }));
    ASSERT_GE(session->rtt_us(), delays_us[n - 1]);
    rtts_us.push_back(session->rtt_us());
    const auto recent = std::span(rtts_us).last(std::min<std::size_t>(n, 4));
    EXPECT_EQ(session->lowest_rtt_us(), std::ranges::min(recent)) << n;
    EXPECT_EQ(session->mux()->rounds.rtt_us, session->lowest_rtt_us());
  }
}

TEST_F(SessionTest, APingOnDemandIsTheOnlyOneAndGivesTheMuxNoSample) {
  connect({0, 0, 0});
  session->ping();
  session->ping();
  ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_BINARY) == 1; }));
  run_for(20'000);
  EXPECT_EQ(ws_frames(TMESH_WS_OP_BINARY), 1u) << "one on its way is enough";
  const uint64_t in_bytes = session->bytes_in();
  peer().reply(raw_frame(TMESH_FRAME_PONG, std::string(7, '\0') + '\1'));
  ASSERT_TRUE(run_until([&] { return session->rtt_us() != 0; }));
  EXPECT_GT(session->bytes_in(), in_bytes);
  EXPECT_NE(session->smoothed_rtt_us(), 0u);
  EXPECT_EQ(session->mux()->rounds.rtt_us, 0u) << "windows grow by measurements that are far apart";
  session->ping();
  ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_BINARY) == 2; }));
}

TEST_F(SessionTest, ALinkWithoutAByteIsDead) {
  connect({0, 0, 50'000});
  const uint64_t begin_us = loop().now_us();
  ASSERT_TRUE(run_until([&] { return is_down(); }));
  EXPECT_GE(loop().now_us() - begin_us, 49'000u);
  EXPECT_EQ(handler.down->code, TMESH_E_TIMEOUT);
  EXPECT_EQ(handler.down->scope, TMESH_SCOPE_SESSION);
}

TEST_F(SessionTest, AnUnansweredPingDoesNotCountAsLife) {
  connect({10'000, 0, 80'000});
  ASSERT_TRUE(run_until([&] { return is_down(); }));
  EXPECT_EQ(handler.down->code, TMESH_E_TIMEOUT);
}

TEST_F(SessionTest, PingsGoOnWithoutAnAnswer) {
  connect({10'000, 0, 0});
  ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_BINARY) >= 3; }));
}

TEST_F(SessionTest, ABusyLinkIsNotKilled) {
  // LESSONS P-C5: any byte is life. There is always one in the socket when time is
  // judged, however late this process gets its turn; a PONG never comes.
  connect({0, 0, 30'000});
  const uint64_t begin_us = loop().now_us();
  std::size_t sent = 0;
  const std::string half = raw_frame(TMESH_FRAME_GOAWAY);
  while (loop().now_us() - begin_us < 150'000) {
    peer().reply(half.substr(sent++ % half.size(), 1));  // a frame, byte by byte
    const uint64_t tick_us = loop().now_us();
    ASSERT_TRUE(run_until([&] { return loop().now_us() > tick_us; }));
    // The peer is of this process: one that had no turn for so long has sent nothing either.
    if (is_down() && loop().now_us() - tick_us >= 30'000) return;
    ASSERT_FALSE(is_down()) << "after " << sent << " bytes";
  }
}

}  // namespace
}  // namespace tmesh::session
