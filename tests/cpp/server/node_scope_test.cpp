// Tokens whose scope names servers, at this server and at another.
#include <gtest/gtest.h>

#include "cpp/server/presence_batch.hpp"
#include "cpp/storage/node_repository.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::server {
namespace {

struct NodeScope : test::ServiceFixture {
  void SetUp() override {
    ServiceFixture::SetUp();
    for (const char* id : {"server-a", "server-b"}) ASSERT_TRUE(announce_node(*db, id, "h:1", time.now_us));
    set("service_tokens", client.token.id, "scope", R"({"serverNodeIds":["server-a"]})");
    set("service_tokens", agent_token.token.id, "scope", R"({"serverNodeIds":["server-a"]})");
  }
  tmesh_code authenticate(const CreatedToken& token, TokenType type, const char* node) {
    const Result<Identity> who =
        CredentialService(*db, time.clock(), node).authenticate(token.secret.reveal(), type);
    return who ? TMESH_OK : who.error().code;
  }
  tmesh_code open(const char* node) {
    const Result<Grant> grant = Authorizer(*db, time.clock(), node)
                                    .authorize({client.token.id, home.id, "tcp", "www.example.com", 443});
    return grant ? TMESH_OK : grant.error().code;
  }
  tmesh_code recheck(const char* node) {
    const std::string ids[] = {agent_token.token.id};
    const auto answers = CredentialService(*db, time.clock(), node).recheck(ids);
    return answers.front() ? TMESH_OK : answers.front().error().code;
  }
};

TEST_F(NodeScope, ATokenWorksAtTheServersOfItsScopeOnly) {
  EXPECT_EQ(authenticate(client, TokenType::client, "server-a"), TMESH_OK);
  EXPECT_EQ(authenticate(agent_token, TokenType::agent, "server-a"), TMESH_OK);
  EXPECT_EQ(open("server-a"), TMESH_OK);
  EXPECT_EQ(recheck("server-a"), TMESH_OK);
  EXPECT_EQ(authenticate(client, TokenType::client, "server-b"), TMESH_E_POLICY);
  EXPECT_EQ(authenticate(agent_token, TokenType::agent, "server-b"), TMESH_E_POLICY);
  EXPECT_EQ(open("server-b"), TMESH_E_POLICY);
  EXPECT_EQ(recheck("server-b"), TMESH_E_POLICY);
}

TEST_F(NodeScope, AScopeWithoutServersAllowsAll) {
  set("service_tokens", client.token.id, "scope", "{}");
  EXPECT_EQ(open("server-a"), TMESH_OK);
  EXPECT_EQ(open("server-b"), TMESH_OK);
}

TEST_F(NodeScope, AServerThatAsksIsAliveHoweverLongItCouldNotSaySo) {
  time.now_us += kNodeLife_us + 1;
  EXPECT_EQ(open("server-a"), TMESH_OK);
  set("service_tokens", client.token.id, "scope", R"({"serverNodeIds":["server-a","server-b"]})");
  EXPECT_EQ(open("server-a"), TMESH_E_POLICY) << "the other one has expired";
}

TEST_F(NodeScope, ADisabledServerEndsItsTokens) {
  set("server_nodes", "server-a", "enabled", 0);
  EXPECT_EQ(open("server-a"), TMESH_E_POLICY);
  EXPECT_EQ(authenticate(agent_token, TokenType::agent, "server-a"), TMESH_E_POLICY);
}

}  // namespace
}  // namespace tmesh::server
