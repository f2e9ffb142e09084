#include "cpp/http/ws_request.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace tmesh::http {
namespace {

constexpr const char* kKey = "dGhlIHNhbXBsZSBub25jZQ==";  // RFC 6455 section 1.3

using Fields = std::vector<Header>;

Fields good_fields() {
  return {{"Host", "hub.example:8080"},
          {"Upgrade", "websocket"},
          {"Connection", "Upgrade"},
          {"Sec-WebSocket-Version", "13"},
          {"Sec-WebSocket-Key", kKey},
          {"Origin", "http://hub.example:8080"},
          {"Authorization", "Bearer abc-123_x.y~z+/="}};
}

Request request_of(const Fields& fields) {
  Request request;
  request.path = "/ws/client";
  for (const Header& field : fields) request.headers.add(field.name, field.value);
  request.is_upgrade = true;
  return request;
}

Request without(std::string_view name) {
  Fields fields;
  for (const Header& field : good_fields()) {
    if (!equals_ignoring_case(field.name, name)) fields.push_back(field);
  }
  return request_of(fields);
}

Request with(std::string_view name, std::string_view value) {
  Request request = without(name);
  request.headers.add(name, value);
  return request;
}

Request twice(std::string_view name, std::string_view second) {
  Request request = request_of(good_fields());
  request.headers.add(name, second);
  return request;
}

Request changed(const std::function<void(Request&)>& change) {
  Request request = request_of(good_fields());
  change(request);
  return request;
}

struct Row {
  const char* name;
  Request request;
  WsRefusal refusal;
  int status;
};

std::vector<Row> rows() {
  return {
      {"wrong path", changed([](Request& r) { r.path = "/ws/agent"; }), WsRefusal::path, 404},
      {"path with version", changed([](Request& r) { r.path = "/ws/client/v1"; }), WsRefusal::path, 404},
      {"path in capitals", changed([](Request& r) { r.path = "/WS/client"; }), WsRefusal::path, 404},
      {"POST", changed([](Request& r) { r.method = Method::post; }), WsRefusal::method, 405},
      {"plain HTTP", without("upgrade"), WsRefusal::no_upgrade, 426},
      {"another protocol", with("upgrade", "h2c"), WsRefusal::no_upgrade, 426},
      {"no Connection", without("connection"), WsRefusal::no_connection, 426},
      {"Connection: close", with("connection", "close"), WsRefusal::no_connection, 426},
      {"HTTP/1.0", changed([](Request& r) { r.minor_version = 0; }), WsRefusal::no_connection, 426},
      {"no version", without("sec-websocket-version"), WsRefusal::version, 426},
      {"version 8", with("sec-websocket-version", "8"), WsRefusal::version, 426},
      {"two versions", twice("sec-websocket-version", "13"), WsRefusal::version, 426},
      {"no key", without("sec-websocket-key"), WsRefusal::key, 400},
      {"short key", with("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ"), WsRefusal::key, 400},
      {"two keys", twice("sec-websocket-key", kKey), WsRefusal::key, 400},
      {"token in the URL", changed([](Request& r) {
         r.has_query = true;
         r.query = "token=abc";
       }),
       WsRefusal::query, 400},
      {"empty query", changed([](Request& r) { r.has_query = true; }), WsRefusal::query, 400},
      {"body", changed([](Request& r) { r.body = "x"; }), WsRefusal::body, 400},
      {"malformed offer", with("sec-websocket-protocol", "a b"), WsRefusal::protocols, 400},
      {"another host", with("host", "other.example"), WsRefusal::host, 403},
      {"another port", with("host", "hub.example:81"), WsRefusal::host, 403},
      {"no port", with("host", "hub.example"), WsRefusal::host, 403},
      {"no Origin", without("origin"), WsRefusal::origin_missing, 403},
      {"two Origins", twice("origin", "http://hub.example:8080"), WsRefusal::origin_repeated, 403},
      {"Origin null", with("origin", "null"), WsRefusal::origin_malformed, 403},
      {"empty Origin", with("origin", ""), WsRefusal::origin_malformed, 403},
      {"Origin with path", with("origin", "http://hub.example:8080/"), WsRefusal::origin_malformed, 403},
      {"Origin with query", with("origin", "http://hub.example:8080?x"), WsRefusal::origin_malformed, 403},
      {"Origin with user", with("origin", "http://u@hub.example:8080"), WsRefusal::origin_malformed, 403},
      {"Origin of a scheme of its own", with("origin", "ws://hub.example:8080"), WsRefusal::origin_malformed,
       403},
      {"another Origin", with("origin", "http://evil.example"), WsRefusal::origin_not_allowed, 403},
      {"Origin with https", with("origin", "https://hub.example:8080"), WsRefusal::origin_not_allowed, 403},
      {"no Authorization", without("authorization"), WsRefusal::auth_missing, 401},
      {"Basic", with("authorization", "Basic YTpi"), WsRefusal::auth_malformed, 401},
      {"no token", with("authorization", "Bearer"), WsRefusal::auth_malformed, 401},
      {"empty token", with("authorization", "Bearer "), WsRefusal::auth_malformed, 401},
      {"two spaces", with("authorization", "Bearer  abc"), WsRefusal::auth_malformed, 401},
      {"token with a space", with("authorization", "Bearer a b"), WsRefusal::auth_malformed, 401},
      {"token with a comma", with("authorization", "Bearer a,b"), WsRefusal::auth_malformed, 401},
      {"long token", with("authorization", "Bearer " + std::string(513, 'a')), WsRefusal::auth_malformed,
       401},
      {"two Authorizations", twice("authorization", "Bearer abc"), WsRefusal::auth_malformed, 401},
  };
}

WsPolicy policy() {
  return {{"HUB.example:8080"}, {"http://hub.example:8080"}};
}

TEST(WsRequestTest, RefusesEachFaultWithItsOwnReason) {
  std::set<WsRefusal> seen;
  for (const Row& row : rows()) {
    auto result = check_ws_request(row.request, "/ws/client", policy());
    ASSERT_FALSE(result.has_value()) << row.name;
    EXPECT_EQ(result.error(), row.refusal) << row.name << ": " << ws_refusal_name(result.error());
    EXPECT_EQ(ws_refusal_response(result.error()).status, row.status) << row.name;
    seen.insert(result.error());
  }
  EXPECT_EQ(seen.size(), kWsRefusalCount) << "every refusal has a row";
}

TEST(WsRequestTest, AcceptsWhatDeployedPeersSend) {
  Request request = request_of(good_fields());
  request.headers.add("Sec-WebSocket-Protocol",
                      "tunnelmesh.v1.open-result.flow-control, tunnelmesh.v1.open-result");
  request.headers.add("sec-websocket-protocol", "tunnelmesh.v1");
  request.headers.add("Sec-WebSocket-Extensions", "permessage-deflate");
  auto result = check_ws_request(request, "/ws/client", policy());
  ASSERT_TRUE(result.has_value()) << ws_refusal_name(result.error());
  EXPECT_EQ(result->key, kKey);
  EXPECT_EQ(result->protocols, (std::vector<std::string>{"tunnelmesh.v1.open-result.flow-control",
                                                         "tunnelmesh.v1.open-result", "tunnelmesh.v1"}));
  EXPECT_EQ(result->token.reveal(), "abc-123_x.y~z+/=");
  EXPECT_EQ(result->origin, "http://hub.example:8080");
  EXPECT_EQ(result->host, "hub.example:8080");
}

TEST(WsRequestTest, EmptyListsAllowAnyHostAndOrigin) {
  Request request = with("origin", "https://elsewhere.example");
  EXPECT_TRUE(check_ws_request(request, "/ws/client", {}).has_value());
}

TEST(WsRequestTest, ComparesOriginsNormalised) {
  WsPolicy https{{}, {"https://hub.example"}};
  EXPECT_TRUE(check_ws_request(with("origin", "HTTPS://Hub.Example:443"), "/ws/client", https).has_value());
}

TEST(WsRequestTest, SchemeAndTokensIgnoreCase) {
  Fields fields = good_fields();
  fields[1].value = "WebSocket";
  fields[2].value = "keep-alive, upgrade";
  fields[6].value = "bearer abc";
  EXPECT_TRUE(check_ws_request(request_of(fields), "/ws/client", {}).has_value());
}

TEST(WsRequestTest, BoundsTheOffers) {
  Request request = request_of(good_fields());
  std::string offers = "p";
  for (std::size_t i = 1; i < kWsOffersMax; ++i) offers += ",p";
  request.headers.add("Sec-WebSocket-Protocol", offers);
  EXPECT_TRUE(check_ws_request(request, "/ws/client", {}).has_value());
  request.headers.add("Sec-WebSocket-Protocol", "one-more");
  auto result = check_ws_request(request, "/ws/client", {});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error(), WsRefusal::protocols);
}

