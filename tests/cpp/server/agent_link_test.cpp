#include "cpp/server/agent_link.hpp"

#include <cstring>
#include <list>

#include "tests/cpp/server/link_fixture.hpp"

namespace tmesh::server {
namespace {

using test::Peer;

std::string hello(const std::string& agent = "home", const std::string& connection = "c1", int epoch = 1,
                  int revision = 1,
                  const std::string& capabilities = R"("stream_open_result.v1","stream_flow_control.v1",)"
                                                    R"("stream_fair_writer.v1")") {
  return R"({"agent_id":")" + agent + R"(","instance_id":"i1","connection_id":")" + connection +
         R"(","node_id":"node","epoch":)" + std::to_string(epoch) + R"(,"revision":)" +
         std::to_string(revision) + R"(,"reported_at":"2026-01-02T03:04:05Z","items":[],"capabilities":[)" +
         capabilities + "]}";
}

struct AgentLinkTest : test::ServerLinkTest, AgentLinkOwner {
  struct End {
    Peer* peer = nullptr;
    std::unique_ptr<AgentLink> link;
  };
  void on_agent_link_down(AgentLink& link, tmesh_status why) override {
    downs++;
    down_code = why.code;
    for (End& end : ends) {
      if (end.link.get() == &link) end.link.reset();
    }
  }
  End& connect_agent(const char* agent = "home") {
    End& end = ends.emplace_back();
    net::Transport transport = connect(end.peer);
    Identity identity;
    identity.agent_id = agent;
    end.link = std::make_unique<AgentLink>(loop(), timers, registry, config, std::move(identity), *this);
    EXPECT_TRUE(end.link->start(std::move(transport), {}));
    end.peer->become_link(test::mux_config(false), true);
    return end;
  }
  // Sends and gives the answer back.
  std::string ask(End& end, const std::string& payload, uint8_t type = TMESH_FRAME_AGENT_HELLO) {
    const std::size_t before = end.peer->controls.size();
    end.peer->control(type, payload);
    EXPECT_TRUE(run_until([&] { return end.peer->controls.size() > before || end.peer->down; }));
    if (end.peer->controls.size() != before + 1) return "(nothing)";
    EXPECT_EQ(end.peer->controls.back().first, TMESH_FRAME_AGENT_METADATA_ACK);
    return end.peer->controls.back().second;
  }
  bool has_code(const std::string& ack, const char* name, const char* code) {
    return ack.find(R"("accepted":false)") != std::string::npos &&
           ack.find(R"("name":")" + std::string(name) + R"(","code":")" + code + '"') != std::string::npos;
  }

  AgentRegistry registry{2};
  config::ServerConfig config;
  std::list<End> ends;
  int downs = 0;
  unsigned down_code = TMESH_OK;  // of the last
};

TEST_F(AgentLinkTest, TheAckCarriesTheIntersectionAndTheMaximum) {
  End& end = connect_agent();
  EXPECT_EQ(
      ask(end, hello()),
      R"({"agent_id":"home","epoch":1,"revision":1,"accepted":true,"connection_pool_supported":true,)"
      R"("max_connections_per_agent":2,"capabilities":["stream_open_result.v1","stream_flow_control.v1",)"
      R"("stream_fair_writer.v1"]})");
  EXPECT_EQ(registry.select("home", TMESH_CAP_OPEN_RESULT), end.link.get());
  EXPECT_TRUE(end.link->mux()->config.has_open_result);
  EXPECT_TRUE(end.link->mux()->config.has_flow_control);
}

constexpr const char* kOurNames =
    R"("stream_open_result.v1","stream_flow_control.v1","stream_fair_writer.v1","stream_early_data.v1",)"
    R"("stream_window_growth.v1","tcp","udp","http")";

TEST_F(AgentLinkTest, ExtensionsThatBothNamedAreUsedFromTheAckOn) {
  config.limits.max_window_bytes = 1u << 22;
  End& end = connect_agent();
  EXPECT_FALSE(end.link->mux()->config.has_early_data || end.link->mux()->config.has_window_growth);
  ask(end, hello("home", "c1", 1, 1, kOurNames));
  const tmesh_mux_config& mux = end.link->mux()->config;
  EXPECT_TRUE(mux.has_early_data);
  EXPECT_TRUE(mux.has_window_growth);
  EXPECT_TRUE(mux.peer_is_ours);
  EXPECT_EQ(mux.window_max_bytes, 1u << 22);
}

