// The endpoints of agents, policies and tokens over ServiceFixture's rows, where bob has an
// agent, a policy and a token too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpp/server/admin_api/api.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "tests/cpp/server/access_fixture.hpp"
#include "tests/cpp/server/admin_api/endpoint_fixture.hpp"

namespace tmesh::test {

struct AccessApi : EndpointFixture {
  AccessApi() : EndpointFixture(server::access_routes()) {}

  void SetUp() override {
    EndpointFixture::SetUp();
    bobs = *change([this](server::AgentService s) { return s.create("bobs", bob); });
    bobs_policy = *change([this](server::PolicyService s) {
      return s.create(bobs.id, *server::parse_target_pattern("10.0.0.0/8:22"), "tcp");
    });
    bobs_token = *change(
        [this](server::TokenService s) { return s.create({server::TokenType::client, bob.id, {}, {}, {}}); });
  }
  uint64_t revision() { return *storage::read_revision(*db); }
  std::string audited() { return scalar(*db, "SELECT COUNT(*) FROM audit_logs"); }

  // The request is refused with exactly this, and changes nothing.
  void expect_refused(const std::string& request, const std::string& body, const std::string& answer) {
    const uint64_t before = revision();
    const std::string entries = audited();
    EXPECT_EQ(ask(request, body), answer) << request << ' ' << body;
    EXPECT_EQ(revision(), before) << request;
    EXPECT_EQ(audited(), entries) << request;
  }
  // The `id` members of a list, in its order.
  std::vector<std::string> ids(const std::string& list) {
    std::vector<std::string> ids;
    const auto document = json::parse(list);
    EXPECT_TRUE(document) << list;
    if (!document) return ids;
    for (const json::Value item : document->root().get("items"))
      ids.emplace_back(item.get("id").as_string().value_or("-"));
    return ids;
  }
  static std::string quoted(std::string_view text) {
    std::string out;
    json::append_quoted(out, text);
    return out;
  }
  std::string agent(const storage::AgentRecord& of, const std::string& tail = "") const {
    return "/agents/" + of.id + tail;
  }
  std::string token(const server::CreatedToken& of, const std::string& tail = "") const {
    return "/tokens/" + of.token.id + tail;
  }

  storage::AgentRecord bobs;
  storage::PolicyRecord bobs_policy;
  server::CreatedToken bobs_token;
};

}  // namespace tmesh::test
