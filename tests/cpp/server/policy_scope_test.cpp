#include <gtest/gtest.h>

#include "cpp/server/scope.hpp"

namespace tmesh::server {
namespace {

Target tcp(const char* host, uint16_t port) {
  return *normalize_target("tcp", host, port);
}

TEST(Scope, IsStoredNormalised) {
  const Result<Scope> scope = parse_scope(
      R"( {"targetPorts":[443,80,443], "agentIds":[" b ","a","b"], "protocols":["WebSocket","tcp","ws"],
          "targetCIDRs":["10.1.2.3/8","fd00::/8","10.0.0.0/8"], "serverNodeIds":[]} )");
  ASSERT_TRUE(scope) << scope.error().text;
  const char* wanted =
      R"({"agentIds":["a","b"],"protocols":["tcp","ws"],"targetCIDRs":["10.0.0.0/8","fd00::/8"],"targetPorts":[80,443]})";
  EXPECT_EQ(format_scope(*scope), wanted);
  EXPECT_EQ(format_scope(*parse_scope(wanted)), wanted);
  EXPECT_EQ(format_scope({}), "{}");
}

TEST(Scope, IsReadStrictly) {
  for (const char* text : {"",
                           " ",
                           "null",
                           "[]",
                           "\"x\"",
                           "{} {}",
                           "{",
                           R"({"agentIDs":[]})",
                           R"({"agentids":[]})",
                           R"({"new":1})",
                           R"({"agentIds":[],"agentIds":["a"]})",
                           R"({"agentIds":null})",
                           R"({"agentIds":"a"})",
                           R"({"agentIds":[1]})",
                           R"({"agentIds":[""]})",
                           R"({"agentIds":["  "]})",
                           R"({"agentIds":{"a":"b"}})",
                           R"({"protocols":["icmp"]})",
                           R"({"protocols":[""]})",
                           R"({"protocols":["tcp","udp","http","ws","tcp"]})",
                           R"({"targetCIDRs":["10.0.0.0/33"]})",
                           R"({"targetCIDRs":["a.example"]})",
                           R"({"targetCIDRs":[10]})",
                           R"({"targetPorts":["80"]})",
                           R"({"targetPorts":[0]})",
                           R"({"targetPorts":[65536]})",
                           R"({"targetPorts":[80.5]})",
                           R"({"targetPorts":[true]})",
                           R"({"serverNodeIds":[[]]})"}) {
    const Result<Scope> scope = parse_scope(text);
    ASSERT_FALSE(scope) << text;
    EXPECT_EQ(scope.error().code, TMESH_E_INVALID) << text;
  }
}

TEST(Scope, IsBounded) {
  const auto ids = [](int count) {
    std::string text = R"({"agentIds":[)";
    for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::string("\"a") + std::to_string(i) + '"';
    return text + "]}";
  };
  EXPECT_TRUE(parse_scope(ids(128)));
  EXPECT_FALSE(parse_scope(ids(129)));
  EXPECT_TRUE(parse_scope(R"({"agentIds":[")" + std::string(255, 'a') + "\"]}"));
  EXPECT_FALSE(parse_scope(R"({"agentIds":[")" + std::string(256, 'a') + "\"]}"));
  std::string ports = "1";
  for (int i = 2; i <= 1024; ++i) ports += ',' + std::to_string(i);
  EXPECT_TRUE(parse_scope("{\"targetPorts\":[" + ports + "]}"));
  EXPECT_FALSE(parse_scope("{\"targetPorts\":[" + ports + ",1025]}"));
  EXPECT_EQ(parse_scope("{}" + std::string(16 * 1024, ' ')).error().code, TMESH_E_TOO_LARGE);
  EXPECT_TRUE(parse_scope("{}" + std::string(16 * 1024 - 2, ' ')));
}

TEST(Scope, AnEmptyOneRestrictsNothing) {
  EXPECT_TRUE(Scope().allows("any", tcp("a.example", 1)));
  EXPECT_TRUE(Scope().allows("any", tcp("10.0.0.1", 65535)));
}

TEST(Scope, EachListRestrictsOnItsOwn) {
  const auto allows = [](const char* text, const char* agent, const Target& target) {
    return parse_scope(text)->allows(agent, target);
  };
  EXPECT_TRUE(allows(R"({"agentIds":["a"]})", "a", tcp("x.example", 1)));
  EXPECT_FALSE(allows(R"({"agentIds":["a"]})", "b", tcp("x.example", 1)));
  EXPECT_FALSE(allows(R"({"agentIds":["a"]})", "A", tcp("x.example", 1)));
  EXPECT_TRUE(allows(R"({"protocols":["tcp"]})", "a", tcp("x.example", 1)));
  EXPECT_FALSE(allows(R"({"protocols":["udp"]})", "a", tcp("x.example", 1)));
  EXPECT_TRUE(allows(R"({"targetPorts":[443]})", "a", tcp("x.example", 443)));
  EXPECT_FALSE(allows(R"({"targetPorts":[443]})", "a", tcp("x.example", 80)));
  EXPECT_TRUE(allows(R"({"targetCIDRs":["10.0.0.0/8"]})", "a", tcp("10.1.1.1", 1)));
  EXPECT_TRUE(allows(R"({"targetCIDRs":["10.0.0.0/8"]})", "a", tcp("::ffff:10.1.1.1", 1)));
  EXPECT_FALSE(allows(R"({"targetCIDRs":["10.0.0.0/8"]})", "a", tcp("11.1.1.1", 1)));
  EXPECT_FALSE(allows(R"({"targetCIDRs":["10.0.0.0/8"]})", "a", tcp("x.example", 1)))
      << "a name is in no network";
  EXPECT_FALSE(allows(R"({"targetCIDRs":["10.0.0.0/8"],"targetPorts":[1]})", "a", tcp("10.1.1.1", 2)));
}

}  // namespace
}  // namespace tmesh::server