TEST_F(AgentLinkTest, TheRoundTripIsMeasuredTowardsOursOnly) {
  End& ours = connect_agent("ours");
  ask(ours, hello("ours", "c1", 1, 1, kOurNames));
  ASSERT_TRUE(run_until([&] { return ours.link->mux()->rounds.rtt_us > 0; }));
  End& deployed = connect_agent("deployed");
  ask(deployed, hello("deployed", "c1", 1, 1, R"("stream_open_result.v1")"));
  settle(*deployed.peer);
  settle(*deployed.peer);
  EXPECT_EQ(deployed.link->mux()->rounds.rtt_us, 0u);
}

// A deployed server echoes whatever the agent announced; the protocol names in the answer
// are how our agent knows one, so ours never contains them (WIRE 1.6.4).
TEST_F(AgentLinkTest, TheAckNeverNamesProtocols) {
  End& end = connect_agent();
  const std::string ack = ask(end, hello("home", "c1", 1, 1, kOurNames));
  EXPECT_NE(ack.find(R"("capabilities":["stream_open_result.v1","stream_flow_control.v1",)"
                     R"("stream_fair_writer.v1","stream_early_data.v1","stream_window_growth.v1"]})"),
            std::string::npos)
      << ack;
}

TEST_F(AgentLinkTest, ADeployedAgentGetsNothingNew) {
  End& end = connect_agent();
  const std::string ack = ask(end, hello("home", "c1", 1, 1, R"("stream_open_result.v1")"));
  EXPECT_NE(ack.find(R"("capabilities":["stream_open_result.v1"]})"), std::string::npos) << ack;
  const tmesh_mux_config& mux = end.link->mux()->config;
  EXPECT_FALSE(mux.has_early_data || mux.has_window_growth || mux.peer_is_ours);
}

TEST_F(AgentLinkTest, AnExtensionThatIsSwitchedOffHereIsNotUsed) {
  config.capabilities.early_data = false;
  config.capabilities.window_growth = false;
  End& end = connect_agent();
  const std::string ack = ask(end, hello("home", "c1", 1, 1, kOurNames));
  EXPECT_EQ(ack.find("early_data"), std::string::npos) << ack;
  EXPECT_EQ(ack.find("window_growth"), std::string::npos) << ack;
  const tmesh_mux_config& mux = end.link->mux()->config;
  EXPECT_FALSE(mux.has_early_data || mux.has_window_growth);
  EXPECT_TRUE(mux.peer_is_ours);
}

TEST_F(AgentLinkTest, EarlyDataNeedsOpenResultsAndGrowthNeedsWindows) {
  End& end = connect_agent();
  ask(end, hello("home", "c1", 1, 1, R"("stream_early_data.v1","stream_window_growth.v1")"));
  const tmesh_mux_config& mux = end.link->mux()->config;
  EXPECT_FALSE(mux.has_open_result || mux.has_flow_control);
  EXPECT_FALSE(mux.has_early_data || mux.has_window_growth);
}

TEST_F(AgentLinkTest, CapabilitiesSwitchedOffHereAreNotNegotiated) {
  config.capabilities.open_result = false;
  config.capabilities.fair_writer = false;
  End& end = connect_agent();
  const std::string ack = ask(end, hello());
  EXPECT_NE(ack.find(R"("capabilities":["stream_flow_control.v1"])"), std::string::npos) << ack;
  EXPECT_FALSE(end.link->mux()->config.has_open_result);
  EXPECT_TRUE(end.link->mux()->config.has_flow_control);
  EXPECT_EQ(registry.select("home", TMESH_CAP_OPEN_RESULT), nullptr);
}

TEST_F(AgentLinkTest, FlowControlSwitchedOffOpensWithoutWindows) {
  config.capabilities.flow_control = false;
  End& end = connect_agent();
  ask(end, hello());
  EXPECT_TRUE(end.link->mux()->config.has_open_result);
  EXPECT_FALSE(end.link->mux()->config.has_flow_control);
}

