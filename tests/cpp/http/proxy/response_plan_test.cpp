#include "cpp/http/proxy/response_plan.hpp"

#include "tests/cpp/http/proxy/plan_fixture.hpp"

namespace tmesh::http {
namespace {

using Kind = ResponsePlan::Kind;

RequestPlan a_request() {
  RequestPlan out;
  out.kind = RequestPlan::Kind::forward;
  out.keeps_alive = true;
  return out;
}

ResponsePlan plan(std::string_view text, const RequestPlan& request = a_request(),
                  const ProxyRules& rules = {}, bool may_keep = true) {
  const auto reader = head_of(MessageReader::Kind::response, text);
  return plan_response(reader->head(), reader->is_until_end(), request, rules, may_keep);
}

TEST(ProxyResponse, LosesWhatBelongsToOneHop) {
  const ResponsePlan p = plan(
      "HTTP/1.1 200 Fine\nConnection: keep-alive, X-Hop\nX-Hop: 1\nKeep-Alive: timeout=5\nProxy-Connection: "
      "x\n"
      "Proxy-Authenticate: Basic\nProxy-Status: other; error=x\nUpgrade: h2c\nContent-Length: 3\nSet-Cookie: "
      "a\n"
      "Set-Cookie: b\n\n");
  EXPECT_EQ(p.kind, Kind::final);
  EXPECT_EQ(p.head, wire("HTTP/1.1 200 Fine\nContent-Length: 3\nSet-Cookie: a\nSet-Cookie: b\n\n"));
  EXPECT_TRUE(p.keeps_client);
  EXPECT_TRUE(p.keeps_origin);
}

TEST(ProxyResponse, FramingOfChunksStays) {
  EXPECT_EQ(plan("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X\n\n").head,
            wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X\n\n"));
}

TEST(ProxyResponse, IsHttpOneOneWhateverTheOriginSpeaks) {
  const ResponsePlan p = plan("HTTP/1.0 200 OK\nContent-Length: 3\n\n");
  EXPECT_EQ(p.head, wire("HTTP/1.1 200 OK\nContent-Length: 3\n\n"));
  EXPECT_TRUE(p.keeps_client);
  EXPECT_FALSE(p.keeps_origin);
}

TEST(ProxyResponse, AMissingReasonIsMadeUp) {
  EXPECT_EQ(plan("HTTP/1.1 404\nContent-Length: 0\n\n").head,
            wire("HTTP/1.1 404 Not Found\nContent-Length: 0\n\n"));
  EXPECT_EQ(plan("HTTP/1.1 404 a\x01z\nContent-Length: 0\n\n").head,
            wire("HTTP/1.1 404 Not Found\nContent-Length: 0\n\n"));
}

TEST(ProxyResponse, SaysThatTheConnectionEnds) {
  for (const ResponsePlan& p : {plan("HTTP/1.1 200 OK\n\n"),
                                plan("HTTP/1.1 200 OK\nContent-Length: 0\n\n", a_request(), {}, false)}) {
    EXPECT_FALSE(p.keeps_client);
    EXPECT_TRUE(p.head.ends_with("\r\nConnection: close\r\n\r\n")) << p.head;
  }
  RequestPlan last = a_request();
  last.keeps_alive = false;
  EXPECT_FALSE(plan("HTTP/1.1 200 OK\nContent-Length: 0\n\n", last).keeps_client);
  const ResponsePlan closing = plan("HTTP/1.1 200 OK\nContent-Length: 0\nConnection: close\n\n");
  EXPECT_TRUE(closing.keeps_client);
  EXPECT_FALSE(closing.keeps_origin);
}

TEST(ProxyResponse, InterimAnswersPassButNotToHttpOneZero) {
  EXPECT_EQ(plan("HTTP/1.1 103 Early Hints\nLink: </a>\nConnection: x\nContent-Length: 3\n\n").head,
            wire("HTTP/1.1 103 Early Hints\nLink: </a>\n\n"));
  EXPECT_EQ(plan("HTTP/1.1 100 Continue\n\n").kind, Kind::interim);
  RequestPlan old = a_request();
  old.is_http_1_0 = true;
  EXPECT_EQ(plan("HTTP/1.1 100 Continue\n\n", old).kind, Kind::skip);
}

TEST(ProxyResponse, ChunksForHttpOneZeroAreAFault) {
  RequestPlan old = a_request();
  old.is_http_1_0 = true;
  EXPECT_EQ(plan("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n", old).kind, Kind::fault);
  EXPECT_EQ(plan("HTTP/1.1 200 OK\n\n", old).kind, Kind::final);
}

TEST(ProxyResponse, OnlyWhatWasAskedForIsSwitchedTo) {
  RequestPlan asking = a_request();
  asking.upgrades = {"websocket"};
  const std::string text =
      "HTTP/1.1 101 Switching Protocols\nUpgrade: WebSocket\nConnection: Upgrade\nX: y\n\n";
  const ResponsePlan p = plan(text, asking);
  EXPECT_EQ(p.kind, Kind::switching);
  EXPECT_EQ(p.head,
            wire("HTTP/1.1 101 Switching Protocols\nUpgrade: WebSocket\nX: y\nConnection: Upgrade\n\n"));
  EXPECT_EQ(plan(text).kind, Kind::fault);
  EXPECT_EQ(plan("HTTP/1.1 101 x\nUpgrade: h2c\nConnection: Upgrade\n\n", asking).kind, Kind::fault);
  EXPECT_EQ(plan("HTTP/1.1 101 x\n\n", asking).kind, Kind::fault);
}

TEST(ProxyResponse, UpgradeRequiredSaysWhatItRequires) {
  EXPECT_EQ(plan("HTTP/1.1 426 x\nUpgrade: websocket\nConnection: Upgrade\nContent-Length: 0\n\n").head,
            wire("HTTP/1.1 426 x\nUpgrade: websocket\nContent-Length: 0\n\n"));
}

TEST(ProxyResponse, NoContentHasNoFraming) {
  EXPECT_EQ(plan("HTTP/1.1 204 No Content\nContent-Length: 5\nX: y\n\n").head,
            wire("HTTP/1.1 204 No Content\nX: y\n\n"));
  EXPECT_EQ(plan("HTTP/1.1 304 Not Modified\nContent-Length: 5\n\n").head,
            wire("HTTP/1.1 304 Not Modified\nContent-Length: 5\n\n"));
}

TEST(ProxyResponse, ConnectionMayNotTakeTheFramingAway) {
  EXPECT_EQ(plan("HTTP/1.1 200 OK\nConnection: content-length\nContent-Length: 3\n\n").kind, Kind::fault);
}

TEST(GatewayResponse, ALocationAtTheTargetIsOneAtTheGateway) {
  ProxyRules rules;
  rules.is_gateway = true;
  rules.target = {"web", 443};
  rules.is_target_https = true;
  RequestPlan request = a_request();
  request.own_origin = "http://localhost:8080";
  const auto location = [&](const std::string& value) {
    const std::string head =
        plan("HTTP/1.1 302 x\nContent-Length: 0\nLocation: " + value + "\n\n", request, rules).head;
    const std::size_t at = head.find("Location: ") + 10;
    return head.substr(at, head.find("\r\n", at) - at);
  };
  EXPECT_EQ(location("https://web/login?a#b"), "http://localhost:8080/login?a#b");
  EXPECT_EQ(location("https://WEB"), "http://localhost:8080");
  for (const char* other :
       {"/login", "https://web.evil.example/", "https://web:8443/", "http://web/", "https://other/"}) {
    EXPECT_EQ(location(other), other);
  }
}

}  // namespace
}  // namespace tmesh::http
