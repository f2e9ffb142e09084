#include "cpp/session/session.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "core/wire/ws.h"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::session {
namespace {

using test::FakeServer;
using test::raw_frame;

struct Handler : SessionHandler {
  void on_open(Session&, tmesh_stream* stream, const tmesh_open_stream& open) override {
    opened_host = open.target_host;
    tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream* s, unsigned events) {
      if ((events & TMESH_STREAM_EV_OVER) != 0) tmesh_stream_release(s);
    });
  }
  tmesh_status on_control(Session&, const tmesh_frame_header& header,
                          std::span<const uint8_t> payload) override {
    control_type = header.type;
    control.assign(payload.begin(), payload.end());
    return control_answer;
  }
  void on_goaway(Session& s) override {
    goaways_count++;
    took_opens_at_goaway = s.takes_opens();
  }
  void on_down(Session& s, tmesh_status why) override {
    downs_count++;
    down = why;
    EXPECT_FALSE(s.takes_opens());
    if (owner != nullptr) owner->reset();
  }

  void on_suspect(Session& s) override {
    suspects_count++;
    EXPECT_FALSE(s.takes_opens());
  }

  std::unique_ptr<Session>* owner = nullptr;  // to be destroyed in on_down
  std::string opened_host;
  int control_type = -1;
  std::string control;
  tmesh_status control_answer = tmesh_ok();
  std::size_t goaways_count = 0;
  bool took_opens_at_goaway = false;
  std::size_t downs_count = 0;
  std::size_t suspects_count = 0;
  std::optional<tmesh_status> down;
};

// Only until the transport is ready.
struct Ready : net::TransportHandler {
  void on_ready(tmesh_status status) override { is_ready = tmesh_is_ok(status); }
  void on_data(std::span<uint8_t>) override {}
  void on_eof() override {}
  void on_written() override {}
  void on_error(tmesh_status) override {}
  bool is_ready = false;
};

class SessionTest : public net::LoopTest {
 protected:
  SessionTest() : server(loop()) {}

  // The Session, and a peer that is still a raw transport.
  void connect(const SessionLife& life, std::span<const uint8_t> early = {}, bool is_opener = true) {
    Ready ready;
    net::RawClient raw(server.port());
    auto transport = std::move(*net::Transport::connect(loop(), raw.release(), nullptr, nullptr, ready));
    ASSERT_TRUE(run_until([&] { return ready.is_ready && server.count() == 1 && peer().ready.has_value(); }));
    session = std::move(*Session::open(loop(), std::move(transport), true, test::mux_config(is_opener), life,
                                       handler, early));
  }
  void connect_links(const SessionLife& life, bool is_opener = true) {
    connect(life, {}, is_opener);
    peer().become_link(test::mux_config(!is_opener));
  }
  test::Peer& peer() { return server.last(); }
  bool is_down() const { return handler.downs_count > 0; }
  // Runs for that long at least.
  void run_for(uint64_t us) {
    ASSERT_FALSE(run_until([] { return false; }, us));
  }
  tmesh_stream* open_stream() {
    tmesh_open_stream open{};
    open.protocol = TMESH_OPEN_TCP;
    open.target_host[0] = 'h';
    open.target_port = 80;
    tmesh_open_params params{&open, true, TMESH_WINDOW_INITIAL_BYTES};
    tmesh_status why{};
    return tmesh_mux_open(session->mux(), &params, &why);
  }
  // WebSocket frames of this kind among the raw bytes the peer got.
  std::size_t ws_frames(tmesh_ws_opcode opcode) {
    tmesh_ws_decoder decoder;
    tmesh_ws_decoder_init(&decoder, TMESH_WS_SERVER, TMESH_WS_MESSAGE_MAX_BYTES);
    std::string copy = peer().bytes;
    auto* at = reinterpret_cast<uint8_t*>(copy.data());
    std::size_t left = copy.size();
    std::size_t count = 0;
    for (;;) {
      tmesh_ws_event event{};
      std::size_t used = 0;
      EXPECT_TRUE(tmesh_is_ok(tmesh_ws_decode(&decoder, at, left, &used, &event)));
      at += used;
      left -= used;
      if (event.kind == TMESH_WS_NONE) return count;
      count += (opcode == TMESH_WS_OP_PING && event.kind == TMESH_WS_PING) ||
               (opcode == TMESH_WS_OP_BINARY && event.kind == TMESH_WS_MESSAGE_END);
    }
  }