TEST(WsRequestTest, RefusalsCarryTheFieldsThatGoWithTheirStatus) {
  Response upgrade = ws_refusal_response(WsRefusal::no_upgrade);
  EXPECT_EQ(*upgrade.headers.find("upgrade"), "websocket");
  EXPECT_NE(upgrade.body.find("Upgrade: websocket"), std::string::npos) << "names what is missing";
  EXPECT_NE(ws_refusal_response(WsRefusal::no_connection).body.find("Connection: Upgrade"),
            std::string::npos);
  Response version = ws_refusal_response(WsRefusal::version);
  EXPECT_EQ(*version.headers.find("sec-websocket-version"), "13");
  EXPECT_EQ(*version.headers.find("upgrade"), "websocket");
  EXPECT_TRUE(
      ws_refusal_response(WsRefusal::auth_missing).headers.find("www-authenticate")->starts_with("Bearer"));
  EXPECT_EQ(*ws_refusal_response(WsRefusal::method).headers.find("allow"), "GET");
  EXPECT_NE(ws_refusal_response(WsRefusal::query).body.find("token"), std::string::npos);
}

TEST(WsRequestTest, SwitchingFieldsAnswerTheKeyAndNeverAnExtension) {
  Request request = request_of(good_fields());
  request.headers.add("Sec-WebSocket-Protocol", "tunnelmesh.v1");
  request.headers.add("Sec-WebSocket-Extensions", "permessage-deflate");
  auto accepted = check_ws_request(request, "/ws/client", {});
  ASSERT_TRUE(accepted.has_value());
  Headers fields = ws_switching_fields(*accepted, "tunnelmesh.v1");
  EXPECT_EQ(*fields.find("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(*fields.find("sec-websocket-protocol"), "tunnelmesh.v1");
  EXPECT_EQ(*fields.find("upgrade"), "websocket");
  EXPECT_EQ(fields.find("sec-websocket-extensions"), nullptr);
  EXPECT_EQ(ws_switching_fields(*accepted, "").find("sec-websocket-protocol"), nullptr);
}

}  // namespace
}  // namespace tmesh::http
