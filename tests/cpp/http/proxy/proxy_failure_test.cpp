// ProxyConnection: what cannot be completed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cpp/http/proxy/plan_fixture.hpp"
#include "tests/support/proxy_world.hpp"

namespace tmesh::http {
namespace {

using test::ProxyWorld;
using Verdict = ProxyConnection::Verdict;

const std::string kGet = wire("GET http://a/1 HTTP/1.1\nHost: a\n\n");
const std::string kAnswer = wire("HTTP/1.1 200 OK\nContent-Length: 2\n\n") + "hi";

void expect_status(const std::string& answer, int status, std::string_view error) {
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ")) << answer;
  EXPECT_NE(answer.find("\r\nProxy-Status: TunnelMesh; error=" + std::string(error)), std::string::npos)
      << answer;
}

TEST(ProxyFailure, ARefusedOpenIsAnsweredAndTheConnectionGoesOn) {
  ProxyWorld w;
  w.opens_at_once = false;
  w.say(kGet);
  w.refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED);
  const std::string answer = w.take();
  expect_status(answer, 502, "connection_refused; details=\"stage=connect, code=connection_refused\"");
  EXPECT_EQ(answer.find("\r\nConnection:"), std::string::npos);
  EXPECT_TRUE(w.connection.is_idle());
  w.say(kGet);
  EXPECT_EQ(w.origins.size(), 2u);
  w.accept();
  w.answer(kAnswer);
  EXPECT_EQ(w.take(), kAnswer);
}

TEST(ProxyFailure, ARefusedConnectEndsTheConnection) {
  ProxyWorld w;
  w.opens_at_once = false;
  w.say(wire("CONNECT a:443 HTTP/1.1\nHost: a:443\n\n"));
  w.refuse(TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN);
  const std::string answer = w.take();
  expect_status(answer, 403, "http_request_denied");
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_EQ(w.connection.verdict(), Verdict::close) << "what follows may be the tunnel's";
}

TEST(ProxyFailure, TheRestOfARefusedRequestIsReadOver) {
  ProxyWorld w;
  w.opens_at_once = false;
  w.origin_max_bytes = 0;
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 6\n\n") + "abc");
  w.refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL);
  expect_status(w.take(), 503, "connection_limit_reached");
  w.say("def" + wire("OPTIONS * HTTP/1.1\nHost: p\n\n"));
  EXPECT_TRUE(w.take().starts_with("HTTP/1.1 200"));
}

// Bytes that were read and not passed on are of the request, too.
TEST(ProxyFailure, NoByteOfARefusedRequestIsTakenForTheNext) {
  ProxyWorld w;
  w.opens_at_once = false;
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 6\n\n"));
  w.has_memory = false;
  w.say("abc");
  w.has_memory = true;
  w.refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL);
  w.take();
  w.say("def" + wire("OPTIONS * HTTP/1.1\nHost: p\n\n"));
  EXPECT_TRUE(w.take().starts_with("HTTP/1.1 200"));
}

TEST(ProxyFailure, AMalformedRequestIsA400AndTheEnd) {
  for (const char* text :
       {"nonsense\n\n", "GET / HTTP/1.1\nHost: a\n\n", "GET http://a/ HTTP/1.1\n\n",
        "GET http://a/ HTTP/1.1\nHost: a\nX : y\n\n", "CONNECT a HTTP/1.1\nHost: a\n\n",
        "POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 1\nTransfer-Encoding: chunked\n\n"}) {
    ProxyWorld w;
    w.say(wire(text) + kGet);
    const std::string answer = w.take();
    expect_status(answer, 400, "http_request_error");
    EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos) << answer;
    EXPECT_EQ(w.connection.verdict(), Verdict::close);
    EXPECT_TRUE(w.origins.empty()) << "what stands behind it is not served";
  }
}

TEST(ProxyFailure, AMalformedBodyIsA400AndNoCompleteRequest) {
  for (const char* chunk : {"3\nabcd", "x", "1\nx\n0\nHost: b\n"}) {
    ProxyWorld w;
    w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n"));
    w.say(wire(chunk));
    expect_status(w.take(), 400, "http_request_error");
    EXPECT_EQ(w.connection.verdict(), Verdict::close);
    EXPECT_EQ(w.origin().was_closed, false);
  }
}

