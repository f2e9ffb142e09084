// HttpEntry: time, ends, and what is left behind; and the gateway.
#include <vector>

#include "cpp/client/leaving_streams.hpp"
#include "cpp/http/message.hpp"
#include "tests/cpp/client/http_entry_fixture.hpp"

namespace tmesh::client {
namespace {

TEST_F(HttpEntryTest, ASilentClientIsClosedAfterTheHandshakeTimeout) {
  deps.handshake_timeout_us = 30'000;
  make();
  RawClient silent(entry->port());
  RawClient half(entry->port());
  half.send("GET http://a/ HT");
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 2; }));
  ASSERT_TRUE(run_until([&] { return silent.is_over() && half.is_over(); }));
  EXPECT_EQ(entry->locals_count(), 0u);
}

TEST_F(HttpEntryTest, DripsDoNotStretchTheTimeOfTheFirstHead) {
  deps.handshake_timeout_us = 60'000;
  make();
  RawClient slow(entry->port());
  const uint64_t start_us = loop().now_us();
  ASSERT_TRUE(run_until([&] {
    slow.send("\r\n");
    run_until([] { return false; }, 3'000);
    return slow.is_over();
  }));
  EXPECT_LT(loop().now_us() - start_us, 2'000'000u);
}

TEST_F(HttpEntryTest, TheNextHeadHasATimeoutAndTheTimeBetweenIsLonger) {
  deps.handshake_timeout_us = 50'000;
  make();
  RawClient client = started();
  run_for(120'000);
  EXPECT_FALSE(client.is_over()) << "a slow answer is nobody's fault";
  far().send(answer("x"));
  expect_got(client, answer("x"));
  run_for(120'000);
  EXPECT_FALSE(client.is_over());
  client.send("GET");
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_FALSE(client.is_reset) << "its last answer may be on the way";
}

TEST_F(HttpEntryTest, ABodyThatIsOnlyReadOverHasATimeout) {
  deps.handshake_timeout_us = 30'000;
  make();
  opener.refusal = TMESH_E_CLOSED;
  RawClient client(entry->port());
  client.send(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 10\n\n"));
  own_answer(client, 503);
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
}

// A client that is slow to read, and its answer, which has left the stream.
class SlowClientTest : public HttpEntryTest {
 protected:
  RawClient slow_client() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int few_bytes = 4096;
    EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few_bytes, sizeof few_bytes), 0);
    EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &few_bytes, sizeof few_bytes), 0);
    return RawClient(entry->port(), fd);
  }
  // Until the kernel takes no more of them: the last ones wait in the entry.
  void send_until_it_waits(const std::string& before = {}, const std::string& behind = {}) {
    const std::string piece = before + std::string(0x4000, 'x') + behind;
    do {
      far().send(piece);
      sent_bytes += piece.size();
      ASSERT_LT(sent_bytes, 64u << 20);
    } while (run_until([&] { return far().unsent.empty() && loop().pool()->live_count == 0; }, 100'000));
  }
  // An answer that is complete, and of which the last bytes wait.
  void answer_until_it_waits(RawClient& client) {
    client.send(get("a"));
    ASSERT_TRUE(run_until([&] { return streams_count() == 1; }));
    far().answer(tmesh_open_accept());
    far().send(wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"));
    send_until_it_waits(wire("4000\n"), wire("\n"));
    far().send(wire("0\n\n"));
  }
  std::size_t sent_bytes = 0;
};

TEST_F(SlowClientTest, WhatEndsWithTheConnectionIsWrittenHoweverLongThatTakes) {
  make();
  RawClient client = slow_client();
  client.send(get("a"));
  ASSERT_TRUE(run_until([&] { return streams_count() == 1; }));
  far().answer(tmesh_open_accept());
  const std::string head = wire("HTTP/1.1 200 OK\nConnection: close\n\n");
  far().send(head);
  send_until_it_waits();
  far().finish();
  // It is the target's last word: nothing else will be asked for.
  ASSERT_TRUE(run_until([&] { return far().is_eof; }));
  run_for(50'000);
  EXPECT_EQ(entry->locals_count(), 1u) << "a socket that is only closed has some seconds for its last bytes";
  EXPECT_FALSE(client.is_reset);
  // What it sends meanwhile is nobody's, and does not stop it from reading.
  const std::string ignored(65'536, 'y');
  for (int i = 0; i < 50; i++) {
    std::size_t at = 0;
    ASSERT_TRUE(run_until([&] { return (at += client.send(ignored.substr(at))) == ignored.size(); }));
  }
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_EQ(client.received.size(), head.size() + sent_bytes);
  EXPECT_FALSE(client.is_reset);
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
}

TEST_F(SlowClientTest, TheTimeBetweenRequestsBeginsWhenTheAnswerIsWritten) {
  make();
  const std::size_t before = loop().timer_count();
  RawClient client = slow_client();
  answer_until_it_waits(client);
  run_for(50'000);
  EXPECT_EQ(loop().timer_count(), before);
  ASSERT_TRUE(run_until([&] { return client.pump().received.ends_with("\r\n0\r\n\r\n"); }));
  ASSERT_TRUE(run_until([&] { return loop().timer_count() == before + 1; }));
}

// What is written late was another stream's: nothing of it is credited to the next.
TEST_F(SlowClientTest, CreditGoesToTheStreamTheBytesCameFrom) {
  make();
  RawClient client = slow_client();
  answer_until_it_waits(client);
  client.send(get("b"));
  ASSERT_TRUE(run_until([&] { return streams_count() == 2; }));
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return entry->stats().opens_count == 2; }));
  far().send(wire("HTTP/1.1 200 OK\nContent-Length: 9\n\n") + "part");
  ASSERT_TRUE(run_until([&] { return client.pump().received.ends_with("part"); }));
  const tmesh_recv_window& window = TMESH_CONTAINER(opener.mux->all.prev, tmesh_stream, in_all)->recv;
  EXPECT_EQ(window.credit_bytes + window.consumed_bytes, window.size_bytes);
}

TEST_F(SlowClientTest, ASwitchedStreamThatBreaksBeforeTheTunnelBeginsEndsTheClient) {
  make();
  RawClient client = slow_client();
  answer_until_it_waits(client);
  client.send(wire("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n\n"));
  ASSERT_TRUE(run_until([&] { return far().received.ends_with("Connection: Upgrade\r\n\r\n"); }));
  far().send(wire("HTTP/1.1 101 x\nUpgrade: websocket\nConnection: Upgrade\n\n"));
  ASSERT_TRUE(run_until([&] { return tmesh_stream_all_written(far().stream); }));
  run_for(20'000);
  EXPECT_EQ(entry->locals_count(), 1u);
  far().release();
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
}

// Requirement G1: what waits outside of queues counts as well, and can be a quarter of the memory.
TEST_F(HttpEntryTest, HeadsUnderWayCountTowardsTheMemoryBudget) {
  make();
  const tmesh_pool& pool = *loop().pool();
  const std::string value(60'000, 'x');
  const std::size_t held_bytes =
      std::string_view("http://a/X").size() + value.size() + sizeof(tmesh::http::Header);
  const std::size_t fitting_count = pool.budget_count * TMESH_BLOCK_BYTES / 4 / held_bytes;
  std::vector<RawClient> slow;
  for (std::size_t i = 1; i <= fitting_count; i++) {
    slow.emplace_back(entry->port());
    slow.back().send("GET http://a/ HTTP/1.1\r\nX: " + value);
    const std::size_t blocks = (i * held_bytes + TMESH_BLOCK_BYTES - 1) / TMESH_BLOCK_BYTES;
    ASSERT_TRUE(run_until([&] { return entry->locals_count() == i && pool.live_count == blocks; }));
  }
  slow.emplace_back(entry->port());
  slow.back().send("GET http://a/ HTTP/1.1\r\nX: " + value);
  ASSERT_TRUE(run_until([&] { return slow.back().is_over(); })) << "there is no memory for it";
  EXPECT_FALSE(slow.front().is_over());
  slow.clear();
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
  EXPECT_EQ(pool.live_count, 0u);
}

// LESSONS P-I8.
TEST_F(HttpEntryTest, AHundredSilentClientsDoNotDelayTheNext) {
  make();
  std::vector<RawClient> silent;
  for (int i = 0; i < 100; i++) silent.emplace_back(entry->port());
  RawClient client = started();
  far().send(answer("x"));
  expect_got(client, answer("x"));
  EXPECT_EQ(entry->locals_count(), 101u);
}

TEST_F(HttpEntryTest, StopListeningEndsWhoIsIdleAndLetsTheOthersFinish) {
  make();
  RawClient idle = started();
  far().send(answer("x"));
  expect_got(idle, answer("x"));
  PeerStream& waiting = far();
  RawClient busy = started("b");
  PeerStream& running = far();
  RawClient tunnel_client = connect_with(wire("CONNECT a:443 HTTP/1.1\nHost: a:443\n\n"));
  far().answer(tmesh_open_accept());
  expect_got(tunnel_client, wire("HTTP/1.1 200 Connection established\n\n"));
  entry->stop_listening();
  ASSERT_TRUE(run_until([&] { return idle.is_over(); }));
  EXPECT_FALSE(idle.is_reset);
  ASSERT_TRUE(run_until([&] { return waiting.is_eof; }));
  EXPECT_EQ(entry->locals_count(), 2u);
  running.send(answer("y"));
  ASSERT_TRUE(run_until([&] { return busy.is_over(); }));
  EXPECT_EQ(busy.received, wire("HTTP/1.1 200 OK\nContent-Length: 1\nConnection: close\n\n") + "y");
  EXPECT_FALSE(busy.is_reset);
  far().send("on");
  expect_got(tunnel_client, "on");
}

TEST_F(HttpEntryTest, DestroyingItEndsEverything) {
  make();
  RawClient silent(entry->port());
  RawClient opening = connect_with(get("a"));
  RawClient running = started("b");
  RawClient idle = started("c");
  far().send(answer("x"));
  expect_got(idle, answer("x"));
  entry.reset();
  ASSERT_TRUE(run_until(
      [&] { return silent.is_over() && opening.is_over() && running.is_over() && idle.is_over(); }));
  expect_no_streams();
}

TEST_F(HttpEntryTest, AThousandConnectionsLeaveNothingBehind) {
  make();
  for (int i = 0; i < 1000; i++) {
    RawClient client = connect_with(get("a"));
    if (i % 4 == 0) {
      far().answer(tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, false));
      own_answer(client, 502);
      client.finish();
    } else if (i % 4 == 1) {
      far().answer(tmesh_open_accept());
      far().send(wire("HTTP/1.1 200 OK\n\n") + "x");
      far().finish();
      ASSERT_TRUE(run_until([&] { return client.is_over(); }));
      client.finish();
    } else if (i % 4 == 2) {
      far().answer(tmesh_open_accept());
      far().send(answer("x"));
      expect_got(client, answer("x"));
      client.finish();
      ASSERT_TRUE(run_until([&] { return far().is_eof; }));
      far().finish();
    } else {
      client.reset();
    }
    ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
    server.last().streams.clear();
  }
  expect_no_streams();
  ASSERT_TRUE(run_until([&] { return loop().timer_count() == 0; }));
  EXPECT_EQ(loop().pool()->live_count, 0u);
}

TEST_F(HttpEntryTest, ALeavingStreamEndsByItselfOrIsReset) {
  make();
  LeavingStreams patient(loop());
  LeavingStreams hasty(loop(), 30'000);
  OpenRequest request;
  request.host = "a";
  request.port = 80;
  for (int turn = 0; turn < 4; turn++) {
    LeavingStreams& leaving = turn == 3 ? hasty : patient;
    leaving.add(opener.open(request, false, nullptr)->stream);
    ASSERT_TRUE(run_until([&] { return streams_count() == static_cast<std::size_t>(turn) + 1; }));
    far().answer(tmesh_open_accept());
    ASSERT_TRUE(run_until([&] { return far().is_eof; }));
    if (turn != 3) {
      EXPECT_EQ(leaving.count(), 1u);
    }
    if (turn == 0) far().finish();
    if (turn == 1) far().send("nobody reads this");
    if (turn == 2) far().release();
    ASSERT_TRUE(run_until([&] { return leaving.count() == 0; }));
    const bool is_reset = turn == 1 || turn == 3;
    EXPECT_EQ(run_until([&] { return far().over.has_value(); }, is_reset ? 5'000'000 : 20'000), is_reset)
        << turn;
  }
  patient.add(opener.open(request, false, nullptr)->stream);
}

class GatewayTest : public HttpEntryTest {
 protected:
  GatewayTest() {
    tunnel.protocol = config::Tunnel::Protocol::http;
    tunnel.target_host = "web.internal";
    tunnel.target_port = 8443;
  }
  std::string own_host() { return "127.0.0.1:" + std::to_string(entry->port()); }
};

TEST_F(GatewayTest, OpensTheTargetAsHttpWithEarlyData) {
  make();
  RawClient client = connect_with(wire("GET /x HTTP/1.1\nHost: " + own_host() + "\n\n"));
  EXPECT_STREQ(far().open.target_host, "web.internal");
  EXPECT_EQ(far().open.target_port, 8443);
  EXPECT_EQ(far().open.protocol, TMESH_OPEN_HTTP);
  EXPECT_FALSE(far().open.is_target_https);
  const std::string sent = forwarded("web.internal:8443", "/x");
  ASSERT_TRUE(run_until([&] { return data_bytes_at_the_server() == sent.size(); }));
  far().answer(tmesh_open_accept());
  expect_received(far(), sent);
  far().send(wire("HTTP/1.1 302 Found\nContent-Length: 0\nLocation: http://web.internal:8443/y\n\n"));
  expect_got(client,
             wire("HTTP/1.1 302 Found\nContent-Length: 0\nLocation: http://" + own_host() + "/y\n\n"));
}

TEST_F(GatewayTest, AnHttpsTargetIsTheAgentsBusiness) {
  tunnel.is_target_https = true;
  tunnel.tls_server_name = "wiki.example";
  make();
  RawClient client = connect_with(wire("GET / HTTP/1.1\nHost: localhost\n\n"));
  EXPECT_TRUE(far().open.is_target_https);
  EXPECT_STREQ(far().open.tls_server_name, "wiki.example");
  EXPECT_STREQ(far().open.host_header, "web.internal:8443");
}

TEST_F(GatewayTest, OtherHostsAre421) {
  tunnel.hosts = {"wiki.example"};
  make();
  for (const std::string& host :
       {std::string("evil.example"), std::string("127.0.0.1:1"), std::string("127.0.0.1")}) {
    RawClient client(entry->port());
    client.send(wire("GET / HTTP/1.1\nHost: " + host + "\n\n"));
    own_answer(client, 421);
    ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  }
  EXPECT_TRUE(opener.calls.empty());
  RawClient named = connect_with(wire("GET / HTTP/1.1\nHost: wiki.example\n\n"));
}

}  // namespace
}  // namespace tmesh::client
