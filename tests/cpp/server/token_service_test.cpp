#include "cpp/server/token_service.hpp"

#include <fstream>
#include <iterator>

#include "cpp/server/token_hash.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/node_repository.hpp"
#include "tests/cpp/server/access_fixture.hpp"

namespace tmesh::server {
namespace {

constexpr const char* key32 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

struct Tokens : test::AccessFixture {
  storage::TokenRecord row(const std::string& id) { return *(*storage::TokenRepository(*db).find(id)); }
  std::string status(const storage::TokenRecord& token) {
    return token_status_name(*token_status(*db, row(token.id), time.now_us));
  }
  std::optional<int64_t> in(int64_t us) const { return time.now_us + us; }
  NewToken of(TokenType type, const std::string& owner, const std::string& agent = {}, Scope scope = {}) {
    return {type, owner, agent, std::move(scope), {}};
  }
  void expect_refused_new(const NewToken& wanted, const char* text, tmesh_code code = TMESH_E_INVALID) {
    expect_refused([&](TokenService s) { return s.create(wanted); }, code, text);
  }
  void add_node(const char* id) {
    change([&](const ChangeScope& scope) {
      return storage::NodeRepository::start(scope.tx(), id, "", "2027-02-01T00:00:00Z", scope.now());
    });
  }
  static Scope agents(std::vector<std::string> ids) {
    Scope scope;
    scope.agent_ids = std::move(ids);
    return scope;
  }
  static Scope nodes(std::vector<std::string> ids) {
    Scope scope;
    scope.server_node_ids = std::move(ids);
    return scope;
  }
};

TEST_F(Tokens, OfEachTypeAreCreated) {
  add_node("node-1");
  const CreatedToken one =
      *change([this](TokenService s) { return s.create(of(TokenType::agent, "", home.id)); });
  EXPECT_EQ(one.token.owner_user_id, alice.id) << "an agent token is its agent's owner's";
  const CreatedToken two =
      *change([this](TokenService s) { return s.create(of(TokenType::client, bob.id)); });
  const CreatedToken three = *change(
      [this](TokenService s) { return s.create(of(TokenType::server_node, "", "", nodes({"node-1"}))); });
  const CreatedToken four =
      *change([this](TokenService s) { return s.create(of(TokenType::server_node, "")); });
  for (const CreatedToken* made : {&one, &two, &three, &four}) {
    const storage::TokenRecord stored = row(made->token.id);
    EXPECT_EQ(stored.token_hash, digest_token(made->secret.reveal()).hex);
    EXPECT_EQ(stored.token_prefix, made->secret.reveal().substr(0, 8));
    EXPECT_EQ(status(stored), "active");
  }
  EXPECT_EQ(row(three.token.id).scope, R"({"serverNodeIds":["node-1"]})");
  EXPECT_EQ(row(four.token.id).scope, "{}") << "a token of the fleet";
}

TEST_F(Tokens, WhatATypeCannotHaveIsRefused) {
  expect_refused_new(of(TokenType::agent, alice.id), "agentId: an agent token needs an agent");
  expect_refused_new(of(TokenType::client, alice.id, home.id),
                     "agentId is for agent tokens; scope.agentIds restricts others");
  expect_refused_new(of(TokenType::server_node, "", home.id),
                     "agentId is for agent tokens; scope.agentIds restricts others");
  expect_refused_new(of(TokenType::client, ""), "ownerUserId is missing");
  expect_refused_new(of(TokenType::agent, "", "agent-none"), "agentId: there is no such agent");
  expect_refused_new(of(TokenType::agent, bob.id, home.id), "ownerUserId: the agent has another owner");
  expect_refused_new(of(TokenType::agent, "", home.id, agents({home.id})), "scope: an agent token has none");
  expect_refused_new(of(TokenType::server_node, "", "", agents({home.id})),
                     "scope: a node token has serverNodeIds only");
}

TEST_F(Tokens, TheOwnerMustBeALiveUser) {
  const char* text = "the owner is not there, disabled or deleted";
  expect_refused_new(of(TokenType::client, "user-none"), text);
  expect_refused_new(of(TokenType::server_node, "user-none"), text);
  change([this](UserService s) { return s.set_disabled(bob, true); });
  expect_refused_new(of(TokenType::client, bob.id), text);
}

TEST_F(Tokens, TheScopeNamesAgentsOfTheOwnerAndNodesThatAreThere) {
  const storage::AgentRecord bobs = *change([this](AgentService s) { return s.create("bobs", bob); });
  const char* text = "scope.agentIds: the owner has no such agent";
  expect_refused_new(of(TokenType::client, alice.id, "", agents({"agent-none"})), text);
  expect_refused_new(of(TokenType::client, alice.id, "", agents({home.id, bobs.id})), text);
  expect_refused_new(of(TokenType::client, alice.id, "", nodes({"node-1"})),
                     "scope.serverNodeIds: there is no such node");
  add_node("node-1");
  EXPECT_TRUE(change(
      [this](TokenService s) { return s.create(of(TokenType::client, alice.id, "", nodes({"node-1"}))); }));
}

TEST_F(Tokens, TheScopeIsStoredNormalisedAndBounded) {
  Scope scope = agents({home.id, home.id});
  scope.protocols = {"udp", "tcp", "udp"};
  scope.target_ports = {443, 80, 443};
  const CreatedToken made =
      *change([&](TokenService s) { return s.create(of(TokenType::client, alice.id, "", scope)); });
  EXPECT_EQ(row(made.token.id).scope,
            "{\"agentIds\":[\"" + home.id + "\"],\"protocols\":[\"tcp\",\"udp\"],\"targetPorts\":[80,443]}");
  for (uint16_t port = 1; port <= 1025; ++port) scope.target_ports.push_back(port);
  expect_refused_new(of(TokenType::client, alice.id, "", scope),
                     "a scope's ports are not a list of at most 1024");
}

TEST_F(Tokens, ExpiryIsInTheFuture) {
  NewToken wanted = of(TokenType::client, alice.id);
  for (const int64_t us : {0, -1, -1'000'000}) {
    wanted.expires_at_us = in(us);
    expect_refused_new(wanted, "expiresAt is not in the future");
    expect_refused([&](TokenService s) { return s.update(client.token, {{}, in(us)}); }, TMESH_E_INVALID,
                   "expiresAt is not in the future");
  }
  wanted.expires_at_us = in(1);
  const CreatedToken made = *change([&](TokenService s) { return s.create(wanted); });
  EXPECT_EQ(status(made.token), "active");
  time.now_us += 1;
  EXPECT_EQ(status(made.token), "expired") << "expired at exactly that time";
}

TEST_F(Tokens, AnOwnerHasAtMostAThousandThatAreNotRevoked) {
  change([this](const ChangeScope& scope) -> Result<void> {
    storage::TokenRecord token = client.token;
    const int64_t have = *storage::TokenRepository(*db).count_of_owner(alice.id);
    for (int64_t i = have; i < TokenService::tokens_per_owner_max; ++i) {
      token.id = "stok_" + std::to_string(i);
      token.token_hash = "hash" + std::to_string(i);
      if (Result<void> done = storage::TokenRepository::create(scope.tx(), token); !done) return done;
    }
    return {};
  });
  expect_refused_new(of(TokenType::client, alice.id), "the owner has 1000 tokens already", TMESH_E_STATE);
  EXPECT_TRUE(change([this](TokenService s) { return s.create(of(TokenType::client, bob.id)); }));
  EXPECT_TRUE(change([this](TokenService s) { return s.rotate(client.token); })) << "as many as before";
  change([this](TokenService s) { return s.revoke(agent_token.token); });
  EXPECT_TRUE(change([this](TokenService s) { return s.create(of(TokenType::client, alice.id)); }));
}

TEST_F(Tokens, UpdateChangesScopeAndExpiryOnTheirOwn) {
  Scope scope = agents({home.id});
  time.now_us += 1'000'000;
  EXPECT_EQ(steps([&](TokenService s) { return s.update(client.token, {scope, {}}); }), 1U);
  EXPECT_EQ(row(client.token.id).expires_at, "");
  EXPECT_EQ(steps([&](TokenService s) { return s.update(client.token, {{}, in(3'600'000'000)}); }), 1U);
  storage::TokenRecord stored = row(client.token.id);
  EXPECT_EQ(stored.expires_at, "2027-01-15T09:00:01Z");
  EXPECT_EQ(stored.scope, "{\"agentIds\":[\"" + home.id + "\"]}");
  EXPECT_EQ(stored.updated_at, "2027-01-15T08:00:01Z");
  EXPECT_EQ(last_action(), "token.update");
  EXPECT_EQ(steps([&](TokenService s) { return s.update(client.token, {scope, {}}); }), 0U) << "as it is";
  change([&](TokenService s) { return s.update(client.token, {Scope(), std::optional<int64_t>()}); });
  stored = row(client.token.id);
  EXPECT_EQ(stored.expires_at, "");
  EXPECT_EQ(stored.scope, "{}");
}

TEST_F(Tokens, UpdateChecksTheScopeAsCreateDoes) {
  expect_refused([&](TokenService s) { return s.update(client.token, {agents({"agent-none"}), {}}); },
                 TMESH_E_INVALID, "scope.agentIds: the owner has no such agent");
  expect_refused([&](TokenService s) { return s.update(agent_token.token, {agents({home.id}), {}}); },
                 TMESH_E_INVALID, "scope: an agent token has none");
}

TEST_F(Tokens, AnAgentThatIsGoneMayStayInAScope) {
  const storage::AgentRecord lab = *change([this](AgentService s) { return s.create("lab", alice); });
  change([&](TokenService s) { return s.update(client.token, {agents({home.id, lab.id}), {}}); });
  change([&](AgentService s) { return s.remove(lab); });
  Scope scope = agents({home.id, lab.id});
  scope.target_ports = {443};
  EXPECT_EQ(steps([&](TokenService s) { return s.update(client.token, {scope, {}}); }), 1U);
}

TEST_F(Tokens, ARevokedTokenStaysAsItIs) {
  EXPECT_EQ(steps([this](TokenService s) { return s.revoke(client.token); }), 1U);
  EXPECT_EQ(status(client.token), "revoked");
  const char* text = "the token is already revoked";
  expect_refused([this](TokenService s) { return s.revoke(client.token); }, TMESH_E_STATE, text);
  expect_refused([this](TokenService s) { return s.rotate(client.token); }, TMESH_E_STATE, text);
  expect_refused([this](TokenService s) { return s.reveal(client.token); }, TMESH_E_STATE, text);
  expect_refused([this](TokenService s) { return s.update(client.token, {Scope(), {}}); }, TMESH_E_STATE,
                 text);
}

TEST_F(Tokens, RotationReplacesIdAndSecretAndKeepsTheRights) {
  Scope scope = agents({home.id});
  change([&](TokenService s) { return s.update(client.token, {scope, in(5'000'000)}); });
  CreatedToken made;
  EXPECT_EQ(steps([&](TokenService s) {
              Result<CreatedToken> rotated = s.rotate(client.token);
              if (rotated) made = *rotated;
              return rotated;
            }),
            1U);
  EXPECT_NE(made.token.id, client.token.id);
  EXPECT_FALSE(made.secret.equals(client.secret.reveal()));
  const storage::TokenRecord stored = row(made.token.id);
  EXPECT_EQ(stored.scope, row(client.token.id).scope);
  EXPECT_EQ(stored.expires_at, "2027-01-15T08:00:05Z");
  EXPECT_EQ(stored.owner_user_id, alice.id);
  EXPECT_EQ(status(client.token), "revoked");
  EXPECT_FALSE(ask(client));
  EXPECT_TRUE(ask(made));
  time.now_us += 5'000'000;
  expect_refused([&](TokenService s) { return s.rotate(made.token); }, TMESH_E_STATE,
                 "the token has expired");
}

TEST_F(Tokens, AScopeThatCannotBeReadIsNotCopied) {
  set("service_tokens", client.token.id, "scope", "{\"ports\":[1]}");
  storage::TokenRecord broken = row(client.token.id);
  EXPECT_EQ(status(broken), "unavailable");
  expect_refused([&](TokenService s) { return s.rotate(broken); }, TMESH_E_STATE,
                 "the token's scope cannot be read; revoke it and make another");
}

struct KeptSecrets : Tokens {
  SecretBox box = *SecretBox::make(key32, "");
  CreatedToken kept;
  template <class Change>
  auto with_box(Change change_rows, const SecretBox* other = nullptr) {
    return change(
        [&](const ChangeScope& scope) { return change_rows(TokenService(scope, other ? other : &box)); });
  }
  void SetUp() override {
    Tokens::SetUp();
    kept = *with_box([this](TokenService s) { return s.create(of(TokenType::client, alice.id)); });
  }
  void expect_not_revealed(const storage::TokenRecord& token, const char* text, const SecretBox* with) {
    expect_refused([&](const ChangeScope& scope) { return TokenService(scope, with).reveal(token); },
                   TMESH_E_STATE, text);
  }
};

TEST_F(KeptSecrets, AreRevealedAndTheReadingIsNoted) {
  const uint64_t before = revision();
  const Result<Secret> secret = with_box([this](TokenService s) { return s.reveal(kept.token); });
  EXPECT_EQ(secret->reveal(), kept.secret.reveal());
  EXPECT_EQ(revision(), before) << "reading changes no rights";
  EXPECT_EQ(last_action(), "token.reveal");
  EXPECT_EQ(
      test::scalar(*db, "SELECT secret_last_read_at FROM service_tokens WHERE id = '" + kept.token.id + "'"),
      "2027-01-15T08:00:00Z");
}

TEST_F(KeptSecrets, OfRotatedTokensAreTheNewOnes) {
  const CreatedToken made = *with_box([this](TokenService s) { return s.rotate(kept.token); });
  EXPECT_EQ(with_box([&](TokenService s) { return s.reveal(made.token); })->reveal(), made.secret.reveal());
}

TEST_F(KeptSecrets, WhatWasNotKeptCannotBeRevealed) {
  expect_not_revealed(client.token, "the token's secret was not kept; rotate the token", &box);
  expect_not_revealed(client.token, "the token's secret was not kept; rotate the token", nullptr);
}

TEST_F(KeptSecrets, NeedTheKeyTheyWereKeptWith) {
  expect_not_revealed(kept.token,
                      "the server has no TUNNELMESH_TOKEN_ENCRYPTION_KEY to read kept secrets with", nullptr);
  const SecretBox other_id = *SecretBox::make(key32, "2028");
  expect_not_revealed(kept.token, "the secret was kept under another key", &other_id);
  const SecretBox other_key = *SecretBox::make("AAECAwQFBgcICQoLDA0ODw", "");
  expect_not_revealed(kept.token, "the kept secret cannot be read with the present key", &other_key);
}

TEST_F(KeptSecrets, OfAnotherTokenAreNotRevealed) {
  const CreatedToken other =
      *with_box([this](TokenService s) { return s.create(of(TokenType::client, alice.id)); });
  test::run_sql(*db,
                "UPDATE service_tokens SET secret_ciphertext = (SELECT secret_ciphertext FROM service_tokens "
                "WHERE id = '" +
                    other.token.id +
                    "'), secret_nonce = (SELECT secret_nonce FROM service_tokens "
                    "WHERE id = '" +
                    other.token.id + "') WHERE id = '" + kept.token.id + "'");
  expect_not_revealed(kept.token, "the kept secret is not the token's; rotate the token", &box);
}

TEST_F(KeptSecrets, OfExpiredTokensAreNotRevealed) {
  with_box([this](TokenService s) { return s.update(kept.token, {{}, in(1)}); });
  time.now_us += 1;
  expect_not_revealed(kept.token, "the token has expired", &box);
}

// Neither the table, the audit log nor an error ever holds the secret itself.
TEST_F(KeptSecrets, AreNowhereInTheDatabaseInTheClear) {
  with_box([this](TokenService s) { return s.reveal(kept.token); });
  const std::string secret(kept.secret.reveal());
  for (const std::string& name : {path, path + "-wal"}) {
    std::ifstream file(name, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(bytes.find(secret), std::string::npos) << name;
    EXPECT_EQ(bytes.find("AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"), std::string::npos) << name;
  }
  const std::vector<storage::AuditRecord> entries = *storage::AuditRepository(*db).newest(500);
  for (const storage::AuditRecord& row : entries) EXPECT_EQ(row.details.find(secret), std::string::npos);
}

}  // namespace
}  // namespace tmesh::server
