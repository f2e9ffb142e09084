// Agents, policies and tokens on both engines: what lists and counts see, kept secrets, and
// two programs that change the same rows at once.
#include <algorithm>
#include <thread>

#include "cpp/server/agent_service.hpp"
#include "cpp/server/authorizer.hpp"
#include "cpp/server/policy_service.hpp"
#include "cpp/server/token_service.hpp"
#include "cpp/server/user_service.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "cpp/storage/token_repository.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::server {
namespace {

constexpr const char* key32 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

class Access : public test::EngineTest {
 protected:
  // With the retries that commands and API have.
  template <class Work>
  auto change(storage::Db& db, Work work) {
    return storage::change(db,
                           [&](storage::Transaction& tx) { return work(ChangeScope(tx, time.now_us, "")); });
  }
  template <class Work>
  auto change(Work work) {
    auto made = change(*first, work);
    EXPECT_TRUE(made) << (made ? "" : made.error().text);
    return made;
  }
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    first = open(10'000);
    second = open(10'000);
    ASSERT_TRUE(storage::migrate(*first, true));
    alice = *change([](UserService s) { return s.create("alice", "admin", "hash"); });
    bob = *change([](UserService s) { return s.create("bob", "user", "hash"); });
    home = *change([this](AgentService s) { return s.create("home", alice); });
    policy = *change([this](PolicyService s) {
      return s.create(home.id, *parse_target_pattern("*.example.com:443"), "tcp");
    });
    client = *change([this](TokenService s) { return s.create({TokenType::client, alice.id, {}, {}, {}}); });
  }
  // Both at once, each on its own connection; how many of them succeeded.
  template <class One, class Other>
  int both(One one, Other other) {
    bool is_other_done = false;
    std::thread thread([&] { is_other_done = change(*second, other).has_value(); });
    const bool is_one_done = change(*first, one).has_value();
    thread.join();
    return (is_one_done ? 1 : 0) + (is_other_done ? 1 : 0);
  }
  // Copies the only row of a table until there are `count`.
  void fill(const std::string& table, const std::string& keys, const std::string& others, int64_t count) {
    for (int64_t have = 1; have < count; have *= 2) {
      const std::string end = "." + std::to_string(have);
      const bool has_hash = keys != "id";
      std::string sql = "INSERT INTO " + table + " (" + keys + ", " + others + ") SELECT CONCAT(id, '" + end;
      sql += has_hash ? "'), CONCAT(token_hash, '" + end + "'), " : "'), ";
      sql += others + " FROM " + table + " LIMIT " + std::to_string(std::min(have, count - have));
      test::run_sql(*first, sql);
    }
  }
  uint64_t revision() { return *storage::read_revision(*first); }

  test::FakeClock time;
  std::unique_ptr<storage::Db> first;
  std::unique_ptr<storage::Db> second;
  storage::UserRecord alice;
  storage::UserRecord bob;
  storage::AgentRecord home;
  storage::PolicyRecord policy;
  CreatedToken client;
};

TEST_P(Access, AUsersTokensAreHisAndThoseOfHisAgentsWithoutAnOwner) {
  const CreatedToken of_agent =
      *change([this](TokenService s) { return s.create({TokenType::agent, "", home.id, {}, {}}); });
  change([this](TokenService s) { return s.create({TokenType::client, bob.id, {}, {}, {}}); });
  change([](TokenService s) { return s.create({TokenType::server_node, "", "", {}, {}}); });
  const auto count = [this](const std::string& owner) {
    return storage::TokenRepository(*first).list({}, owner)->items.size();
  };
  EXPECT_EQ(count(alice.id), 2U);
  EXPECT_EQ(count(bob.id), 1U);
  EXPECT_EQ(count(""), 4U);
  const storage::Param id[] = {of_agent.token.id};
  test::run_sql(*first, "UPDATE service_tokens SET owner_user_id = NULL WHERE id = ?", id);
  EXPECT_EQ(count(alice.id), 2U);
  change([this](AgentService s) { return s.set_owner(home, bob.id); });
  EXPECT_EQ(count(alice.id), 1U);
  EXPECT_EQ(count(bob.id), 2U);
}

TEST_P(Access, CountsSeeWhatTheyBound) {
  EXPECT_EQ(*storage::AgentRepository(*first).count_of_owner(alice.id), 1);
  EXPECT_EQ(*storage::AgentRepository(*first).count_of_owner(bob.id), 0);
  EXPECT_EQ(*storage::PolicyRepository(*first).count_of_agent(home.id), 1);
  EXPECT_EQ(*storage::TokenRepository(*first).count_of_owner(alice.id), 1);
  change([this](TokenService s) { return s.revoke(client.token); });
  EXPECT_EQ(*storage::TokenRepository(*first).count_of_owner(alice.id), 0);
}

// The limits are those of all servers together: what another one made counts also for a change
// that began to read before, as the API's do.
TEST_P(Access, LimitsCountWhatAnotherServerMadeMeanwhile) {
  if (!is_mysql()) return;  // a second writer of SQLite reads nothing before it is its turn
  fill("agents", "id", "name, owner_user_id, capabilities, enabled, created_at, updated_at",
       AgentService::agents_per_owner_max - 1);
  fill("agent_policies", "id",
       "agent_id, target_host, target_port, protocol, allowed_cidrs, allowed_ports, created_at, updated_at",
       PolicyService::policies_per_agent_max - 1);
  fill("service_tokens", "id, token_hash",
       "token_type, owner_user_id, token_prefix, scope, created_at, updated_at",
       TokenService::tokens_per_owner_max - 1);
  const auto last_place = [this](auto create) {
    auto tx = storage::Transaction::write(*second);
    ASSERT_TRUE(tx);
    ASSERT_TRUE(storage::read_revision(*second));
    change(create);
    const auto beyond = create(ChangeScope(*tx, time.now_us, ""));
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().code, TMESH_E_STATE) << beyond.error().text;
  };
  last_place([this](AgentService s) { return s.create("one more", alice); });
  last_place([this](PolicyService s) { return s.create(home.id, *parse_target_pattern("*:*"), "tcp"); });
  last_place([this](TokenService s) { return s.create({TokenType::client, alice.id, {}, {}, {}}); });
}

TEST_P(Access, KeptSecretsComeBackAsTheyWere) {
  const SecretBox box = *SecretBox::make(key32, "");
  const CreatedToken made = *change([&](const ChangeScope& scope) {
    return TokenService(scope, &box).create({TokenType::client, alice.id, {}, {}, {}});
  });
  const uint64_t before = revision();
  const Result<Secret> secret =
      change([&](const ChangeScope& scope) { return TokenService(scope, &box).reveal(made.token); });
  EXPECT_EQ(secret->reveal(), made.secret.reveal());
  EXPECT_EQ(revision(), before);
  EXPECT_FALSE(*storage::TokenRepository(*first).sealed_secret(client.token.id));
  EXPECT_FALSE(*storage::TokenRepository(*first).sealed_secret("stok_none"));
}

TEST_P(Access, EachUpdateKeepsWhatItDoesNotName) {
  PolicyChange ports;
  ports.target_port = 0;
  ports.allowed_ports = {{80, 80}, {8000, 8100}};
  change([&](PolicyService s) { return s.update(policy, ports); });
  EXPECT_EQ((*storage::PolicyRepository(*first).find(policy.id))->allowed_ports, "80,8000-8100");
  Scope scope;
  scope.agent_ids = {home.id};
  change([&](TokenService s) { return s.update(client.token, {scope, time.now_us + 5'000'000}); });
  const auto token = *storage::TokenRepository(*first).find(client.token.id);
  EXPECT_EQ(token->scope, "{\"agentIds\":[\"" + home.id + "\"]}");
  EXPECT_EQ(token->expires_at, "2027-01-15T08:00:05Z");
  change([&](AgentService s) { return s.set_capabilities(home, {"\xc3\xbc", "tcp"}); });
  EXPECT_EQ((*storage::AgentRepository(*first).find(home.id))->capabilities, "[\"\xc3\xbc\",\"tcp\"]");
}

TEST_P(Access, TextsOfEveryKindAreDataOnly) {
  for (const char* text : {"'; DROP TABLE users; --", "\\'; --", "%", "\" OR 1=1", "\xf0\x9f\x98\x80"}) {
    storage::AgentRecord agent = *change([&](AgentService s) { return s.create(text, alice); });
    EXPECT_EQ((*storage::AgentRepository(*first).find(agent.id))->name, text);
    EXPECT_FALSE(*storage::AgentRepository(*first).find(text));
    EXPECT_TRUE(storage::TokenRepository(*first).list({}, text)->items.empty());
    EXPECT_TRUE(storage::PolicyRepository(*first).list({}, text)->items.empty());
  }
  EXPECT_EQ(test::scalar(*first, "SELECT COUNT(*) FROM users"), "2");
}

TEST_P(Access, ATokenIsRotatedByOneOnly) {
  for (int round = 0; round < 10; ++round) {
    const std::string id = change([this](TokenService s) {
                             return s.create({TokenType::client, alice.id, {}, {}, {}});
                           })->token.id;
    const auto rotate = [&](TokenService s) -> Result<CreatedToken> {
      auto token = s.find(id);
      if (!token) return std::unexpected(token.error());
      return s.rotate(**token);
    };
    EXPECT_EQ(both(rotate, rotate), 1) << round;
  }
  EXPECT_EQ(*storage::TokenRepository(*first).count_of_owner(alice.id), 11) << "one each, and the first";
}

TEST_P(Access, AnAgentThatGoesLeavesNoPolicy) {
  for (int round = 0; round < 10; ++round) {
    const storage::AgentRecord agent = *change([this](AgentService s) { return s.create("x", alice); });
    both([&](AgentService s) { return s.remove(agent); },
         [&](PolicyService s) { return s.create(agent.id, *parse_target_pattern("*:*"), "tcp"); });
    EXPECT_FALSE(*storage::AgentRepository(*first).find(agent.id));
    EXPECT_EQ(*storage::PolicyRepository(*first).count_of_agent(agent.id), 0) << round;
  }
}

TEST_P(Access, NothingIsMadeForAUserWhoGoes) {
  for (int round = 0; round < 10; ++round) {
    const std::string name = "user-" + std::to_string(round);
    const storage::UserRecord user = *change([&](UserService s) { return s.create(name, "user", "hash"); });
    both(
        [&](UserService s) -> Result<void> {
          auto found = s.find(user.id);
          if (!found) return std::unexpected(found.error());
          return s.remove(**found);
        },
        [&](AgentService s) { return s.create("x", user); });
    // Whichever came first, a later one is refused.
    EXPECT_FALSE(change(*second, [&](AgentService s) { return s.create("y", user); })) << round;
    EXPECT_FALSE(
        change(*second, [&](TokenService s) { return s.create({TokenType::client, user.id, {}, {}, {}}); }));
  }
}

TEST_P(Access, ChangesCountForTheNextDecisionOfAnotherConnection) {
  const StreamRequest request{client.token.id, home.id, "tcp", "www.example.com", 443};
  Authorizer authorizer(*second, time.clock());
  EXPECT_TRUE(authorizer.authorize(request));
  change([this](PolicyService s) { return s.remove(policy); });
  EXPECT_EQ(authorizer.authorize(request).error().code, TMESH_E_POLICY);
}

TMESH_BOTH_ENGINES(Access);

}  // namespace
}  // namespace tmesh::server
