// Requirement C6, the rows of session scope: what ends one link and no other. And what is
// answered to frames of unknown streams (WIRE 1.11). Byte for byte, on loopback.
#include <cstring>
#include <list>

#include "tests/cpp/server/ws_handler_fixture.hpp"

namespace tmesh::server {
namespace {

constexpr const char* kOffer = "Sec-WebSocket-Protocol: tunnelmesh.v1.open-result.flow-control\r\n";

struct Frame {
  tmesh_frame_header header{};
  std::string payload;
};

// A peer that writes and reads frames itself.
class RawPeer {
 public:
  explicit RawPeer(net::RawClient client) : client_(std::move(client)) {
    client_.received.erase(0, client_.received.find("\r\n\r\n") + 4);
  }
  static std::string message(std::string_view payload, bool is_masked = true) {
    std::string out = "\x82";
    EXPECT_LT(payload.size(), 126u);
    out += static_cast<char>((is_masked ? 0x80 : 0) | payload.size());
    if (is_masked) out += std::string(4, '\0');
    return out.append(payload);
  }
  static std::string frame(uint8_t type, uint32_t id, std::string_view payload = "", uint32_t window = 0,
                           uint8_t version = 1) {
    tmesh_frame_header header{};
    header.type = TMESH_FRAME_PING;
    header.stream_id = id;
    header.window_bytes = window;
    header.length_bytes = static_cast<uint32_t>(payload.size());
    uint8_t raw[TMESH_FRAME_HEADER_BYTES];
    EXPECT_TRUE(tmesh_is_ok(tmesh_frame_header_encode(raw, &header)));
    raw[0] = version;
    raw[1] = type;
    return std::string(reinterpret_cast<char*>(raw), sizeof raw).append(payload);
  }
  void send_raw(std::string_view bytes) { EXPECT_EQ(client_.send(bytes), bytes.size()); }
  void send(uint8_t type, uint32_t id, std::string_view payload = "", uint32_t window = 0) {
    const std::string out = frame(type, id, payload, window);
    EXPECT_LE(out.size(), 250u);
    std::string message = "\x82";
    if (out.size() < 126) {
      message += static_cast<char>(0x80 | out.size());
    } else {
      message += "\xfe";
      message += static_cast<char>(out.size() >> 8);
      message += static_cast<char>(out.size() & 0xff);
    }
    message += std::string(4, '\0');
    send_raw(message + out);
  }
  // All frames that came so far.
  std::vector<Frame> frames() {
    client_.pump();
    std::vector<Frame> out;
    std::size_t at = 0;
    const std::string& in = client_.received;
    while (in.size() >= at + 2) {
      std::size_t len = static_cast<uint8_t>(in[at + 1]) & 0x7f;
      std::size_t head = 2;
      if (len == 126) {
        if (in.size() < at + 4) break;
        len = static_cast<std::size_t>(static_cast<uint8_t>(in[at + 2])) << 8 |
              static_cast<uint8_t>(in[at + 3]);
        head = 4;
      }
      if (in.size() < at + head + len) break;
      if ((static_cast<uint8_t>(in[at]) & 0x0f) == 2) {
        Frame f;
        EXPECT_TRUE(tmesh_is_ok(
            tmesh_frame_header_decode(&f.header, reinterpret_cast<const uint8_t*>(in.data() + at + head))));
        f.payload = in.substr(at + head + TMESH_FRAME_HEADER_BYTES, len - TMESH_FRAME_HEADER_BYTES);
        out.push_back(std::move(f));
      }
      at += head + len;
    }
    return out;
  }
  std::size_t count_of(uint8_t type) {
    std::size_t n = 0;
    for (const Frame& f : frames()) n += f.header.type == type;
    return n;
  }
  bool is_over() { return client_.is_over(); }

 private:
  net::RawClient client_;
};

struct SessionScope : test::WsHandlerFixture {
  void SetUp() override { start(); }
  RawPeer& connect(bool is_agent) {
    net::RawClient raw = request(is_agent ? agent_text() : client_text(kOffer));
    EXPECT_EQ(status_of(raw), "HTTP/1.1 101 Switching Protocols");
    return raw_peers.emplace_back(std::move(raw));
  }
  // Registered, as a deployed agent would be.
  RawPeer& connect_agent(const std::string& connection) {
    RawPeer& agent = connect(true);
    agent.send(TMESH_FRAME_AGENT_HELLO, 0, deployed_hello(connection, 1));
    EXPECT_TRUE(run_until([&] { return agent.count_of(TMESH_FRAME_AGENT_METADATA_ACK) == 1; }));
    return agent;
  }
  std::string deployed_hello(const std::string& connection, int epoch) {
    return R"({"agent_id":")" + rows.home.id + R"(","connection_id":")" + connection +
           R"(","node_id":"n","epoch":)" + std::to_string(epoch) +
           R"(,"revision":1,"reported_at":"2026-01-02T03:04:05Z","items":[]})";
  }
  // The peer's link is up and answers.
  bool lives(RawPeer& peer) {
    const std::size_t before = peer.count_of(TMESH_FRAME_PONG);
    peer.send(TMESH_FRAME_PING, 0, "alive");
    return run_until([&] { return peer.count_of(TMESH_FRAME_PONG) > before || peer.is_over(); }) &&
           !peer.is_over();
  }
  bool dies(RawPeer& peer) {
    return run_until([&] { return peer.is_over(); });
  }

  std::list<RawPeer> raw_peers;
};

