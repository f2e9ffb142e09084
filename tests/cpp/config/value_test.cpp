#include "cpp/config/value.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tmesh::config {
namespace {

std::string check(const char* path, std::string_view text) {
  const Key* key = find_key(path);
  EXPECT_NE(key, nullptr) << path;
  return key == nullptr ? "no row" : check_value(*key, text);
}

TEST(Value, RangesAreSpokenInTheKeysOwnUnits) {
  EXPECT_EQ(check("server.stream.max_pending_opens", "0"), "must be from 1 to 1000000");
  EXPECT_EQ(check("server.stream.max_pending_opens", "-5"), "must not be negative");
  EXPECT_EQ(check("server.stream.max_pending_opens", "99999999999999999999"), "must be from 1 to 1000000");
  EXPECT_EQ(check("server.stream.max_frame_payload", "65536"), "must be 32768 bytes");
  EXPECT_EQ(check("agent.streams.inbound_buffer_bytes", "64KiB"), "");
  EXPECT_EQ(check("agent.streams.inbound_buffer_bytes", "65535"), "must be from 65536 to 1073741824 bytes");
  EXPECT_EQ(check("agent.streams.connect_timeout", "0s"), "must be from 1ms to 1h");
  EXPECT_EQ(check("agent.streams.connect_timeout", "5"), "needs a unit, as in 100ms, 5s or 1m30s");
}

TEST(Value, ChoicesProposeTheNearest) {
  EXPECT_EQ(check("storage.driver", "sqllite"), "must be one of sqlite, mysql (did you mean sqlite?)");
  EXPECT_EQ(check("client.tunnels[].protocol", "http_proxy"),
            "must be one of tcp, udp, http, socks5, http-proxy (did you mean http-proxy?)");
  EXPECT_EQ(check("mode", "x"), "must be one of local, cluster");
}

TEST(Value, FormsOfTexts) {
  EXPECT_EQ(check("server.http_addr", "0.0.0.0:8080"), "");
  EXPECT_EQ(check("server.http_addr", ":80"), "");
  EXPECT_EQ(check("server.http_addr", "8080"), "must be host:port");
  EXPECT_EQ(check("server.http_addr", "example.com:80"),
            "must have an IP address, localhost or nothing before its port");
  EXPECT_EQ(check("server.http_addr", ":70000"), "must have a port from 0 to 65535");
  EXPECT_EQ(check("client.tunnels[].listen", "unix:/run/x.sock"), "");
  EXPECT_NE(check("client.tunnels[].listen", "unix:x.sock"), "");
  EXPECT_NE(check("client.tunnels[].listen", "unix:/" + std::string(200, 'x')), "");
  EXPECT_EQ(check("agent.server_url", "wss://hub.example.com/ws/agent"), "");
  EXPECT_EQ(check("agent.server_url", "https://hub.example.com"), "must be an absolute ws:// or wss:// URL");
  EXPECT_EQ(check("agent.server_url", "ws://u:p@hub/"), "must not have user info");
  EXPECT_EQ(check("agent.server_url", "ws://hub/?token=abc"), "must not have a query");
  EXPECT_EQ(check("agent.instance_id", "a b"), "must not contain white space or control characters");
  EXPECT_EQ(check("agent.instance_id", std::string(129, 'a')), "must have at most 128 bytes");
  EXPECT_EQ(check("agent.id", std::string(256, 'a')), "must have at most 255 bytes");
  EXPECT_EQ(check("security.allowed_origins", "https://a.example.com/x"),
            "must be an origin: no path, query or fragment");
  EXPECT_EQ(check("security.allowed_hosts", "*.example.com"),
            "must be a host, or host:port, without a wildcard");
  EXPECT_EQ(check("security.allowed_hosts", "example.com:8080"), "");
  EXPECT_EQ(check("security.allowed_hosts", "::1"), "");
  EXPECT_EQ(check("security.allowed_hosts", "[::1]:80"), "");
  EXPECT_EQ(check("agent.policy.allow", "10.0.0.0/33"), "must be a network such as 10.0.0.0/8 or fd00::/8");
  EXPECT_EQ(check("agent.metadata[].name", "db_PassWord"), "must not name a secret");
  EXPECT_EQ(check("agent.metadata[].name", "private-key"), "must not name a secret");
  EXPECT_EQ(check("agent.metadata[].path", "etc/x"), "must be an absolute path");
  EXPECT_EQ(check("agent.metadata[].key", "APP_*"), "must be a variable name, without a wildcard");
  EXPECT_EQ(check("server.metrics.token", "short"), "must have at least 16 characters");
  EXPECT_EQ(check("server.dynamic_suffix", "*.example.com"), "must be a DNS name without a wildcard");
  EXPECT_EQ(check("client.tunnels[].socket_mode", "0660"), "");
  EXPECT_NE(check("client.tunnels[].socket_mode", "0888"), "");
  EXPECT_NE(check("client.tunnels[].socket_mode", "1777"), "");
  EXPECT_EQ(check("client.tunnels[].socket_owner", "www-data:www-data"), "");
  EXPECT_NE(check("client.tunnels[].socket_owner", "a:b:c"), "");
  EXPECT_EQ(check("client.tunnels[].auth_url", "http://u@auth/"), "must not have user info");
  EXPECT_EQ(check("storage.sqlite.path", std::string(5000, 'x')), "must have at most 4096 bytes");
  EXPECT_EQ(check("storage.sqlite.path", std::string_view("a\0b", 3)), "must not contain a NUL character");
}

TEST(Value, Rates) {
  EXPECT_EQ(parse_rate("256 in 10s")->count, 256u);
  EXPECT_EQ(parse_rate("256 in 10s")->interval_us, 10000000u);
  for (const char* bad :
       {"", "256", "256 10s", "0 in 10s", "256 in 0s", "256 in 2h", "2000000 in 10s", "x in 10s"}) {
    EXPECT_FALSE(parse_rate(bad)) << bad;
  }
}

TEST(Value, ListsSplitAtCommas) {
  EXPECT_EQ(split_list(" a, b ,,c "), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(split_list("").empty());
  EXPECT_TRUE(split_list(" , ").empty());
}

}  // namespace
}  // namespace tmesh::config
