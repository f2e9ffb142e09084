// HttpEntry as a proxy, over real sockets: streams, credit, early data and ends.
#include <vector>

#include "cpp/http/proxy/proxy_answer.hpp"
#include "tests/cpp/client/http_entry_fixture.hpp"

namespace tmesh::client {
namespace {

TEST_F(HttpEntryTest, ARequestIsAStreamToTheHostItNames) {
  make();
  RawClient client = connect_with(get("origin:8080", "/x"));
  EXPECT_STREQ(far().open.target_host, "origin");
  EXPECT_EQ(far().open.target_port, 8080);
  EXPECT_EQ(far().open.protocol, TMESH_OPEN_TCP);
  far().answer(tmesh_open_accept());
  expect_received(far(), forwarded("origin:8080", "/x"));
  far().send(answer("hello"));
  expect_got(client, answer("hello"));
  EXPECT_EQ(entry->stats().opens_count, 1u);
}

// WIRE E: first byte in one round trip.
TEST_F(HttpEntryTest, TheRequestGoesWithTheOpen) {
  make();
  const std::string head = wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 100000\n\n");
  const std::string sent = wire("POST / HTTP/1.1\nHost: a\nContent-Length: 100000\n\n");
  RawClient client = connect_with(head);
  ASSERT_TRUE(run_until([&] { return data_bytes_at_the_server() == sent.size(); }));
  client.send(std::string(100'000, 'x'));
  ASSERT_TRUE(run_until([&] { return data_bytes_at_the_server() == TMESH_EARLY_DATA_MAX_BYTES; }));
  run_for(10'000);
  EXPECT_EQ(data_bytes_at_the_server(), TMESH_EARLY_DATA_MAX_BYTES);
  far().answer(tmesh_open_accept());
  expect_received(far(), sent + std::string(100'000, 'x'));
}

TEST_F(HttpEntryTest, AHeadLongerThanEarlyDataArrivesWhole) {
  make();
  const std::string field = "X-Long: " + std::string(40'000, 'x') + "\r\n";
  RawClient client = connect_with(wire("GET http://a/ HTTP/1.1\nHost: a\n") + field + "\r\n");
  far().answer(tmesh_open_accept());
  expect_received(far(), wire("GET / HTTP/1.1\nHost: a\n") + field + "\r\n");
}

TEST_F(HttpEntryTest, TheNextRequestToTheSamePlaceUsesTheSameStream) {
  make();
  RawClient client = started();
  for (int i = 0; i < 3; i++) {
    far().received.clear();
    far().send(answer("x"));
    expect_got(client, answer("x"));
    client.send(get("a", "/next"));
    expect_received(far(), forwarded("a", "/next"));
  }
  EXPECT_EQ(streams_count(), 1u);
}

TEST_F(HttpEntryTest, ANextRequestElsewhereLeavesTheFirstStreamInPeace) {
  make();
  RawClient client = started();
  far().send(answer("x"));
  expect_got(client, answer("x"));
  PeerStream& first = far();
  client.send(get("b"));
  ASSERT_TRUE(run_until([&] { return streams_count() == 2; }));
  ASSERT_TRUE(run_until([&] { return first.is_eof; }));
  EXPECT_FALSE(first.over.has_value()) << "no reset";
  first.finish();
  far().answer(tmesh_open_accept());
  far().send(answer("y"));
  expect_got(client, answer("y"));
}

TEST_F(HttpEntryTest, AStreamThatEndedMeanwhileIsReplaced) {
  make();
  RawClient client = started();
  far().send(answer("x"));
  expect_got(client, answer("x"));
  // The request and the end cross.
  far().finish();
  client.send(get("a"));
  ASSERT_TRUE(run_until([&] { return streams_count() == 2; }));
  far().answer(tmesh_open_accept());
  expect_received(far(), forwarded("a"));
  far().send(answer("y"));
  expect_got(client, answer("y"));
}

// LESSONS R2: credit only after the bytes were written, and bounded without.
TEST_F(HttpEntryTest, AClientThatDoesNotReadHoldsOneWindow) {
  make();
  RawClient client = started();
  const int small = 65'536;
  ::setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  const std::string body(6'000'000, 'x');
  far().send(answer(body));
  std::size_t left = 0;
  ASSERT_TRUE(run_until([&] {
    const bool is_still = left == far().unsent.size();
    left = far().unsent.size();
    run_until([] { return false; }, 20'000);
    return is_still && left == far().unsent.size();
  }));
  EXPECT_GT(left, 100'000u);
  const tmesh_stream* const stream = TMESH_CONTAINER(opener.mux->all.next, tmesh_stream, in_all);
  // In the socket's queue and in the stream: a window, and what is queued there is not credited.
  const tmesh_recv_window& window = stream->recv;
  EXPECT_EQ(window.size_bytes, TMESH_WINDOW_INITIAL_BYTES);
  EXPECT_LT(stream->in.len_bytes, window.size_bytes - window.credit_bytes - window.consumed_bytes);
  ASSERT_TRUE(run_until([&] { return client.pump().received.size() == answer(body).size(); }, 20'000'000));
  EXPECT_EQ(client.received, answer(body));
}

TEST_F(HttpEntryTest, AnOriginThatDoesNotReadHoldsTheClient) {
  make();
  RawClient client = connect_with(wire("PUT http://a/ HTTP/1.1\nHost: a\nContent-Length: 3000000\n\n"));
  far().answer(tmesh_open_accept());
  expect_received(far(), wire("PUT / HTTP/1.1\nHost: a\nContent-Length: 3000000\n\n"));
  far().credits = false;
  far().received.clear();
  std::string upload(3'000'000, 'y');
  std::size_t sent = 0;
  ASSERT_FALSE(run_until(
      [&] {
        sent += client.send(std::string_view(upload).substr(sent));
        return far().received.size() > TMESH_WINDOW_INITIAL_BYTES;
      },
      100'000));
  far().credits = true;
  tmesh_stream_consumed(far().stream, far().received.size());
  ASSERT_TRUE(run_until([&] {
    sent += client.send(std::string_view(upload).substr(sent));
    return far().received.ends_with(upload);
  }));
  far().send(answer("ok"));
  expect_got(client, answer("ok"));
}

TEST_F(HttpEntryTest, ConnectIsATunnelWithHalfClose) {
  make();
  RawClient client = connect_with(wire("CONNECT a:443 HTTP/1.1\nHost: a:443\n\n") + "hello");
  EXPECT_EQ(far().open.target_port, 443);
  run_for(20'000);
  EXPECT_EQ(client.pump().received, "") << "not before the agent is connected";
  EXPECT_EQ(data_bytes_at_the_server(), 0u);
  far().answer(tmesh_open_accept());
  expect_got(client, wire("HTTP/1.1 200 Connection established\n\n"));
  expect_received(far(), "hello");
  client.finish();
  ASSERT_TRUE(run_until([&] { return far().is_eof; }));
  far().send("the rest");
  far().finish();
  expect_end(client, "the rest");
}

// LESSONS R11, P-J4.
TEST_F(HttpEntryTest, AnUpgradeIsATunnelThatLosesNoByteAndHalfCloses) {
  make();
  RawClient client = connect_with(
      wire("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n\n") + "early");
  far().answer(tmesh_open_accept());
  const std::string asked = wire("GET / HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: Upgrade\n\n");
  expect_received(far(), asked);
  const std::string switching =
      wire("HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n\n");
  far().send(switching + "at once");
  expect_got(client, switching + "at once");
  const tmesh_recv_window& window = TMESH_CONTAINER(opener.mux->all.next, tmesh_stream, in_all)->recv;
  EXPECT_EQ(window.credit_bytes + window.consumed_bytes, window.size_bytes) << "all of it was consumed";
  expect_received(far(), asked + "early");
  far().finish();
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_FALSE(client.is_reset);
  client.send("later");
  client.finish();
  expect_received(far(), asked + "early" + "later");
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
}

// LESSONS R5.
TEST_F(HttpEntryTest, ACutAnswerIsAResetAndNoEnd) {
  make();
  for (const bool is_reset : {false, true}) {
    RawClient client = started();
    far().send(wire("HTTP/1.1 200 OK\nContent-Length: 100\n\n") + "cut");
    ASSERT_TRUE(run_until([&] { return client.pump().received.ends_with("cut"); }));
    if (is_reset) {
      far().release();
    } else {
      far().finish();
    }
    ASSERT_TRUE(run_until([&] { return client.is_over(); }));
    EXPECT_TRUE(client.is_reset);
    EXPECT_EQ(entry->locals_count(), 0u);
  }
}

TEST_F(HttpEntryTest, AnEarlyAnswerOfABrokenStreamIsDelivered) {
  make();
  RawClient client = connect_with(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 100\n\n"));
  far().answer(tmesh_open_accept());
  far().send(wire("HTTP/1.1 413 No\nContent-Length: 2\n\n") + "no");
  ASSERT_TRUE(run_until([&] { return tmesh_stream_all_written(far().stream); }));
  far().release();
  expect_end(client, wire("HTTP/1.1 413 No\nContent-Length: 2\nConnection: close\n\n") + "no");
}

TEST_F(HttpEntryTest, AClientThatGoesResetsTheStream) {
  make();
  RawClient client = started();
  far().send(wire("HTTP/1.1 200 OK\nContent-Length: 100\n\n") + "part");
  ASSERT_TRUE(run_until([&] { return client.pump().received.ends_with("part"); }));
  client.reset();
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
  EXPECT_EQ(entry->locals_count(), 0u);
}

TEST_F(HttpEntryTest, EveryRefusalHasItsStatus) {
  make();
  RawClient client(entry->port());
  for (unsigned code = TMESH_OPEN_FORBIDDEN; code < TMESH_OPEN_CODE_COUNT; code++) {
    if (code == TMESH_OPEN_UNSUPPORTED_CAPABILITY) continue;  // opened once more, as legacy
    const std::size_t before = streams_count();
    client.send(get("a"));
    ASSERT_TRUE(run_until([&] { return streams_count() == before + 1; }));
    far().answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, static_cast<tmesh_open_code>(code), false));
    const std::string head = own_answer(client, http::status_of_open(code));
    EXPECT_NE(head.find(std::string("code=") + tmesh_open_code_name(code)), std::string::npos) << head;
    EXPECT_EQ(head.find("Connection:"), std::string::npos);
  }
  EXPECT_FALSE(client.is_over());
  EXPECT_EQ(entry->stats().refused_count, TMESH_OPEN_CODE_COUNT - 2u);
}

TEST_F(HttpEntryTest, WithoutALinkItIs503) {
  make();
  opener.refusal = TMESH_E_CLOSED;
  RawClient client(entry->port());
  client.send(get("a"));
  EXPECT_NE(own_answer(client, 503).find("stage=selection, code=agent_offline"), std::string::npos);
  client.send(wire("CONNECT a:443 HTTP/1.1\nHost: a:443\n\n"));
  EXPECT_NE(own_answer(client, 503).find("Connection: close"), std::string::npos);
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_FALSE(client.is_reset);
}

TEST_F(HttpEntryTest, ALegacyLinkIsServedToo) {
  opener.is_strict = false;
  make();
  RawClient client = connect_with(get("a"));
  far().answer(tmesh_open_accept());
  expect_received(far(), forwarded("a"));
  far().send(answer("x"));
  expect_got(client, answer("x"));
  client.send(get("b"));
  ASSERT_TRUE(run_until([&] { return streams_count() == 2; }));
  far().answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
  own_answer(client, 502);
}

TEST_F(HttpEntryTest, ALoginIsDemandedAndNotPassedOn) {
  tunnel.auth = config::Tunnel::Auth::basic;
  deps.http_proxy = {"user", Secret("pass:word")};
  make();
  RawClient client(entry->port());
  client.send(get("a"));
  EXPECT_EQ(own_answer(client, 407).find("Connection:"), std::string::npos);
  EXPECT_TRUE(opener.calls.empty());
  client.send(wire("GET http://a/ HTTP/1.1\nHost: a\nProxy-Authorization: Basic dXNlcjpwYXNzOndvcmQ=\n\n"));
  ASSERT_TRUE(run_until([&] { return streams_count() == 1; }));
  far().answer(tmesh_open_accept());
  expect_received(far(), forwarded("a"));
}

struct Validator final : OpenValidator {
  explicit Validator(net::Loop& l) : loop(l) {}
  Ticket validate(const ValidationRequest& request, Delegate<void(bool)> done) override {
    asked.push_back(std::string(request.protocol) + " " + std::string(request.target_host) + ":" +
                    std::to_string(request.target_port) + " " + std::string(request.username) + " " +
                    std::string(request.password));
    said = done;
    return loop.after(0, Delegate<void()>::bind<&Validator::say>(this));
  }
  void say() { said(false); }

  net::Loop& loop;
  Delegate<void(bool)> said;
  std::vector<std::string> asked;
};

TEST_F(HttpEntryTest, AuthUrlIsAskedWithTheLoginAndItsNoIs403) {
  Validator validator(loop());
  EntryDeps asking{loop(), opener};
  asking.validator = &validator;
  asking.http_proxy = {"user", Secret("pass:word")};
  tunnel.auth = config::Tunnel::Auth::basic;
  tunnel.auth_url = "http://127.0.0.1/";
  server.last().become_link(test::mux_config(false));
  entry = make_entry(asking, tunnel, {});
  ASSERT_TRUE(entry->listen().has_value());
  RawClient client(entry->port());
  client.send(
      wire("GET http://a:81/ HTTP/1.1\nHost: a\nProxy-Authorization: Basic dXNlcjpwYXNzOndvcmQ=\n\n"));
  EXPECT_NE(own_answer(client, 403).find("stage=authorization, code=forbidden"), std::string::npos);
  EXPECT_EQ(validator.asked, std::vector<std::string>{"http-proxy a:81 user pass:word"});
  EXPECT_TRUE(opener.calls.empty());
  entry.reset();
}

}  // namespace
}  // namespace tmesh::client