TEST_F(AgentLinkTest, ADeployedAgentAnnouncesOpenResultOnlyAndGetsWindows) {
  End& end = connect_agent();
  ask(end, hello("home", "c1", 1, 1, R"("stream_open_result.v1")"));
  EXPECT_TRUE(end.link->mux()->config.has_flow_control);
}

TEST_F(AgentLinkTest, AnAgentWithoutCapabilitiesIsLegacy) {
  End& end = connect_agent();
  const std::string ack = ask(
      end,
      R"({"agent_id":"home","node_id":"n","epoch":1,"revision":1,"reported_at":"2026-01-02T03:04:05Z","items":[]})");
  EXPECT_NE(ack.find(R"("accepted":true)"), std::string::npos);
  EXPECT_EQ(end.link->capabilities(), 0u);
  EXPECT_FALSE(end.link->mux()->config.has_open_result);
  EXPECT_FALSE(end.link->mux()->config.has_flow_control);
  EXPECT_EQ(end.link->connection_id, "legacy");
}

TEST_F(AgentLinkTest, WithoutAHelloTheLinkEndsAfterOneSecond) {
  End& end = connect_agent();
  timers.advance(AgentLink::kHelloDeadline_us - 1);
  settle(*end.peer);
  EXPECT_EQ(downs, 0);
  timers.advance(1);
  ASSERT_TRUE(run_until([&] { return end.peer->down.has_value(); }));
  EXPECT_EQ(downs, 1);
}

TEST_F(AgentLinkTest, AHelloEndsTheDeadline) {
  End& end = connect_agent();
  ask(end, hello());
  EXPECT_EQ(timers.count(), 0u);
  timers.advance(10'000'000);
  settle(*end.peer);
  EXPECT_EQ(downs, 0);
}

TEST_F(AgentLinkTest, AMetadataFrameBeforeTheHelloEndsTheLink) {
  for (const uint8_t type :
       {TMESH_FRAME_AGENT_METADATA_UPDATE, TMESH_FRAME_TRACE_START, TMESH_FRAME_CLIENT_HELLO}) {
    SCOPED_TRACE(int(type));
    End& end = connect_agent();
    EXPECT_EQ(ask(end, hello(), type), "(nothing)");
    EXPECT_TRUE(end.peer->down);
    EXPECT_EQ(registry.links_count("home"), 0u);
  }
}

TEST_F(AgentLinkTest, AnIdentityThatIsNotTheTokensIsRefusedAndTheLinkEnds) {
  End& end = connect_agent("home");
  const std::string ack = ask(end, hello("away"));
  EXPECT_TRUE(has_code(ack, "agent_id", "identity_mismatch")) << ack;
  EXPECT_EQ(ack.find("capabilities"), std::string::npos);
  EXPECT_EQ(registry.select("away", 0), nullptr);
  EXPECT_EQ(registry.select("home", 0), nullptr);
  timers.advance(AgentLink::kHelloDeadline_us);
  ASSERT_TRUE(run_until([&] { return end.peer->down.has_value(); }));
  EXPECT_EQ(downs, 1);
}

TEST_F(AgentLinkTest, AgentIdsOfHellosCompareByteByByte) {
  End& end = connect_agent("home");
  EXPECT_TRUE(has_code(ask(end, hello("Home")), "agent_id", "identity_mismatch"));
}

TEST_F(AgentLinkTest, AnInvalidPayloadIsAnsweredAndDoesNotRegister) {
  End& end = connect_agent();
  EXPECT_TRUE(has_code(ask(end, "{"), "agent_metadata", "invalid_payload"));
  EXPECT_TRUE(has_code(ask(end, hello("home", "c1", 1, 0)), "revision", "invalid_revision"));
  EXPECT_TRUE(has_code(ask(end, hello("home", "c1", 0)), "epoch", "invalid_metadata"));
  EXPECT_EQ(registry.links_count("home"), 0u);
  EXPECT_NE(ask(end, hello()).find(R"("accepted":true)"), std::string::npos)
      << "within the second it may try again";
}