  FakeServer server;
  Handler handler;
  std::unique_ptr<Session> session;
};

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
  // Four answers after known times, the second one the fastest; then two slow ones more.
  uint64_t lowest_us = 0;
  const uint64_t delays_us[] = {30'000, 2'000, 40'000, 40'000, 40'000, 40'000};
  for (std::size_t n = 1; n <= 6; n++) {
    session->measure_rtt();
    ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_BINARY) == n; }));
    run_for(delays_us[n - 1]);
    peer().reply(raw_frame(TMESH_FRAME_PONG, std::string(7, '\0') + static_cast<char>(n)));
    const uint64_t before_us = session->rtt_us();
    ASSERT_TRUE(run_until([&] { return session->rtt_us() != before_us; }));
    EXPECT_EQ(session->mux()->rounds.rtt_us, session->lowest_rtt_us());
    if (n == 2) lowest_us = session->rtt_us();
    if (n >= 2 && n <= 5) {
      EXPECT_EQ(session->lowest_rtt_us(), lowest_us) << n;
    }
  }
  EXPECT_GT(session->lowest_rtt_us(), lowest_us) << "an old path is forgotten";
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

TEST_F(SessionTest, ExtensionsNeedWhatTheyExtendAndAreSetOnce) {
  connect({0, 0, 0});
  tmesh_mux_config& config = session->mux()->config;
  config.has_flow_control = false;
  session->use_extensions(TMESH_CAP_EARLY_DATA | TMESH_CAP_WINDOW_GROWTH, true);
  EXPECT_TRUE(config.has_early_data);
  EXPECT_FALSE(config.has_window_growth) << "no windows, nothing to grow";
  EXPECT_TRUE(config.peer_is_ours);
  session->use_extensions(0, false);
  EXPECT_TRUE(config.has_early_data);
  EXPECT_TRUE(config.peer_is_ours);
  run_for(20'000);
  EXPECT_EQ(ws_frames(TMESH_WS_OP_BINARY), 0u) << "nothing to measure for";
}

TEST_F(SessionTest, WindowGrowthMeasuresAtOnce) {
  connect({0, 0, 0});
  session->use_extensions(TMESH_CAP_WINDOW_GROWTH, true);
  EXPECT_TRUE(session->mux()->config.has_window_growth);
  EXPECT_FALSE(session->mux()->config.has_early_data);
  ASSERT_TRUE(run_until([&] { return ws_frames(TMESH_WS_OP_BINARY) == 1; }));
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
  EXPECT_GE(ws_frames(TMESH_WS_OP_BINARY), 2u) << "PINGs go on until then";
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
    ASSERT_FALSE(is_down()) << "after " << sent << " bytes";
  }
}

TEST_F(SessionTest, EarlyBytesAreFramesOfTheSession) {
  const std::string frame = raw_frame(TMESH_FRAME_GOAWAY);
  connect({0, 0, 0}, {reinterpret_cast<const uint8_t*>(frame.data()), frame.size()});
  EXPECT_EQ(handler.goaways_count, 0u) << "not from inside open()";
  ASSERT_TRUE(run_until([&] { return handler.goaways_count == 1; }));
}

TEST_F(SessionTest, AGoawayFromThePeerEndsOpensButNotTheLink) {
  connect_links({0, 0, 0});
  EXPECT_TRUE(session->takes_opens());
  peer().control(TMESH_FRAME_GOAWAY, "open limit reached");
  ASSERT_TRUE(run_until([&] { return handler.goaways_count == 1; }));
  EXPECT_FALSE(handler.took_opens_at_goaway);
  EXPECT_FALSE(session->takes_opens());
  EXPECT_EQ(open_stream(), nullptr);
  EXPECT_FALSE(is_down());
}

TEST_F(SessionTest, OurGoawayIsSentOnce) {
  connect_links({0, 0, 0}, false);
  session->goaway();
  session->goaway();
  EXPECT_FALSE(session->takes_opens());
  ASSERT_TRUE(run_until([&] { return peer().goaways_count > 0; }));
  run_for(10'000);
  EXPECT_EQ(peer().goaways_count, 1u);
}

TEST_F(SessionTest, StopOpensTellsNobody) {
  connect_links({0, 0, 0});
  session->stop_opens();
  EXPECT_FALSE(session->takes_opens());
  session->send(TMESH_FRAME_CLIENT_HELLO, {});
  ASSERT_TRUE(run_until([&] { return peer().controls.size() == 1; }));
  EXPECT_EQ(peer().goaways_count, 0u);
}

TEST_F(SessionTest, ResumedOpensArePossibleUnlessTheServerWantsNone) {
  connect_links({0, 0, 0});
  session->stop_opens();
  session->resume_opens();
  EXPECT_TRUE(session->takes_opens());
  peer().control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return handler.goaways_count == 1; }));
  session->resume_opens();
  EXPECT_FALSE(session->takes_opens());
}