// LESSONS R5.
TEST(ProxyFailure, ACutRequestIsNoCompleteOne) {
  ProxyWorld w;
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 6\n\n") + "abc");
  w.finish();
  expect_status(w.take(), 400, "http_request_error");
  EXPECT_EQ(w.origin().was_closed, false);
  ProxyWorld answered;
  answered.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 6\n\n") + "abc");
  answered.answer(wire("HTTP/1.1 200 OK\nContent-Length: 10\n\n"));
  answered.finish();
  EXPECT_EQ(answered.connection.verdict(), Verdict::abort);
  EXPECT_EQ(answered.origin().was_closed, false);
}

TEST(ProxyFailure, AnAnswerThatHasNoSingleReadingIsA502) {
  for (const char* text :
       {"HTTP/1.1 200 OK\nContent-Length: 1\nTransfer-Encoding: chunked\n\n", "SSH-2.0-x\n",
        "HTTP/1.1 200 OK\nX : y\n\n", "HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2\n\n",
        "HTTP/1.1 200 OK\nX: y\n z\n\n", "HTTP/1.1 101 x\nUpgrade: y\nConnection: Upgrade\n\n",
        "HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked\n\n"}) {
    ProxyWorld w;
    w.say(kGet);
    w.answer(wire(text));
    expect_status(w.take(), 502, "http_protocol_error");
    EXPECT_EQ(w.origin().was_closed, false);
    EXPECT_TRUE(w.connection.is_idle());
  }
}