TEST_F(AgentLinkTest, RevisionsRise) {
  End& end = connect_agent();
  ask(end, hello("home", "c1", 1, 5));
  const auto update = [&](int revision, const std::string& item = "") {
    std::string text = hello("home", "c1", 1, revision);
    if (!item.empty())
      text.replace(text.find(R"("items":[])"), 10, R"("items":[{"name":")" + item + R"(","source":"env"}])");
    return ask(end, text, TMESH_FRAME_AGENT_METADATA_UPDATE);
  };
  std::string ack = update(5);
  EXPECT_NE(ack.find(R"("accepted":true,"idempotent":true)"), std::string::npos) << ack;
  EXPECT_TRUE(has_code(update(5, "os"), "revision", "revision_conflict"));
  EXPECT_TRUE(has_code(update(4), "revision", "stale_revision"));
  ack = update(6, "os");
  EXPECT_NE(ack.find(R"("accepted":true)"), std::string::npos);
  EXPECT_EQ(ack.find("idempotent"), std::string::npos);
  EXPECT_NE(ack.find(R"("capabilities":["stream_open_result.v1")"), std::string::npos)
      << "an update does not take the negotiated set away";
  EXPECT_NE(update(6, "os").find(R"("idempotent":true)"), std::string::npos);
  EXPECT_TRUE(has_code(update(6), "revision", "revision_conflict"));
  EXPECT_EQ(downs, 0) << "a refused update never ends the session";
}

TEST_F(AgentLinkTest, AnUpdateMayNotChangeWhoItIs) {
  End& end = connect_agent();
  ask(end, hello());
  const auto update = [&](const char* from, const char* to) {
    std::string text = hello("home", "c1", 1, 2);
    text.replace(text.find(from), std::string(from).size(), to);
    return ask(end, text, TMESH_FRAME_AGENT_METADATA_UPDATE);
  };
  EXPECT_TRUE(has_code(update(R"("home")", R"("away")"), "agent_id", "identity_mismatch"));
  EXPECT_TRUE(has_code(update(R"("node")", R"("mode")"), "node_id", "identity_mismatch"));
  EXPECT_TRUE(has_code(update(R"("i1")", R"("i2")"), "instance_id", "identity_mismatch"));
  EXPECT_TRUE(has_code(update(R"("epoch":1)", R"("epoch":2)"), "epoch", "stale_epoch"));
  EXPECT_NE(update(R"("i1")", R"("i1")").find(R"("accepted":true)"), std::string::npos);
}

TEST_F(AgentLinkTest, AnEqualOrOlderEpochOfTheSameConnectionIsRefused) {
  End& first = connect_agent();
  ask(first, hello("home", "c1", 3));
  End& second = connect_agent();
  EXPECT_TRUE(has_code(ask(second, hello("home", "c1", 3)), "epoch", "stale_epoch"));
  timers.advance(AgentLink::kHelloDeadline_us);
  ASSERT_TRUE(run_until([&] { return second.peer->down.has_value(); }));
  EXPECT_EQ(registry.select("home", 0), first.link.get()) << "the old one stays";
}

TEST_F(AgentLinkTest, ANewerEpochTakesThePlaceAndTheOldLinkGoesDown) {
  End& first = connect_agent();
  ask(first, hello("home", "c1", 1));
  End& second = connect_agent();
  EXPECT_NE(ask(second, hello("home", "c1", 2)).find(R"("accepted":true)"), std::string::npos);
  ASSERT_TRUE(run_until([&] { return first.peer->down.has_value(); }));
  EXPECT_EQ(downs, 1);
  EXPECT_EQ(registry.select("home", 0), second.link.get());
  EXPECT_EQ(registry.links_count("home"), 1u);
}

TEST_F(AgentLinkTest, TheLinkBeyondTheMaximumIsRefusedAlone) {
  End& first = connect_agent();
  End& second = connect_agent();
  End& third = connect_agent();
  ask(first, hello("home", "c1"));
  ask(second, hello("home", "c2"));
  const std::string ack = ask(third, hello("home", "c3"));
  EXPECT_TRUE(has_code(ack, "connection_id", "invalid_metadata")) << ack;
  EXPECT_NE(ack.find(R"("max_connections_per_agent":2)"), std::string::npos);
  timers.advance(AgentLink::kHelloDeadline_us);
  ASSERT_TRUE(run_until([&] { return third.peer->down.has_value(); }));
  EXPECT_FALSE(first.peer->down || second.peer->down);
  EXPECT_EQ(registry.links_count("home"), 2u);
}