TEST_F(SessionTest, ControlFramesGoBothWaysInOrder) {
  connect_links({0, 0, 0});
  for (const char* text : {"one", "two", "three"}) {
    session->send(TMESH_FRAME_CLIENT_HELLO,
                  {reinterpret_cast<const uint8_t*>(text), std::string_view(text).size()});
  }
  peer().control(TMESH_FRAME_CLIENT_METADATA_ACK, "ack");
  ASSERT_TRUE(run_until([&] { return peer().controls.size() == 3 && handler.control == "ack"; }));
  EXPECT_EQ(peer().controls[2].second, "three");
  EXPECT_EQ(handler.control_type, TMESH_FRAME_CLIENT_METADATA_ACK);
}

TEST_F(SessionTest, AFullControlQueueEndsTheLink) {
  connect_links({0, 0, 0});
  for (unsigned i = 0; i <= TMESH_CONTROL_QUEUE_MAX_FRAMES; i++) session->send(TMESH_FRAME_CLIENT_HELLO, {});
  EXPECT_FALSE(is_down()) << "never from inside send()";
  ASSERT_TRUE(run_until([&] { return is_down(); }));
  EXPECT_EQ(handler.down->code, TMESH_E_CONTROL_EXHAUSTED);
  session->send(TMESH_FRAME_CLIENT_HELLO, {});  // harmless afterwards
  session->goaway();
}

TEST_F(SessionTest, ASessionStatusOfTheHandlerEndsTheLink) {
  connect_links({0, 0, 0});
  handler.control_answer = tmesh_err_session(TMESH_E_POLICY);
  peer().control(TMESH_FRAME_CLIENT_METADATA_ACK, "x");
  ASSERT_TRUE(run_until([&] { return is_down(); }));
  EXPECT_EQ(handler.down->code, TMESH_E_POLICY);
}

TEST_F(SessionTest, AnAcceptorGetsOpens) {
  connect_links({0, 0, 0}, false);
  tmesh_open_stream open{};
  open.protocol = TMESH_OPEN_TCP;
  open.target_host[0] = 'h';
  open.target_port = 80;
  tmesh_open_params params{&open, true, TMESH_WINDOW_INITIAL_BYTES};
  tmesh_status why{};
  tmesh_stream* const stream = tmesh_mux_open(peer().link.mux(), &params, &why);
  ASSERT_NE(stream, nullptr);
  tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream*, unsigned) {});
  ASSERT_TRUE(run_until([&] { return handler.opened_host == "h"; }));
  EXPECT_EQ(session->live_streams_count(), 1u);
  EXPECT_TRUE(session->has_streams());
  tmesh_stream_release(stream);
  ASSERT_TRUE(run_until([&] { return !session->has_streams(); }));
}

TEST_F(SessionTest, AStreamThatIsOverStillCountsUntilItsUserLetsGo) {
  connect_links({0, 0, 0});
  peer().on_stream = [](test::PeerStream& s) {
    s.answer(tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_TIMEOUT, true));
  };
  tmesh_stream* const stream = open_stream();
  ASSERT_NE(stream, nullptr);
  tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream*, unsigned) {});
  ASSERT_TRUE(run_until([&] { return session->live_streams_count() == 0; }));
  EXPECT_TRUE(session->has_streams());
  tmesh_stream_release(stream);
  EXPECT_FALSE(session->has_streams());
}

TEST_F(SessionTest, FailIsDeliveredFromTheLoopOnceAndMayDestroyTheSession) {
  connect_links({0, 0, 0});
  handler.owner = &session;
  session->fail(tmesh_err_session(TMESH_E_TIMEOUT));
  session->fail(tmesh_err_session(TMESH_E_IO));
  EXPECT_FALSE(is_down());
  ASSERT_TRUE(run_until([&] { return is_down() && peer().down.has_value(); }));
  EXPECT_EQ(handler.downs_count, 1u);
  EXPECT_EQ(handler.down->code, TMESH_E_TIMEOUT);
  EXPECT_EQ(session, nullptr);
}

TEST_F(SessionTest, ThePeersEndIsReportedOnce) {
  connect_links({10'000, 20'000, 30'000});
  server.peers.clear();
  ASSERT_TRUE(run_until([&] { return is_down(); }));
  run_for(60'000);
  EXPECT_EQ(handler.downs_count, 1u);
  EXPECT_EQ(handler.down->code, TMESH_E_CLOSED);
}

TEST_F(SessionTest, DestroyingItIsSilentAndFlushesTheGoaway) {
  connect_links({10'000, 0, 0}, false);
  session->goaway();
  session.reset();
  ASSERT_TRUE(run_until([&] { return peer().down.has_value(); }));
  EXPECT_EQ(peer().goaways_count, 1u);
  EXPECT_EQ(handler.downs_count, 0u);
}

}  // namespace
}  // namespace tmesh::session
