#include "cpp/session/connector.hpp"

#include <cstdlib>

#include "cpp/net/dialer.hpp"
#include "tests/cpp/session/connector_fixture.hpp"

namespace tmesh::session {
namespace {

TEST_F(ConnectorTest, TheRequestIsWhatDeployedServersWant) {
  request();
  const auto& peer = server->last();
  EXPECT_TRUE(peer.bytes.starts_with("GET /ws/client HTTP/1.1\r\n"));
  const std::string authority = "localhost:" + std::to_string(server->port());
  EXPECT_EQ(peer.header("Host"), authority);
  EXPECT_EQ(peer.header("Origin"), "http://" + authority);
  EXPECT_EQ(peer.header("Authorization"), "Bearer the-token");
  EXPECT_EQ(peer.header("Sec-WebSocket-Version"), "13");
  EXPECT_EQ(peer.header("Sec-WebSocket-Extensions"), "");
  EXPECT_EQ(peer.header("Sec-WebSocket-Protocol"),
            "tunnelmesh.v1.open-result.flow-control.metadata, tunnelmesh.v1.open-result.flow-control, "
            "tunnelmesh.v1.open-result, tunnelmesh.v1");
}

TEST_F(ConnectorTest, WithoutAnOfferThereIsNoHeaderForIt) {
  serve();
  start(false);
  ASSERT_TRUE(run_until([&] { return server->has_request(0); }));
  EXPECT_EQ(server->last().bytes.find("Sec-WebSocket-Protocol"), std::string::npos);
}

TEST_F(ConnectorTest, A101ConnectsWithTheSelectedSubprotocol) {
  request();
  answer(server->last().switching("tunnelmesh.v1.open-result"));
  ASSERT_TRUE(connected.has_value());
  EXPECT_EQ(connected->subprotocol, TMESH_SUBPROTOCOL_OPEN_RESULT);
  EXPECT_TRUE(connected->early.empty());
  EXPECT_TRUE(static_cast<bool>(connected->transport));
  timers.advance(2 * Connector::kTimeout_us);
  EXPECT_EQ(done_count, 1u);
}

TEST_F(ConnectorTest, TellsHowLongEachStageTook) {
  serve();
  dialer->dns_us = 3'000;
  dialer->connect_us = 5'000;
  start();
  ASSERT_TRUE(run_until([&] { return server->has_request(0); }));
  timers.advance(7'000);
  answer(server->last().switching("tunnelmesh.v1"));
  ASSERT_TRUE(connected.has_value());
  EXPECT_EQ(connected->times.dns_us, 3'000u);
  EXPECT_EQ(connected->times.connect_us, 5'000u);
  EXPECT_EQ(connected->times.tls_us, 0u) << "not needed";
  EXPECT_EQ(connected->times.upgrade_us, 7'000u);
}

TEST_F(ConnectorTest, AFailureTellsHowLongTheStagesBeforeItTook) {
  serve();
  dialer->connect_us = 5'000;
  start();
  ASSERT_TRUE(run_until([&] { return server->has_request(0); }));
  timers.advance(7'000);
  answer("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->times.connect_us, 5'000u);
  EXPECT_EQ(failure->times.upgrade_us, 0u) << "did not end well";
}

TEST_F(ConnectorTest, NoSelectedSubprotocolIsLegacy) {
  request();
  answer(server->last().switching(""));
  ASSERT_TRUE(connected.has_value());
  EXPECT_EQ(connected->subprotocol, TMESH_SUBPROTOCOL_NONE);
}

TEST_F(ConnectorTest, BytesBehindThe101ArePassedOn) {
  request();
  answer(server->last().switching("tunnelmesh.v1") + std::string("\x82\x00 frames", 9));
  ASSERT_TRUE(connected.has_value());
  EXPECT_EQ(std::string(connected->early.begin(), connected->early.end()), std::string("\x82\x00 frames", 9));
}

TEST_F(ConnectorTest, AnAnswerInSmallPiecesIsTheSame) {
  request();
  const std::string text = server->last().switching("tunnelmesh.v1") + "tail";
  for (const char c : text.substr(0, text.size() - 4)) {
    EXPECT_EQ(done_count, 0u);
    server->last().reply({&c, 1});
    ASSERT_FALSE(run_until([] { return false; }, 200));
  }
  ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  EXPECT_TRUE(connected.has_value());
}

TEST_F(ConnectorTest, TheConnectedTransportNoLongerKnowsTheConnector) {
  request();
  answer(server->last().switching("tunnelmesh.v1"));
  ASSERT_TRUE(connected.has_value());
  connector.reset();
  // Events for nobody: more bytes, then the end.
  connected->transport.read(true);
  server->last().reply("bytes for nobody");
  ASSERT_FALSE(run_until([] { return false; }, 10'000));
  server->peers.clear();
  ASSERT_FALSE(run_until([] { return false; }, 10'000));
}

TEST_F(ConnectorTest, AStatusOtherThan101IsReportedWithIt) {
  struct Row {
    int status;
    const char* word;
  };
  for (const Row& row :
       {Row{400, "101"}, Row{401, "token"}, Row{403, "refuses"}, Row{404, "path"}, Row{426, "101"},
        Row{500, "101"}, Row{502, "proxy"}, Row{503, "proxy"}, Row{200, "101"}}) {
    request();
    answer("HTTP/1.1 " + std::to_string(row.status) + " Text\r\nContent-Length: 0\r\n\r\n");
    expect_failure("upgrade", TMESH_E_HTTP, row.status);
    EXPECT_NE(std::string_view(failure->text).find(row.word), std::string_view::npos) << failure->text;
    connector.reset();
    failure.reset();
    done_count = 0;
  }
}

TEST_F(ConnectorTest, AnUnofferedSubprotocolIsRefused) {
  for (const char* name :
       {"tunnelmesh.relay.v1", "tunnelmesh.v2", "tunnelmesh.v1, tunnelmesh.v1.open-result"}) {
    request();
    answer(server->last().switching(name));
    expect_failure("upgrade", TMESH_E_HTTP, 101);
    connector.reset();
    failure.reset();
    done_count = 0;
  }
}

TEST_F(ConnectorTest, ASelectionWithoutAnOfferIsRefused) {
  serve();
  start(false);
  ASSERT_TRUE(run_until([&] { return server->has_request(0); }));
  answer(server->last().switching("tunnelmesh.v1"));
  expect_failure("upgrade", TMESH_E_HTTP, 101);
}

TEST_F(ConnectorTest, AnAnswerToAnotherKeyIsRefused) {
  request();
  std::string text = server->last().switching("tunnelmesh.v1");
  text[text.find("Accept: ") + 8] ^= 1;
  answer(text);
  expect_failure("upgrade", TMESH_E_HTTP, 101);
}

TEST_F(ConnectorTest, GarbageIsRefused) {
  request();
  answer("SSH-2.0-OpenSSH_9.2\r\n");
  expect_failure("upgrade", TMESH_E_HTTP);
}

TEST_F(ConnectorTest, AHeaderWithoutEndIsRefused) {
  request();
  answer("HTTP/1.1 101 Switching Protocols\r\nX: " + std::string(20'000, 'x'));
  expect_failure("upgrade", TMESH_E_TOO_LARGE);
}

TEST_F(ConnectorTest, AServerThatClosesInsteadOfAnswering) {
  request();
  server->peers.clear();
  ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  expect_failure("upgrade", TMESH_E_CLOSED);
}

// Listens with so little room that a request of 15 KiB does not fit into the kernel.
class NarrowServer {
 public:
  NarrowServer() {
    const int small = 2304;
    ::setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), len), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &len), 0);
    port = ntohs(address.sin_port);
  }
  ~NarrowServer() {
    ::close(listener_);
    if (fd_ >= 0) ::close(fd_);
  }
  // The first bytes of the request.
  std::string begin() {
    if (fd_ < 0) fd_ = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    char buffer[512];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, MSG_PEEK);
    return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : "";
  }
  void reply(std::string_view text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  uint16_t port = 0;

 private:
  int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int fd_ = -1;
};

TEST_F(ConnectorTest, AnAnswerToHalfARequestIsNoAnswer) {
  // The bytes that still wait to be written must not go with the Connector.
  NarrowServer narrow;
  dialer.emplace(loop(), narrow.port);
  dialer->send_buffer_bytes = 4096;
  token = Secret(std::string(15'000, 't'));
  destroys_in_done = true;
  start();
  std::string got;
  ASSERT_TRUE(
      run_until([&] { return (got = narrow.begin()).find("Sec-WebSocket-Version") != std::string::npos; }));
  const std::size_t at = got.find("Sec-WebSocket-Key: ") + 19;
  char accept[TMESH_WS_ACCEPT_TEXT_BYTES];
  tmesh_ws_accept_key(got.data() + at, 24, accept);
  narrow.reply(std::string("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                           "Sec-WebSocket-Accept: ") +
               accept + "\r\n\r\n");
  ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  expect_failure("upgrade", TMESH_E_HTTP);
  EXPECT_NE(std::string_view(failure->text).find("before it has read"), std::string_view::npos);
}

TEST_F(ConnectorTest, SilenceEndsAfterTheTimeout) {
  request();
  timers.advance(Connector::kTimeout_us - 1);
  EXPECT_EQ(done_count, 0u);
  timers.advance(1);
  expect_failure("upgrade", TMESH_E_TIMEOUT);
}

TEST_F(ConnectorTest, ASilentDialEndsAfterTheTimeout) {
  serve();
  dialer->is_silent = true;
  start();
  timers.advance(Connector::kTimeout_us);
  EXPECT_EQ(dialer->cancelled_count, 1u);
  expect_failure("connect", TMESH_E_TIMEOUT);
}

TEST_F(ConnectorTest, ADialThatCannotStart) {
  serve();
  dialer->refusal = TMESH_E_DNS;
  start();
  timers.advance(0);
  expect_failure("dns", TMESH_E_DNS);
}

TEST_F(ConnectorTest, DialFailuresNameTheirStage) {
  for (const bool in_dns : {true, false}) {
    serve();
    dialer->result = test::FakeDialer::failed(in_dns ? TMESH_E_DNS : TMESH_E_NET_UNREACHABLE, in_dns);
    start();
    ASSERT_TRUE(run_until([&] { return done_count > 0; }));
    expect_failure(in_dns ? "dns" : "connect", in_dns ? TMESH_E_DNS : TMESH_E_NET_UNREACHABLE);
    connector.reset();
    failure.reset();
    done_count = 0;
  }
}

TEST_F(ConnectorTest, ARefusedPortThroughTheRealDialer) {
  auto real = net::Dialer::create(loop());
  ASSERT_TRUE(real.has_value());
  {
    FakeServer gone(loop());
    endpoint.url.port = gone.port();
  }
  endpoint.url.host = "127.0.0.1";
  endpoint.url.path = "/ws/client";
  make(**real, true);
  connector->start();
  ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  expect_failure("connect", TMESH_E_REFUSED);
  connector.reset();
}

TEST_F(ConnectorTest, ATokenThatHttpCannotCarryIsNotSent) {
  token = Secret("line\r\nbreak");
  serve();
  start();
  ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  expect_failure("upgrade", TMESH_E_INVALID);
  ASSERT_FALSE(run_until([&] { return server->count() > 0 && !server->last().bytes.empty(); }, 10'000));
}

TEST_F(ConnectorTest, MayBeDestroyedInsideDone) {
  destroys_in_done = true;
  request();
  answer(server->last().switching("tunnelmesh.v1"));
  EXPECT_TRUE(connected.has_value());
  connected.reset();
  done_count = 0;
  request();
  answer("HTTP/1.1 500 No\r\n\r\n");
  EXPECT_EQ(failure->http_status, 500);
  done_count = 0;
  serve();
  dialer->result = test::FakeDialer::failed(TMESH_E_REFUSED);
  start();
  ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  done_count = 0;
  serve();
  dialer->refusal = TMESH_E_LIMIT;
  start();
  timers.advance(0);
  EXPECT_EQ(done_count, 1u);
  done_count = 0;
  request();
  timers.advance(Connector::kTimeout_us);
  EXPECT_EQ(done_count, 1u);
}

TEST_F(ConnectorTest, DestroyingCancelsAtEveryStep) {
  const auto cancel = [&] {
    connector.reset();
    EXPECT_FALSE(run_until([&] { return done_count > 0; }, 10'000));
    EXPECT_EQ(timers.count(), 0u);
  };
  serve();
  make();
  cancel();  // not started
  start();
  cancel();  // dialling
  EXPECT_EQ(dialer->cancelled_count, 1u);
  dialer->refusal = TMESH_E_LIMIT;
  start();
  cancel();  // a deferred failure
  request();
  cancel();  // waiting for the answer
  ASSERT_TRUE(run_until([&] { return server->last().is_eof || server->last().down.has_value(); }));
}

}  // namespace
}  // namespace tmesh::session