TEST_F(AgentLinkTest, TheAckLeavesBeforeAnyOpen) {
  End& end = connect_agent();
  std::size_t controls_before_open = 0;
  end.peer->on_stream = [&](test::PeerStream&) { controls_before_open = end.peer->controls.size(); };
  end.peer->control(TMESH_FRAME_AGENT_HELLO, hello());
  ASSERT_TRUE(run_until([&] { return registry.select("home", 0) != nullptr; }));
  tmesh_open_stream open{};
  open.protocol = TMESH_OPEN_TCP;
  std::strcpy(open.target_host, "a");
  open.target_port = 1;
  tmesh_open_params params{&open, true, 262144};
  tmesh_status why{};
  tmesh_stream* stream = tmesh_mux_open(end.link->mux(), &params, &why);
  ASSERT_NE(stream, nullptr);
  tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream*, unsigned) {});
  ASSERT_TRUE(run_until([&] { return end.peer->streams.size() == 1; }));
  EXPECT_EQ(controls_before_open, 1u);
  EXPECT_TRUE(end.peer->streams.front().stream->is_strict);
  tmesh_stream_release(stream);
}

TEST_F(AgentLinkTest, ADrainTellsOursAtOnceAndDeployedAgentsNothing) {
  config.capabilities.fair_writer = false;  // says nothing about the agent
  End& ours = connect_agent("ours");
  End& deployed = connect_agent("deployed");
  End& silent = connect_agent("silent");
  ask(ours, hello("ours", "c1"));
  ask(deployed, hello("deployed", "c2", 1, 1, R"("stream_open_result.v1")"));
  for (End& end : ends) end.link->begin_drain();
  ASSERT_TRUE(run_until([&] { return ours.peer->goaways_count == 1; }));
  settle(*deployed.peer);
  EXPECT_EQ(deployed.peer->goaways_count, 0u);
  EXPECT_EQ(silent.peer->goaways_count, 0u);
  EXPECT_EQ(registry.select("ours", 0), nullptr);
  EXPECT_EQ(registry.select("deployed", 0), deployed.link.get());
}

TEST_F(AgentLinkTest, TheLastFrameOfALinkThatTheServerEndsIsGoaway) {
  End& deployed = connect_agent();
  ask(deployed, hello("home", "c1", 1, 1, R"("stream_open_result.v1")"));
  deployed.link.reset();
  ASSERT_TRUE(run_until([&] { return deployed.peer->down.has_value(); }));
  EXPECT_EQ(deployed.peer->goaways_count, 1u);
  EXPECT_EQ(registry.links_count("home"), 0u);
}

TEST_F(AgentLinkTest, ADeadLinkLeavesTheRegistry) {
  End& end = connect_agent();
  ask(end, hello());
  ASSERT_NE(registry.select("home", 0), nullptr);
  end.peer->link.close();
  ASSERT_TRUE(run_until([&] { return downs == 1; }));
  EXPECT_EQ(registry.links_count("home"), 0u);
}

TEST_F(AgentLinkTest, AnAgentThatOpensAStreamIsNoAgent) {
  End& end = connect_agent();
  ask(end, hello());
  end.peer->link = {};
  ASSERT_TRUE(run_until([&] { return downs == 1; }));
  End& opener = ends.emplace_back();
  net::Transport transport = connect(opener.peer);
  opener.link = std::make_unique<AgentLink>(loop(), timers, registry, config, Identity{}, *this);
  ASSERT_TRUE(opener.link->start(std::move(transport), {}));
  opener.peer->become_link(test::mux_config(true), true);
  tmesh_open_stream open{};
  std::strcpy(open.target_host, "a");
  open.target_port = 1;
  tmesh_open_params params{&open, false, 0};
  tmesh_status why{};
  tmesh_stream* stream = tmesh_mux_open(opener.peer->link.mux(), &params, &why);
  ASSERT_NE(stream, nullptr);
  tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream*, unsigned) {});
  ASSERT_TRUE(run_until([&] { return downs == 2; }));
  tmesh_stream_release(stream);
}

}  // namespace
}  // namespace tmesh::server