TEST(ProxyFailure, AnAnswerThatDoesNotComeIsA502) {
  for (const char* text : {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\nX: y\n"}) {
    for (const bool is_broken : {false, true}) {
      ProxyWorld w;
      w.say(kGet);
      w.answer(wire(text));
      if (is_broken) {
        w.break_origin();
      } else {
        w.end_answer();
      }
      expect_status(w.take(), 502, "http_response_incomplete");
      EXPECT_EQ(w.connection.verdict(), Verdict::running);
    }
  }
}

// LESSONS R5: a cut body must not look whole.
TEST(ProxyFailure, ACutAnswerAbortsTheClient) {
  for (const char* head :
       {"HTTP/1.1 200 OK\nContent-Length: 10\n\n", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\n"}) {
    ProxyWorld w;
    w.say(kGet);
    w.answer(wire(head) + "abc");
    w.end_answer();
    EXPECT_EQ(w.connection.verdict(), Verdict::abort);
  }
  ProxyWorld until_end;
  until_end.say(kGet);
  until_end.answer(wire("HTTP/1.1 200 OK\n\n") + "abc");
  until_end.break_origin();
  EXPECT_EQ(until_end.connection.verdict(), Verdict::abort);
  ProxyWorld malformed;
  malformed.say(kGet);
  malformed.answer(wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\n") + "abcd");
  EXPECT_EQ(malformed.connection.verdict(), Verdict::abort);
}

class ProxyReuse : public ::testing::Test {
 protected:
  ProxyReuse() {
    w.say(kGet);
    w.answer(kAnswer);
    EXPECT_EQ(w.take(), kAnswer);
  }
  ProxyWorld w;
};

TEST_F(ProxyReuse, AStaleConnectionIsReplacedOnce) {
  w.say(wire("GET http://a/2 HTTP/1.1\nHost: a\n\n"));
  ASSERT_EQ(w.origins.size(), 1u);
  w.end_answer();
  ASSERT_EQ(w.origins.size(), 2u);
  EXPECT_EQ(w.origin().received, wire("GET /2 HTTP/1.1\nHost: a\n\n"));
  w.end_answer();
  expect_status(w.take(), 502, "http_response_incomplete");
  EXPECT_EQ(w.origins.size(), 2u);
}

TEST_F(ProxyReuse, ARequestThatGotAByteIsNotRepeated) {
  w.say(kGet);
  w.answer("H");
  w.end_answer();
  expect_status(w.take(), 502, "http_response_incomplete");
  EXPECT_EQ(w.origins.size(), 1u);
}

// The client used its connection once more at the same risk, and knows what an end without an
// answer means there.
TEST_F(ProxyReuse, WhatCannotBeRepeatedEndsAsTheOriginEndedIt) {
  for (const char* text : {"POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 0\n\n",
                           "PUT http://a/ HTTP/1.1\nHost: a\nContent-Length: 1\n\nx",
                           "POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 5\n\nx"}) {
    for (const bool is_broken : {false, true}) {
      ProxyWorld used;
      used.say(kGet);
      used.answer(kAnswer);
      used.take();
      used.say(wire(text));
      EXPECT_EQ(used.origins.size(), 1u) << text;
      if (is_broken) {
        used.break_origin();
      } else {
        used.end_answer();
      }
      EXPECT_EQ(used.origins.size(), 1u) << text;
      EXPECT_EQ(used.take(), "");
      EXPECT_EQ(used.connection.verdict(), Verdict::close);
      EXPECT_EQ(used.origin().was_closed, false);
    }
  }
}

TEST_F(ProxyReuse, OtherPlacesGetTheirOwnConnection) {
  w.say(wire("GET http://a:81/ HTTP/1.1\nHost: a\n\n"));
  ASSERT_EQ(w.origins.size(), 2u);
  EXPECT_EQ(w.origins[0].was_closed, true);
  EXPECT_EQ(w.origin().place, (HostPort{"a", 81}));
}

TEST_F(ProxyReuse, AnEndWhileItIsIdleIsNoFailure) {
  w.end_answer();
  EXPECT_EQ(w.origin().was_closed, true);
  w.say(kGet);
  EXPECT_EQ(w.origins.size(), 2u);
}

TEST_F(ProxyReuse, AnOriginThatSaidCloseIsNotUsedAgain) {
  w.say(kGet);
  w.answer(wire("HTTP/1.1 200 OK\nConnection: close\nContent-Length: 2\n\n") + "hi");
  EXPECT_EQ(w.take(), kAnswer);
  EXPECT_EQ(w.origin().was_closed, true);
  w.say(kGet);
  EXPECT_EQ(w.origins.size(), 2u);
}

TEST_F(ProxyReuse, AnAnswerOfOurOwnLeavesItInPeace) {
  w.say(wire("OPTIONS * HTTP/1.1\nHost: p\n\n"));
  EXPECT_TRUE(w.take().starts_with("HTTP/1.1 200"));
  EXPECT_FALSE(w.origin().was_closed.has_value());
  w.say(kGet);
  EXPECT_EQ(w.origins.size(), 1u);
}

// Response splitting: bytes between two exchanges never become an answer.
TEST_F(ProxyReuse, BytesNobodyAskedForEndIt) {
  w.answer(kAnswer);
  EXPECT_EQ(w.origin().was_closed, false);
  EXPECT_EQ(w.take(), "");
  w.say(kGet);
  ASSERT_EQ(w.origins.size(), 2u);
  w.answer(kAnswer + kAnswer);
  EXPECT_EQ(w.take(), kAnswer);
  EXPECT_TRUE(w.origin().was_closed.has_value());
}

TEST(ProxyFailure, WithoutMemoryNothingLooksWhole) {
  ProxyWorld w;
  w.say(kGet);
  w.has_memory = false;
  w.answer(kAnswer);
  EXPECT_EQ(w.connection.verdict(), Verdict::abort);
  ProxyWorld later;
  later.say(kGet);
  later.answer(wire("HTTP/1.1 200 OK\nContent-Length: 4\n\n"));
  later.has_memory = false;
  later.answer("abcd");
  EXPECT_EQ(later.connection.verdict(), Verdict::running) << "the owner says when it is hopeless";
  later.has_memory = true;
  later.connection.run();
  EXPECT_TRUE(later.take().ends_with("abcd"));
  EXPECT_TRUE(later.connection.is_idle());
}

}  // namespace
}  // namespace tmesh::http
