#include "cpp/http/proxy/request_plan.hpp"

#include "core/proto/base64.h"
#include "tests/cpp/http/proxy/plan_fixture.hpp"

namespace tmesh::http {
namespace {

using Kind = RequestPlan::Kind;

const HostPort kLocal{"127.0.0.1", 8080};

RequestPlan plan(std::string_view text, const ProxyRules& rules = {}, const HostPort& local = kLocal) {
  return plan_request(head_of(MessageReader::Kind::request, text)->head(), rules, local);
}

// "" when the head is that one.
void expect_forwarded(std::string_view text, std::string_view head, const ProxyRules& rules = {}) {
  const RequestPlan p = plan(text, rules);
  EXPECT_EQ(p.kind, Kind::forward) << text << p.error_status;
  EXPECT_EQ(p.head, wire(head)) << text;
}

void expect_refused(std::string_view text, int status, const ProxyRules& rules = {}) {
  const RequestPlan p = plan(text, rules);
  EXPECT_EQ(p.kind, Kind::refuse) << text;
  EXPECT_EQ(p.error_status, status) << text;
}

std::string basic(std::string_view login) {
  std::string out(TMESH_BASE64_SIZE(login.size()), '\0');
  tmesh_base64_encode(out.data(), reinterpret_cast<const uint8_t*>(login.data()), login.size());
  out.pop_back();
  return out;
}

TEST(ProxyRequest, AbsoluteFormBecomesOriginForm) {
  expect_forwarded("GET http://a/b?c HTTP/1.1\nHost: a\nAccept: */*\n\n",
                   "GET /b?c HTTP/1.1\nHost: a\nAccept: */*\n\n");
  const RequestPlan p = plan("GET http://[2001:db8::1]:81/ HTTP/1.1\nHost: x\n\n");
  EXPECT_EQ(p.target, (HostPort{"2001:db8::1", 81}));
  EXPECT_EQ(p.head, wire("GET / HTTP/1.1\nHost: [2001:db8::1]:81\n\n"));
}

// LESSONS P-J2, RFC 9112 section 3.2.2.
TEST(ProxyRequest, AbsoluteFormWinsOverHost) {
  expect_forwarded("GET http://a/ HTTP/1.1\nHost: b:81\n\n", "GET / HTTP/1.1\nHost: a\n\n");
}

TEST(ProxyRequest, HttpOneZeroNeedsNoHostAndStaysWhatItIs) {
  expect_forwarded("GET http://a:8080/ HTTP/1.0\nExpect: 100-continue\n\n",
                   "GET / HTTP/1.0\nHost: a:8080\nConnection: close\n\n");
}

TEST(ProxyRequest, WhatBelongsToOneHopIsRemoved) {
  expect_forwarded(
      "POST http://a/ HTTP/1.1\nHost: a\nConnection: keep-alive, X-One, x-two\nX-One: 1\nX-TWO: 2\nX-Three: "
      "3\n"
      "Keep-Alive: timeout=5\nProxy-Connection: keep-alive\nProxy-Authorization: Basic eDp5\nProxy-Foo: bar\n"
      "Authorization: Basic mine\nUpgrade: websocket\nTE: gzip\nTransfer-Encoding: chunked\nTrailer: "
      "X-Sum\n\n",
      "POST / HTTP/1.1\nHost: a\nX-Three: 3\nAuthorization: Basic mine\nTransfer-Encoding: chunked\n"
      "Trailer: X-Sum\n\n");
}

TEST(ProxyRequest, ConnectionMayNotTakeFramingOrHostAway) {
  for (const char* name : {"Content-Length", "transfer-encoding", "HOST"}) {
    expect_refused(std::string("POST http://a/ HTTP/1.1\nHost: a\nConnection: ") + name + "\n\n", 400);
  }
  std::string many = "GET http://a/ HTTP/1.1\nHost: a\nConnection: x0";
  for (int i = 1; i < 65; i++) many += ",x" + std::to_string(i);
  expect_refused(many + "\n\n", 400);
}

TEST(ProxyRequest, TrailersAreAskedForButNoOtherCoding) {
  expect_forwarded("GET http://a/ HTTP/1.1\nHost: a\nTE: gzip;q=0.5, Trailers\nConnection: TE\n\n",
                   "GET / HTTP/1.1\nHost: a\nTE: trailers\nConnection: TE\n\n");
  expect_forwarded("GET http://a/ HTTP/1.0\nTE: trailers\nConnection: TE\n\n",
                   "GET / HTTP/1.0\nHost: a\nConnection: close\n\n");
}

// LESSONS P-J4, P-J8.
TEST(ProxyRequest, UpgradesOfTheApplicationPassAndThoseOfTheHopDoNot) {
  expect_forwarded(
      "GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: k\n\n",
      "GET / HTTP/1.1\nHost: a\nSec-WebSocket-Key: k\nUpgrade: websocket\nConnection: Upgrade\n\n");
  expect_forwarded(
      "GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c, SPDY/3.1\n"
      "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\n\n",
      "GET / HTTP/1.1\nHost: a\nUpgrade: SPDY/3.1\nConnection: Upgrade\n\n");
  for (const char* hop : {"h2c", "H2C", "h2", "HTTP/2.0", "TLS/1.2"}) {
    expect_forwarded(std::string("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: ") + hop +
                         "\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\n\n",
                     "GET / HTTP/1.1\nHost: a\nConnection: close\n\n");
  }
}

// Each is kept and looked for in the answer: two lists of 31,000 cost seconds.
TEST(ProxyRequest, OfManyUpgradesTheFirstFewPass) {
  std::string many = std::string(65, 'x') + ", 0";
  for (int i = 1; i < 1000; i++) many += ", " + std::to_string(i);
  expect_forwarded("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: " + many + "\n\n",
                   "GET / HTTP/1.1\nHost: a\nUpgrade: 0, 1, 2, 3, 4, 5, 6, 7\nConnection: Upgrade\n\n");
}

TEST(ProxyRequest, AnUpgradeWithABodyOrOfHttpOneZeroIsNone) {
  EXPECT_TRUE(plan("POST http://a/ HTTP/1.1\nHost: a\nContent-Length: 3\nConnection: Upgrade\nUpgrade: x\n\n")
                  .upgrades.empty());
  EXPECT_TRUE(plan("GET http://a/ HTTP/1.0\nConnection: Upgrade\nUpgrade: x\n\n").upgrades.empty());
}

TEST(ProxyRequest, AnUpgradeThatIsNotSpokenEndsTheConnection) {
  EXPECT_FALSE(plan("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: x\n\n").keeps_alive);
  EXPECT_FALSE(plan("GET http://a/ HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: h2c\n\n").keeps_alive);
  EXPECT_TRUE(plan("GET http://a/ HTTP/1.1\nHost: a\nUpgrade: x\n\n").keeps_alive);
}

TEST(ProxyRequest, KeepsAliveUnlessToldOtherwise) {
  EXPECT_TRUE(plan("GET http://a/ HTTP/1.1\nHost: a\n\n").keeps_alive);
  EXPECT_FALSE(plan("GET http://a/ HTTP/1.1\nHost: a\nConnection: x, Close\n\n").keeps_alive);
  EXPECT_FALSE(plan("GET http://a/ HTTP/1.1\nHost: a\nProxy-Connection: close\n\n").keeps_alive);
  EXPECT_FALSE(plan("GET http://a/ HTTP/1.0\nHost: a\nConnection: keep-alive\n\n").keeps_alive);
}

TEST(ProxyRequest, ExactlyOneHost) {
  expect_refused("GET http://a/ HTTP/1.1\n\n", 400);
  expect_refused("GET http://a/ HTTP/1.1\nHost: a\nHost: a\n\n", 400);
  expect_refused("GET http://a/ HTTP/1.0\nHost: a\nHost: b\n\n", 400);
  expect_refused("GET http://a/ HTTP/1.1\nHost: a, b\n\n", 400);
  expect_refused("GET http://a/ HTTP/1.1\nHost: u@a\n\n", 400);
  EXPECT_EQ(plan("GET http://a/ HTTP/1.1\nHost:\n\n").kind, Kind::forward);
}

TEST(ProxyRequest, OtherFormsAreRefused) {
  for (const char* target : {"/", "/a", "*", "https://a/", "http://u:p@a/", "http://a/#b"}) {
    expect_refused(std::string("GET ") + target + " HTTP/1.1\nHost: a\n\n", 400);
  }
}

TEST(ProxyRequest, ConnectNeedsAnAuthorityWithAPort) {
  const RequestPlan p = plan("CONNECT [2001:db8::1]:443 HTTP/1.1\nHost: a:443\n\n");
  EXPECT_EQ(p.kind, Kind::connect);
  EXPECT_EQ(p.target, (HostPort{"2001:db8::1", 443}));
  EXPECT_EQ(plan("CONNECT a:443 HTTP/1.0\n\n").kind, Kind::connect);
  for (const char* target : {"a", "a:0", "2001:db8::1:443", "a:65536"}) {
    expect_refused(std::string("CONNECT ") + target + " HTTP/1.1\nHost: a\n\n", 400);
  }
  expect_refused("CONNECT a:443 HTTP/1.1\nHost: a\nContent-Length: 3\n\n", 400);
  expect_refused("CONNECT a:443 HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n", 400);
  EXPECT_EQ(plan("CONNECT a:443 HTTP/1.1\nHost: a\nContent-Length: 0\n\n").kind, Kind::connect);
}

TEST(ProxyRequest, OptionsAboutTheProxyAreAnsweredHere) {
  EXPECT_EQ(plan("OPTIONS * HTTP/1.1\nHost: p\n\n").kind, Kind::here);
  expect_forwarded("OPTIONS http://a HTTP/1.1\nHost: p\n\n", "OPTIONS * HTTP/1.1\nHost: a\n\n");
}

// RFC 9110 section 7.6.2.
TEST(ProxyRequest, MaxForwardsIsCountedDown) {
  expect_forwarded("OPTIONS http://a/ HTTP/1.1\nHost: a\nMax-Forwards: 3\n\n",
                   "OPTIONS / HTTP/1.1\nHost: a\nMax-Forwards: 2\n\n");
  EXPECT_EQ(plan("OPTIONS http://a/ HTTP/1.1\nHost: a\nMax-Forwards: 0\n\n").kind, Kind::here);
  expect_refused("TRACE http://a/ HTTP/1.1\nHost: a\nMax-Forwards: 0\n\n", 405);
  expect_forwarded("GET http://a/ HTTP/1.1\nHost: a\nMax-Forwards: 0\n\n",
                   "GET / HTTP/1.1\nHost: a\nMax-Forwards: 0\n\n");
}

// LESSONS P-I4.
TEST(ProxyRequest, TheLoginIsComparedWhole) {
  struct Login {
    std::string username, password;
  };
  for (const Login& login :
       {Login{"user", "password"}, Login{"user", "pass:word"}, Login{"user", ""},
        Login{std::string(255, 'u'), std::string(255, 'p')}, Login{"j\xc3\xbcrgen", "\xe2\x82\xac"}}) {
    ProxyRules rules;
    rules.has_login = true;
    rules.username = login.username;
    rules.password = Secret(login.password);
    const auto with = [](const std::string& value) {
      return "GET http://a/ HTTP/1.1\nHost: a\nProxy-Authorization: " + value + "\n\n";
    };
    const std::string right = login.username + ":" + login.password;
    expect_forwarded(with("Basic " + basic(right)), "GET / HTTP/1.1\nHost: a\n\n", rules);
    expect_forwarded(with("bASIC   " + basic(right)), "GET / HTTP/1.1\nHost: a\n\n", rules);
    for (const std::string& wrong : std::vector<std::string>{
             "Basic " + basic(right + "x"), "Basic " + basic(right.substr(1)),
             "Basic " + basic(login.username), "Basic " + basic(":"), "Basic", "Basic ", "Basic !!!",
             "Bearer " + basic(right), basic(right), "Basic " + basic(right) + ", Basic " + basic(right),
             "Basic " + basic(std::string(600, 'x'))}) {
      expect_refused(with(wrong), 407, rules);
    }
    expect_refused("GET http://a/ HTTP/1.1\nHost: a\n\n", 407, rules);
    expect_refused("CONNECT a:443 HTTP/1.1\nHost: a\n\n", 407, rules);
    expect_refused("GET http://a/ HTTP/1.1\nHost: a\nAuthorization: Basic " + basic(right) + "\n\n", 407,
                   rules);
    expect_refused("GET http://a/ HTTP/1.1\nHost: a\nProxy-Authorization: Basic " + basic(right) +
                       "\nProxy-Authorization: Basic " + basic(right) + "\n\n",
                   407, rules);
  }
}

TEST(ProxyRequest, OnlyIdempotentMethodsCanBeRepeated) {
  for (const char* method : {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}) {
    EXPECT_TRUE(plan(std::string(method) + " http://a/ HTTP/1.1\nHost: a\n\n").is_idempotent) << method;
  }
  for (const char* method : {"POST", "PATCH", "LOCK", "PROPFIND"}) {
    EXPECT_FALSE(plan(std::string(method) + " http://a/ HTTP/1.1\nHost: a\n\n").is_idempotent) << method;
  }
}

ProxyRules gateway() {
  ProxyRules rules;
  rules.is_gateway = true;
  rules.target = {"web.internal", 8080};
  rules.hosts = {"wiki.example", "other.example:9000", "10.0.0.9"};
  return rules;
}

TEST(GatewayRequest, GoesToTheTargetUnderItsName) {
  expect_forwarded("GET /a?b HTTP/1.1\nHost: localhost:8080\nX: y\n\n",
                   "GET /a?b HTTP/1.1\nHost: web.internal:8080\nX: y\n\n", gateway());
  expect_forwarded("GET http://localhost/a HTTP/1.1\nHost: evil\n\n",
                   "GET /a HTTP/1.1\nHost: web.internal:8080\n\n", gateway());
  expect_forwarded("OPTIONS * HTTP/1.1\nHost: localhost\n\n",
                   "OPTIONS * HTTP/1.1\nHost: web.internal:8080\n\n", gateway());
  ProxyRules usual = gateway();
  usual.target = {"2001:db8::1", 443};
  usual.is_target_https = true;
  expect_forwarded("GET / HTTP/1.1\nHost: localhost\n\n", "GET / HTTP/1.1\nHost: [2001:db8::1]\n\n", usual);
}

// INTERFACE 0: a page that makes its name point here must not reach the target.
TEST(GatewayRequest, OtherHostsAre421) {
  for (const char* host : {"localhost", "LOCALHOST:8080", "localhost:9", "127.0.0.1:8080", "wiki.example",
                           "Wiki.Example:81", "other.example:9000", "10.0.0.9:8080"}) {
    EXPECT_EQ(plan(std::string("GET / HTTP/1.1\nHost: ") + host + "\n\n", gateway()).kind, Kind::forward)
        << host;
  }
  for (const char* host :
       {"evil.example", "127.0.0.1", "127.0.0.1:81", "127.0.0.2:8080", "[::1]:8080", "other.example",
        "other.example:9001", "localhost.evil.example", "xlocalhost", "web.internal:8080", ""}) {
    expect_refused(std::string("GET / HTTP/1.1\nHost: ") + host + "\n\n", 421, gateway());
  }
  expect_refused("GET / HTTP/1.0\n\n", 421, gateway());
  expect_refused("GET http://evil.example/ HTTP/1.1\nHost: localhost\n\n", 421, gateway());
  const HostPort v6{"::1", 8080};
  EXPECT_EQ(plan("GET / HTTP/1.1\nHost: [0:0::1]:8080\n\n", gateway(), v6).kind, Kind::forward);
}

TEST(GatewayRequest, NoProxyForm) {
  expect_refused("CONNECT a:443 HTTP/1.1\nHost: localhost\n\n", 400, gateway());
  expect_refused("GET https://localhost/ HTTP/1.1\nHost: localhost\n\n", 400, gateway());
  expect_refused("GET * HTTP/1.1\nHost: localhost\n\n", 400, gateway());
}

TEST(GatewayRequest, ItsOwnPagesKeepTheirOrigin) {
  expect_forwarded(
      "POST / HTTP/1.1\nHost: localhost:8080\nOrigin: http://localhost:8080\n"
      "Referer: http://localhost:8080/form?x\n\n",
      "POST / HTTP/1.1\nHost: web.internal:8080\nOrigin: http://web.internal:8080\n"
      "Referer: http://web.internal:8080/form?x\n\n",
      gateway());
  // Those of other sites stay what they are, or the target's protection would be gone.
  for (const char* origin :
       {"http://evil.example", "http://localhost:80801", "http://localhost:8080.evil.example",
        "https://localhost:8080", "null", "http://localhost"}) {
    const std::string field = std::string("Origin: ") + origin + "\nReferer: " + origin + "x/y\n\n";
    expect_forwarded("POST / HTTP/1.1\nHost: localhost:8080\n" + field,
                     "POST / HTTP/1.1\nHost: web.internal:8080\n" + field, gateway());
  }
}

}  // namespace
}  // namespace tmesh::http
