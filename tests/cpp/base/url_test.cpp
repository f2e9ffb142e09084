#include "cpp/base/url.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tmesh {
namespace {

TEST(Url, WebSocketUrlInParts) {
  const Result<Url> url = parse_ws_url("wss://Hub.Example.com/ws/agent");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->is_tls);
  EXPECT_EQ(url->host, "hub.example.com");
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(url->path, "/ws/agent");
  EXPECT_EQ(url_authority(*url), "hub.example.com");
}

TEST(Url, PortAndIpv6) {
  const Result<Url> url = parse_ws_url("WS://[::1]:8080");
  ASSERT_TRUE(url);
  EXPECT_FALSE(url->is_tls);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, 8080);
  EXPECT_EQ(url->path, "/");
  EXPECT_EQ(url_authority(*url), "[::1]:8080");
  EXPECT_EQ(parse_ws_url("ws://[::1]/x")->port, 80);
  EXPECT_EQ(url_authority(*parse_ws_url("wss://h:443/")), "h");
  EXPECT_EQ(url_authority(*parse_ws_url("ws://h:443/")), "h:443");
}

TEST(Url, WebSocketUrlRefusals) {
  const struct {
    const char* text;
    const char* reason;
  } cases[] = {{"", "must be an absolute ws:// or wss:// URL"},
               {"hub.example.com", "must be an absolute ws:// or wss:// URL"},
               {"http://hub", "must be an absolute ws:// or wss:// URL"},
               {"ws://user:pass@hub/", "must not have user info"},
               {"ws://hub/?token=x", "must not have a query"},
               {"ws://hub/#x", "must not have a fragment"},
               {"ws:///path", "must have a host"},
               {"ws://:80/path", "must have a host"},
               {"ws://hub:0/", "must have a port from 1 to 65535"},
               {"ws://hub/a b", "must not have such characters in its path"},
               {"ws://hub/\r\nX: y", "must not have such characters in its path"}};
  for (const auto& c : cases) {
    const Result<Url> url = parse_ws_url(c.text);
    ASSERT_FALSE(url) << c.text;
    EXPECT_STREQ(url.error().text, c.reason) << c.text;
  }
  EXPECT_EQ(parse_ws_url("ws://h/" + std::string(3000, 'a')).error().code, TMESH_E_TOO_LARGE);
}

TEST(Url, HttpUrlKeepsItsQuery) {
  EXPECT_EQ(parse_http_url("https://auth.example.com/check?a=1")->path, "/check?a=1");
  EXPECT_EQ(parse_http_url("http://auth?x")->path, "/?x");
  for (const char* bad : {"ws://h/", "https://u@h/", "https://h/#f", "https://", "//h/"}) {
    EXPECT_FALSE(parse_http_url(bad)) << bad;
  }
}

TEST(Url, OriginIsBareAndNormalised) {
  EXPECT_EQ(*parse_origin("HTTPS://Example.com"), "https://example.com");
  EXPECT_EQ(*parse_origin("https://example.com:443"), "https://example.com");
  EXPECT_EQ(*parse_origin("http://example.com:443"), "http://example.com:443");
  EXPECT_EQ(*parse_origin("http://[::1]:8080"), "http://[::1]:8080");
  for (const char* bad : {"", "null", "*", "example.com", "https://example.com/", "https://example.com?x",
                          "https://u@example.com", "ws://example.com", "https://a b"}) {
    EXPECT_FALSE(parse_origin(bad)) << bad;
  }
}

}  // namespace
}  // namespace tmesh
