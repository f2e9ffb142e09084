// ProxyConnection: requests and answers that go as they should.
#include <gtest/gtest.h>

#include <string>

#include "tests/cpp/http/proxy/plan_fixture.hpp"
#include "tests/support/proxy_world.hpp"

namespace tmesh::http {
namespace {

using test::ProxyWorld;
using Verdict = ProxyConnection::Verdict;
using Wait = ProxyConnection::Wait;

const std::string kGet = wire("GET http://a/1 HTTP/1.1\nHost: a\n\n");
const std::string kGetForwarded = wire("GET /1 HTTP/1.1\nHost: a\n\n");
const std::string kAnswer = wire("HTTP/1.1 200 OK\nContent-Length: 2\n\n") + "hi";

TEST(ProxyConnection, OneRequestAfterTheOther) {
  ProxyWorld w;
  for (int i = 0; i < 3; i++) {
    w.say(kGet);
    EXPECT_EQ(w.origin().received, kGetForwarded);
    w.origin().received.clear();
    w.answer(kAnswer);
    EXPECT_EQ(w.take(), kAnswer);
    EXPECT_TRUE(w.connection.is_idle());
  }
  EXPECT_EQ(w.origins.size(), 1u) << "the connection to the origin stays";
  EXPECT_EQ(w.connection.requests_count(), 3u);
  w.finish();
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
}

// LESSONS P-J7.
TEST(ProxyConnection, ThreePipelinedRequestsAreAnsweredInOrder) {
  ProxyWorld w;
  w.say(kGet + wire("GET http://b/2 HTTP/1.1\nHost: b\n\n") + wire("GET http://a/3 HTTP/1.1\nHost: a\n\n"));
  ASSERT_EQ(w.origins.size(), 1u) << "the second waits for the first answer";
  EXPECT_EQ(w.origin().received, kGetForwarded);
  w.answer(kAnswer);
  ASSERT_EQ(w.origins.size(), 2u);
  EXPECT_EQ(w.origins[0].was_closed, true);
  EXPECT_EQ(w.origin().place.host, "b");
  EXPECT_EQ(w.origin().received, wire("GET /2 HTTP/1.1\nHost: b\n\n"));
  w.answer(wire("HTTP/1.1 404 No\nTransfer-Encoding: chunked\n\n") + wire("1\nx\n0\n\n"));
  ASSERT_EQ(w.origins.size(), 3u);
  w.answer(kAnswer);
  EXPECT_EQ(w.take(), kAnswer + wire("HTTP/1.1 404 No\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n") + kAnswer);
}

TEST(ProxyConnection, ChunksAndTrailersPassBothWaysAsTheyCame) {
  ProxyWorld w;
  const std::string body = wire("3;ext=1\nabc\n00002\nde\n0\nX-Sum: 5\n\n");
  w.say(
      wire("POST http://a/ HTTP/1.1\nHost: a\nTE: trailers\nTransfer-Encoding: chunked\nTrailer: X-Sum\n\n") +
      body);
  EXPECT_EQ(w.origin().received, wire("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nTrailer: X-Sum\n"
                                      "TE: trailers\nConnection: TE\n\n") +
                                     body);
  w.answer(wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n") + body);
  EXPECT_EQ(w.take(), wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n") + body);
  EXPECT_TRUE(w.connection.is_idle());
}

TEST(ProxyConnection, HeadAndNotModifiedHaveNoBody) {
  ProxyWorld w;
  w.say(wire("HEAD http://a/ HTTP/1.1\nHost: a\n\n"));
  w.answer(wire("HTTP/1.1 200 OK\nContent-Length: 5000\n\n"));
  EXPECT_TRUE(w.connection.is_idle());
  w.say(kGet);
  w.answer(wire("HTTP/1.1 304 Not Modified\nContent-Length: 5000\n\n"));
  EXPECT_TRUE(w.connection.is_idle());
  w.say(kGet);
  w.answer(wire("HTTP/1.1 204 No Content\n\n"));
  EXPECT_TRUE(w.connection.is_idle());
  EXPECT_EQ(w.origins.size(), 1u);
}

TEST(ProxyConnection, ABodyUntilTheEndEndsTheClientsConnection) {
  ProxyWorld w;
  w.say(kGet);
  w.answer(wire("HTTP/1.1 200 OK\n\n") + "some");
  w.answer(" more");
  EXPECT_EQ(w.connection.verdict(), Verdict::running);
  w.end_answer();
  EXPECT_EQ(w.take(), wire("HTTP/1.1 200 OK\nConnection: close\n\n") + "some more");
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
  EXPECT_EQ(w.origin().was_closed, true);
}

TEST(ProxyConnection, HttpOneZeroIsServedOnce) {
  ProxyWorld w;
  w.say(wire("GET http://a/ HTTP/1.0\n\n"));
  EXPECT_EQ(w.origin().received, wire("GET / HTTP/1.0\nHost: a\nConnection: close\n\n"));
  w.answer(wire("HTTP/1.1 100 Continue\n\n") + kAnswer);
  EXPECT_EQ(w.take(), wire("HTTP/1.1 200 OK\nContent-Length: 2\nConnection: close\n\n") + "hi");
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
}

TEST(ProxyConnection, ConnectIsToldOnlyWhenItIsConnected) {
  ProxyWorld w;
  w.opens_at_once = false;
  w.say(wire("CONNECT a:443 HTTP/1.1\nHost: a:443\n\n") + "hello");
  EXPECT_EQ(w.take(), "");
  EXPECT_EQ(w.origin().received, "") << "nothing goes ahead of the answer";
  w.accept();
  EXPECT_EQ(w.take(), wire("HTTP/1.1 200 Connection established\n\n"));
  EXPECT_EQ(w.connection.verdict(), Verdict::tunnel);
  EXPECT_EQ(w.client_waiting, "hello");
}

// WIRE E: the request leaves before the open is answered.
TEST(ProxyConnection, ARequestGoesAheadOfTheAnswerToItsOpen) {
  ProxyWorld w;
  w.opens_at_once = false;
  w.origin_max_bytes = 100;
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 1000\n\n") + std::string(1000, 'x'));
  EXPECT_EQ(w.origin().received.size(), 100u);
  w.accept();
  w.origin_max_bytes = 10'000;
  w.connection.run();
  EXPECT_EQ(w.origin().received,
            wire("POST / HTTP/1.1\nHost: a\nContent-Length: 1000\n\n") + std::string(1000, 'x'));
}

// LESSONS R11, P-J4: what either side sent behind the switch is the other protocol's.
TEST(ProxyConnection, AnUpgradeBecomesATunnelAndLosesNoByte) {
  ProxyWorld w;
  w.say(wire("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n\n") + "\x81 early");
  EXPECT_EQ(w.origin().received,
            wire("GET / HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: Upgrade\n\n"));
  w.answer(wire("HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: upgrade\n\n") +
           "\x82"
           "at once");
  EXPECT_EQ(w.take(), wire("HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n\n"));
  EXPECT_EQ(w.connection.verdict(), Verdict::tunnel);
  EXPECT_EQ(w.client_waiting, "\x81 early");
  EXPECT_EQ(w.origin().waiting,
            "\x82"
            "at once");
}

TEST(ProxyConnection, ASwitchBeforeTheEndOfTheRequestOrOfABrokenConnectionIsNone) {
  const std::string ask =
      wire("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n\n");
  const std::string switching = wire("HTTP/1.1 101 x\nUpgrade: websocket\nConnection: upgrade\n\n");
  ProxyWorld early;
  early.origin_max_bytes = 20;
  early.say(ask);
  early.answer(switching);
  EXPECT_TRUE(early.take().starts_with("HTTP/1.1 502 "));
  ProxyWorld broken;
  broken.say(ask);
  broken.origin().waiting = switching;
  broken.break_origin();
  EXPECT_TRUE(broken.take().starts_with("HTTP/1.1 502 "));
}

TEST(ProxyConnection, ARefusedUpgradeEndsTheConnection) {
  ProxyWorld w;
  w.say(wire("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n\n") + kGet);
  w.answer(kAnswer);
  EXPECT_EQ(w.take(), wire("HTTP/1.1 200 OK\nContent-Length: 2\nConnection: close\n\n") + "hi");
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
  EXPECT_EQ(w.origins.size(), 1u) << "what came behind it may be of the other protocol";
}

TEST(ProxyConnection, OptionsAboutTheProxy) {
  ProxyWorld w;
  w.say(wire("OPTIONS * HTTP/1.1\nHost: p\n\n"));
  EXPECT_EQ(w.take(), wire("HTTP/1.1 200 OK\nDate: Sun, 06 Nov 1994 08:49:37 GMT\nContent-Length: 0\n\n"));
  EXPECT_TRUE(w.connection.is_idle());
}

TEST(ProxyConnection, MovesNoMoreThanThereIsRoomFor) {
  ProxyWorld w;
  w.client_max_bytes = 50;
  w.say(kGet);
  w.answer(wire("HTTP/1.1 200 OK\nContent-Length: 500\n\n") + std::string(500, 'x'));
  std::string got;
  while (w.client_received.size() > 0) {
    ASSERT_LE(w.client_received.size(), 50u);
    got += w.take();
  }
  EXPECT_EQ(got, wire("HTTP/1.1 200 OK\nContent-Length: 500\n\n") + std::string(500, 'x'));
}

// Our own answers need no origin that would slow the client down.
TEST(ProxyConnection, AClientThatDoesNotReadIsNotAnswered) {
  ProxyWorld w;
  w.client_max_bytes = 500;
  std::string many;
  for (int i = 0; i < 100; i++) many += wire("OPTIONS * HTTP/1.1\nHost: p\n\n");
  w.say(many);
  EXPECT_LT(w.client_received.size(), 700u);
  EXPECT_FALSE(w.client_waiting.empty());
}

TEST(ProxyConnection, TellsWhatItWaitsFor) {
  ProxyWorld w;
  EXPECT_EQ(w.connection.wait(), Wait::request);
  w.say("GET http");
  EXPECT_EQ(w.connection.wait(), Wait::head);
  EXPECT_FALSE(w.connection.is_idle());
  w.say(kGet.substr(8));
  EXPECT_EQ(w.connection.wait(), Wait::nothing);
  w.answer(kAnswer);
  EXPECT_EQ(w.connection.wait(), Wait::request);
}

TEST(ProxyConnection, HeadsAreHeldOnlyWhileTheyAreNeeded) {
  ProxyWorld w;
  EXPECT_EQ(w.connection.held_bytes(), 0u);
  w.say(kGet.substr(0, 20));
  EXPECT_GT(w.connection.held_bytes(), 0u);
  w.origin_max_bytes = 5;
  w.say(kGet.substr(20));
  EXPECT_EQ(w.connection.held_bytes(), kGetForwarded.size()) << "not sent yet";
  w.origin_max_bytes = 1000;
  w.connection.run();
  EXPECT_EQ(w.origin().received, kGetForwarded);
  EXPECT_EQ(w.connection.held_bytes(), 0u) << "sent, and never to be sent again";
  w.answer(kAnswer.substr(0, 30));
  EXPECT_GT(w.connection.held_bytes(), 0u);
  w.answer(kAnswer.substr(30, kAnswer.size() - 31));
  EXPECT_EQ(w.connection.held_bytes(), 0u);
  w.answer(kAnswer.substr(kAnswer.size() - 1));
  ASSERT_TRUE(w.connection.is_idle());
  w.say(kGet);
  EXPECT_EQ(w.connection.held_bytes(), kGetForwarded.size()) << "it may have to be sent once more";
  w.answer("H");
  EXPECT_EQ(w.connection.held_bytes(), 0u);
  w.answer(kAnswer.substr(1));
  EXPECT_EQ(w.take(), kAnswer + kAnswer);
  EXPECT_EQ(w.origins.size(), 1u);
}

TEST(ProxyConnection, StopMakesTheRunningAnswerTheLast) {
  ProxyWorld w;
  w.say(kGet);
  w.connection.stop();
  EXPECT_EQ(w.connection.verdict(), Verdict::running);
  w.answer(kAnswer);
  EXPECT_EQ(w.take(), wire("HTTP/1.1 200 OK\nContent-Length: 2\nConnection: close\n\n") + "hi");
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
  ProxyWorld begun;  // and said nothing of it
  begun.say(kGet);
  begun.answer(kAnswer.substr(0, kAnswer.size() - 1));
  begun.connection.stop();
  begun.answer(kAnswer.substr(kAnswer.size() - 1));
  EXPECT_EQ(begun.take(), kAnswer);
  EXPECT_EQ(begun.connection.verdict(), Verdict::close);
  ProxyWorld idle;
  idle.connection.stop();
  EXPECT_EQ(idle.connection.verdict(), Verdict::close);
}

TEST(ProxyConnection, AHalfClosedClientGetsItsAnswer) {
  ProxyWorld w;
  w.say(kGet);
  w.finish();
  EXPECT_EQ(w.connection.verdict(), Verdict::running);
  w.answer(kAnswer);
  EXPECT_EQ(w.take(), kAnswer);
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
}

}  // namespace
}  // namespace tmesh::http
