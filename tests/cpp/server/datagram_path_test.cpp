// UDP from a client's link to the agent's: passed on as it is, without windows (LESSONS Z1);
// and what an open says about an https target.
#include "core/mux/datagram.h"
#include "tests/cpp/server/path_fixture.hpp"

namespace tmesh::server {
namespace {

using test::FakeAgent;
using test::FakeClient;
using test::open_request;
using test::PlainStream;

struct DatagramPathTest : test::PathTest {
  DatagramPathTest() : client(add_client()), agent(add_agent()) {
    agent.answer = tmesh_open_accept();
    start();
  }
  void open(PlainStream& stream) {
    auto request = open_request("dns", 53);
    request.protocol = TMESH_OPEN_UDP;
    stream.takes = false;
    ASSERT_TRUE(stream.open(client.mux(), request, false));
    pump();
    ASSERT_EQ(agent.streams.size(), 1u);
    agent.last().takes = false;
  }
  static void send(tmesh_stream* stream, std::string_view data) {
    ASSERT_TRUE(tmesh_is_ok(tmesh_stream_send_datagram(stream, data.data(), data.size())));
  }
  static std::vector<std::string> take(tmesh_stream* stream) {
    std::vector<std::string> out;
    std::string buffer(TMESH_DATAGRAM_MAX_BYTES, '\0');
    std::size_t len = 0;
    while (tmesh_stream_peek_datagram(stream, buffer.data(), buffer.size(), &len)) {
      out.push_back(buffer.substr(0, len));
      tmesh_stream_take_datagram(stream);
    }
    return out;
  }
  using Strings = std::vector<std::string>;

  FakeClient& client;
  FakeAgent& agent;
  const std::string largest = std::string(65'507, 'l');
};

TEST_F(DatagramPathTest, BoundariesAreKeptBothWays) {
  PlainStream stream;
  open(stream);
  const Strings sent = {"a", "", largest, "bc", ""};
  for (const std::string& data : sent) send(stream.stream, data);
  pump();
  EXPECT_EQ(take(agent.last().stream), sent);
  for (const std::string& data : sent) send(agent.last().stream, data);
  pump();
  EXPECT_EQ(take(stream.stream), sent);
  stream.finish();
  pump();
  EXPECT_TRUE(agent.last().stream->in_eof);
  agent.last().finish();
  pump();
  expect_idle();
}

TEST_F(DatagramPathTest, ItIsLegacyAndWithoutWindowsTowardsTheAgent) {
  PlainStream stream;
  open(stream);
  EXPECT_EQ(agent.opens.at(0).protocol, TMESH_OPEN_UDP);
  const auto opens = agent.pair.opener.sent_of(TMESH_FRAME_OPEN_STREAM);
  ASSERT_EQ(opens.size(), 1u);
  EXPECT_EQ(opens[0].header.window_bytes, 0u);
  EXPECT_EQ(opens[0].header.flags & TMESH_FLAG_STRICT_OPEN, 0);
}

// A deployed client with windows announces one for UDP too, and never gives credit.
TEST_F(DatagramPathTest, AWindowThatAClientAnnouncesMeansNothing) {
  const std::string json = R"({"agent_id":"home","protocol":"udp","target_host":"dns","target_port":53})";
  tmesh_mux& server = client.pair.acceptor.mux;
  client.pair.opener.mux.config.resets_unknown_data = false;  // it did not send what comes here
  tmesh_frame_header header{};
  header.type = TMESH_FRAME_OPEN_STREAM;
  header.stream_id = 1;
  header.length_bytes = static_cast<uint32_t>(json.size());
  header.window_bytes = TMESH_WINDOW_INITIAL_BYTES;
  const auto* text = reinterpret_cast<const uint8_t*>(json.data());
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(&server, &header)));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_payload(&server, text, json.size())));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(&server)));
  pump();
  ASSERT_EQ(agent.streams.size(), 1u);
  agent.last().takes = false;
  const std::string data(32'768, 'd');
  // Down: four windows' worth, and not one byte of credit.
  for (int n = 0; n < 32; n++) {
    send(agent.last().stream, data);
    pump();
  }
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_DATA, 1), 32u);
  // Up: as much, and none is given.
  for (int n = 0; n < 32; n++) {
    tmesh_frame_header up{};
    up.type = TMESH_FRAME_DATA;
    up.stream_id = 1;
    up.length_bytes = static_cast<uint32_t>(data.size());
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(&server, &up)));
    ASSERT_TRUE(tmesh_is_ok(
        tmesh_mux_frame_payload(&server, reinterpret_cast<const uint8_t*>(data.data()), data.size())));
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(&server)));
    pump();
    EXPECT_EQ(take(agent.last().stream).size(), 1u);
  }
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_WINDOW_UPDATE), 0u);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET), 0u);
  EXPECT_EQ(server.stats.window_violations_count, 0u);
}

TEST_F(DatagramPathTest, AClientThatDoesNotReadLosesDatagramsAndNothingElse) {
  PlainStream stream;
  open(stream);
  client.pair.is_held[1] = true;  // the client's link takes nothing
  std::size_t sent = 0;
  for (; client.pair.acceptor.mux.stats.datagrams_dropped_count +
                 agent.pair.opener.mux.stats.datagrams_dropped_count ==
             0 &&
         sent < 100;
       sent++) {
    send(agent.last().stream, largest);
    pump();
  }
  EXPECT_LT(sent, 100u);
  EXPECT_FALSE(agent.last().is_over);
  client.pair.is_held[1] = false;
  pump();
  const Strings got = take(stream.stream);
  EXPECT_GT(got.size(), 0u);
  for (const std::string& data : got) EXPECT_EQ(data, largest);
  send(agent.last().stream, "after");
  pump();
  EXPECT_EQ(take(stream.stream), Strings{"after"});
}

TEST_F(DatagramPathTest, WhatTheAgentRefusesIsAReset) {
  agent.answer = tmesh_open_refuse(TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN, false);
  PlainStream stream;
  open(stream);
  EXPECT_TRUE(stream.is_over);
  EXPECT_FALSE(stream.has_result);
  agent.last().release();
  expect_idle();
}

TEST_F(DatagramPathTest, AnHttpsTargetIsPassedOnWithItsNames) {
  auto request = open_request("web", 443);
  request.protocol = TMESH_OPEN_HTTP;
  request.is_target_https = true;
  std::strcpy(request.host_header, "shop.example");
  std::strcpy(request.tls_server_name, "sni.example");
  PlainStream stream;
  ASSERT_TRUE(stream.open(client.mux(), request));
  pump();
  ASSERT_EQ(agent.opens.size(), 1u);
  EXPECT_EQ(agent.opens[0].protocol, TMESH_OPEN_HTTP);
  EXPECT_TRUE(agent.opens[0].is_target_https);
  EXPECT_STREQ(agent.opens[0].host_header, "shop.example");
  EXPECT_STREQ(agent.opens[0].tls_server_name, "sni.example");
}

}  // namespace
}  // namespace tmesh::server
