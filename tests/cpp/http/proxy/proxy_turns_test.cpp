// ProxyConnection: who speaks first. 100 Continue in all its turns (LESSONS P-J3), answers
// before the end of a request, logins, bodies that nobody wants.
#include <gtest/gtest.h>

#include <string>

#include "tests/cpp/http/proxy/plan_fixture.hpp"
#include "tests/support/proxy_world.hpp"

namespace tmesh::http {
namespace {

using test::ProxyWorld;
using Verdict = ProxyConnection::Verdict;

const std::string kGet = wire("GET http://a/1 HTTP/1.1\nHost: a\n\n");
const std::string kExpecting =
    wire("POST http://a/ HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 4\n\n");
const std::string kExpectingForwarded =
    wire("POST / HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 4\n\n");
const std::string kContinue = wire("HTTP/1.1 100 Continue\n\n");
const std::string kAnswer = wire("HTTP/1.1 200 OK\nContent-Length: 2\n\n") + "hi";

ProxyRules with_login() {
  ProxyRules rules;
  rules.has_login = true;
  rules.username = "user";
  rules.password = Secret("pass:word");
  return rules;
}
const std::string kLogin = wire("Proxy-Authorization: Basic dXNlcjpwYXNzOndvcmQ=\n");

TEST(ProxyContinue, TheOriginSaysSoOnce) {
  ProxyWorld w;
  w.say(kExpecting);
  EXPECT_EQ(w.origin().received, kExpectingForwarded);
  EXPECT_EQ(w.take(), "") << "none is made up";
  w.answer(kContinue);
  EXPECT_EQ(w.take(), kContinue);
  w.answer(kContinue);
  EXPECT_EQ(w.take(), "") << "no second one";
  w.say("body");
  w.answer(kAnswer);
  EXPECT_EQ(w.take(), kAnswer);
  EXPECT_TRUE(w.connection.is_idle());
  EXPECT_EQ(w.origin().received, kExpectingForwarded + "body");
}

TEST(ProxyContinue, ASilentOriginStopsNothing) {
  ProxyWorld w;
  w.say(kExpecting);
  w.say("body");  // the client's patience is over
  EXPECT_EQ(w.origin().received, kExpectingForwarded + "body");
  w.answer(kContinue + kAnswer);
  EXPECT_EQ(w.take(), kContinue + kAnswer);
}

TEST(ProxyContinue, A417AndAnEarly403PassAndEndTheConnection) {
  for (const char* status : {"417 Expectation Failed", "403 Forbidden"}) {
    ProxyWorld w;
    w.say(kExpecting);
    w.answer(wire(std::string("HTTP/1.1 ") + status + "\nContent-Length: 2\n\n") + "no");
    EXPECT_EQ(w.take(),
              wire(std::string("HTTP/1.1 ") + status + "\nContent-Length: 2\nConnection: close\n\n") + "no");
    EXPECT_EQ(w.connection.verdict(), Verdict::close);
    EXPECT_EQ(w.origin().was_closed, false) << "its request is not complete";
  }
}

TEST(ProxyContinue, OtherInterimAnswersPassEachTime) {
  ProxyWorld w;
  w.say(kGet);
  const std::string hint = wire("HTTP/1.1 103 Early Hints\nLink: </a>\n\n");
  w.answer(hint + hint + kAnswer);
  EXPECT_EQ(w.take(), hint + hint + kAnswer);
}

TEST(ProxyEarlyAnswer, FlowsWhileTheRequestDoes) {
  ProxyWorld w;
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 6\n\n") + "abc");
  w.answer(wire("HTTP/1.1 200 OK\nContent-Length: 4\n\n") + "xy");
  EXPECT_EQ(w.take(), wire("HTTP/1.1 200 OK\nContent-Length: 4\nConnection: close\n\n") + "xy");
  w.say("def");
  EXPECT_TRUE(w.origin().received.ends_with("abcdef"));
  w.answer("zz");
  EXPECT_EQ(w.take(), "zz");
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
  EXPECT_EQ(w.origin().was_closed, true);
}

// LESSONS P-B8: an origin that answers, does not read the rest and breaks the connection.
TEST(ProxyEarlyAnswer, SurvivesAnOriginThatBreaksOff) {
  ProxyWorld w;
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 600\n\n") + "abc");
  w.origin().waiting = wire("HTTP/1.1 413 Too Large\nContent-Length: 2\n\n") + "no";
  w.break_origin();
  EXPECT_EQ(w.take(), wire("HTTP/1.1 413 Too Large\nContent-Length: 2\nConnection: close\n\n") + "no");
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
}

TEST(ProxyEarlyAnswer, OfABrokenOriginNeedsNoMoreOfTheRequest) {
  ProxyWorld w;
  w.client_max_bytes = 80;
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 600\n\n") + "abc");
  w.origin().waiting = wire("HTTP/1.1 413 No\nContent-Length: 200\n\n") + std::string(200, 'x');
  w.break_origin();
  w.say("def");
  w.finish();
  std::string got;
  while (!w.client_received.empty()) got += w.take();
  EXPECT_TRUE(got.ends_with("\r\n\r\n" + std::string(200, 'x')));
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
}

TEST(ProxyLogin, A407KeepsTheConnection) {
  ProxyWorld w(with_login());
  w.say(kGet);
  const std::string refusal = w.take();
  EXPECT_TRUE(refusal.starts_with("HTTP/1.1 407 Proxy Authentication Required\r\n")) << refusal;
  EXPECT_NE(refusal.find("\r\nProxy-Authenticate: Basic realm=\"TunnelMesh\", charset=\"UTF-8\"\r\n"),
            std::string::npos);
  EXPECT_EQ(refusal.find("\r\nConnection:"), std::string::npos);
  EXPECT_TRUE(w.connection.is_idle());
  w.say(wire("GET http://a/1 HTTP/1.1\nHost: a\n") + kLogin + "\r\n");
  EXPECT_EQ(w.origin().received, wire("GET /1 HTTP/1.1\nHost: a\n\n")) << "without the login";
}

TEST(ProxyLogin, TheBodyOfARefusedRequestIsReadOverUpToALimit) {
  ProxyWorld w(with_login());
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 65536\n\n") + std::string(60'000, 'x'));
  EXPECT_TRUE(w.take().starts_with("HTTP/1.1 407"));
  EXPECT_EQ(w.connection.wait(), ProxyConnection::Wait::body);
  w.say(std::string(5'536, 'x') + wire("OPTIONS * HTTP/1.1\nHost: p\n") + kLogin + "\r\n");
  EXPECT_TRUE(w.take().starts_with("HTTP/1.1 200"));
  w.say(wire("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 65537\n\n"));
  EXPECT_NE(w.take().find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_EQ(w.connection.verdict(), Verdict::close);
}

TEST(ProxyLogin, ABodyThatMayNeverComeEndsTheConnection) {
  for (const char* fields : {"Expect: 100-continue\nContent-Length: 4\n", "Transfer-Encoding: chunked\n"}) {
    ProxyWorld w(with_login());
    w.say(wire(std::string("POST http://a/ HTTP/1.1\nHost: a\n") + fields + "\n"));
    EXPECT_NE(w.take().find("\r\nConnection: close\r\n"), std::string::npos);
    EXPECT_EQ(w.connection.verdict(), Verdict::close);
  }
}

TEST(ProxyLogin, ConnectIsAskedOnTheSameConnectionUnlessItWentAhead) {
  ProxyWorld w(with_login());
  w.say(wire("CONNECT a:443 HTTP/1.1\nHost: a:443\n\n"));
  EXPECT_TRUE(w.take().starts_with("HTTP/1.1 407"));
  EXPECT_TRUE(w.connection.is_idle());
  w.say(wire("CONNECT a:443 HTTP/1.1\nHost: a:443\n") + kLogin + "\r\n");
  EXPECT_EQ(w.connection.verdict(), Verdict::tunnel);
  ProxyWorld hasty(with_login());
  hasty.say(wire("CONNECT a:443 HTTP/1.1\nHost: a:443\n\n") + kGet);
  EXPECT_NE(hasty.take().find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_EQ(hasty.connection.verdict(), Verdict::close);
}

TEST(ProxyLogin, AnAnswerToHeadHasNoBody) {
  ProxyWorld w(with_login());
  w.say(wire("HEAD http://a/ HTTP/1.1\nHost: a\n\n"));
  EXPECT_TRUE(w.take().ends_with("\r\n\r\n"));
}

}  // namespace
}  // namespace tmesh::http