TEST_F(SessionScope, WebSocketIo) {
  for (const bool is_agent : {false, true}) {
    SCOPED_TRACE(is_agent);
    RawPeer& beside_client = connect(false);
    RawPeer& beside_agent = connect_agent("beside" + std::to_string(is_agent));
    RawPeer& bad = is_agent ? connect_agent("bad") : connect(false);
    bad.send_raw(RawPeer::message(RawPeer::frame(TMESH_FRAME_PING, 0), false));  // no mask
    EXPECT_TRUE(dies(bad));
    EXPECT_TRUE(lives(beside_client));
    EXPECT_TRUE(lives(beside_agent));
  }
}

TEST_F(SessionScope, FrameVersion) {
  for (const bool is_agent : {false, true}) {
    SCOPED_TRACE(is_agent);
    RawPeer& beside_client = connect(false);
    RawPeer& beside_agent = connect_agent("beside" + std::to_string(is_agent));
    RawPeer& bad = is_agent ? connect_agent("bad") : connect(false);
    bad.send_raw(RawPeer::message(RawPeer::frame(TMESH_FRAME_PING, 0, "", 0, 2)));
    EXPECT_TRUE(dies(bad));
    EXPECT_TRUE(lives(beside_client));
    EXPECT_TRUE(lives(beside_agent));
  }
}

TEST_F(SessionScope, FrameCoding) {
  RawPeer& beside = connect(false);
  RawPeer& bad = connect(false);
  bad.send_raw(RawPeer::message(RawPeer::frame(99, 0)));
  EXPECT_TRUE(dies(bad));
  RawPeer& torn = connect(false);
  torn.send_raw(RawPeer::message("\x01\x07"));
  EXPECT_TRUE(dies(torn));
  EXPECT_TRUE(lives(beside));
}

TEST_F(SessionScope, WrongIdentity) {
  RawPeer& beside = connect_agent("good");
  RawPeer& bad = connect(true);
  std::string other = deployed_hello("c1", 1);
  other.replace(other.find(rows.home.id), rows.home.id.size(), std::string(rows.home.id.size(), 'x'));
  bad.send(TMESH_FRAME_AGENT_HELLO, 0, other);
  EXPECT_TRUE(dies(bad));
  EXPECT_TRUE(lives(beside));
  EXPECT_EQ(registry.links_count(rows.home.id), 1u);
}

TEST_F(SessionScope, Fencing) {
  RawPeer& beside = connect_agent("c2");
  RawPeer& old = connect_agent("c1");
  RawPeer& stale = connect(true);
  stale.send(TMESH_FRAME_AGENT_HELLO, 0, deployed_hello("c1", 1));
  EXPECT_TRUE(dies(stale));
  EXPECT_TRUE(lives(old));
  RawPeer& newer = connect(true);
  newer.send(TMESH_FRAME_AGENT_HELLO, 0, deployed_hello("c1", 2));
  EXPECT_TRUE(dies(old));
  EXPECT_TRUE(lives(newer));
  EXPECT_TRUE(lives(beside));
  EXPECT_EQ(registry.links_count(rows.home.id), 2u);
}

TEST_F(SessionScope, LostAuthentication) {
  RawPeer& agent = connect_agent("c1");
  RawPeer& client = connect(false);
  ASSERT_TRUE(rows.change([&](TokenService s) { return s.revoke(rows.agent_token.token); }));
  watch->note_local_commit();
  EXPECT_TRUE(dies(agent));
  EXPECT_TRUE(lives(client));
}

// --- frames of unknown streams (WIRE 1.11) -----------------------------------------------

TEST_F(SessionScope, UnknownStreamsOfAClient) {
  RawPeer& client = connect(false);
  for (const uint8_t type : {TMESH_FRAME_HALF_CLOSE, TMESH_FRAME_RESET}) client.send(type, 5);
  client.send(TMESH_FRAME_WINDOW_UPDATE, 5, "", 1000);
  client.send(TMESH_FRAME_OPEN_RESULT, 5,
              R"({"accepted":true,"stage":"connect","code":"ok","retryable":false,"retry_after_ms":0})");
  ASSERT_TRUE(lives(client));
  EXPECT_EQ(client.frames().size(), 1u) << "the PONG and nothing else: a RESET is not answered with one";
  client.send(TMESH_FRAME_DATA, 5, "x");
  client.send(TMESH_FRAME_DATA, 5, "y");
  ASSERT_TRUE(lives(client));
  EXPECT_EQ(client.count_of(TMESH_FRAME_RESET), 1u) << "DATA for what never was, once";
  client.send(TMESH_FRAME_RESET, 5);
  ASSERT_TRUE(lives(client));
  EXPECT_EQ(client.count_of(TMESH_FRAME_RESET), 1u);
}

TEST_F(SessionScope, UnknownStreamsOfAnAgent) {
  RawPeer& agent = connect_agent("c1");
  for (const uint8_t type : {TMESH_FRAME_DATA, TMESH_FRAME_HALF_CLOSE, TMESH_FRAME_RESET})
    agent.send(type, 5);
  agent.send(TMESH_FRAME_WINDOW_UPDATE, 5, "", 1000);
  agent.send(TMESH_FRAME_OPEN_RESULT, 5,
             R"({"accepted":true,"stage":"connect","code":"ok","retryable":false,"retry_after_ms":0})");
  ASSERT_TRUE(lives(agent));
  EXPECT_EQ(agent.frames().size(), 2u) << "the acknowledgement and the PONG";
}

}  // namespace
}  // namespace tmesh::server
