#include "tests/cpp/session/session_fixture.hpp"

namespace tmesh::session {
namespace {

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
