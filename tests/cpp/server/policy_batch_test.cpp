#include "cpp/server/authorizer.hpp"

#include <chrono>

#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::server {
namespace {

struct AuthorizationOfSeveral : test::ServiceFixture {
  StreamRequest request(const char* host, uint16_t port = 443) {
    return {client.token.id, home.id, "tcp", host, port};
  }
  // Called where a decision looks at the time, once for each reading of a token's rows.
  int64_t read_clock() {
    ++readings;
    if (readings == 2 && at_second_reading != nullptr) (this->*at_second_reading)();
    return time.now_us;
  }
  storage::WallClock counting_clock() {
    return storage::WallClock::bind<&AuthorizationOfSeveral::read_clock>(this);
  }
  void disable_home_elsewhere() {
    std::unique_ptr<storage::Db> other = test::open_db(path);
    Result<storage::Transaction> tx = storage::Transaction::write(*other);
    ASSERT_TRUE(tx);
    ASSERT_TRUE(storage::AgentRepository::set_enabled(*tx, home.id, false, "2027-01-15T08:00:00Z"));
    ASSERT_TRUE(tx->commit());
  }

  int readings = 0;
  void (AuthorizationOfSeveral::*at_second_reading)() = nullptr;
};

TEST_F(AuthorizationOfSeveral, AnswersEachInItsPlace) {
  const storage::AgentRecord other = *change([this](AgentService s) { return s.create("other", alice); });
  StreamRequest elsewhere = request("www.example.com");
  elsewhere.agent_id = other.id;
  StreamRequest nobody = request("www.example.com");
  nobody.token_id = "none";
  const std::vector<StreamRequest> requests = {
      request("a.example.com"), elsewhere, request("b.example.com", 80), nobody, request("127.1"),
      request("c.example.com")};
  const auto answers = Authorizer(*db, time.clock()).authorize(requests);
  ASSERT_EQ(answers.size(), requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Result<Grant> alone = Authorizer(*db, time.clock()).authorize(requests[i]);
    ASSERT_EQ(answers[i].has_value(), alone.has_value()) << i;
    if (alone) {
      EXPECT_EQ(answers[i]->target.host, requests[i].host);
      EXPECT_EQ(answers[i]->owner_user_id, alice.id);
    } else {
      EXPECT_STREQ(answers[i].error().text, alone.error().text) << i;
    }
  }
  EXPECT_TRUE(answers.front() && answers.back());
}

TEST_F(AuthorizationOfSeveral, ReadsWhatTheyShareOnce) {
  const std::vector<StreamRequest> requests(5, request("www.example.com"));
  for (const auto& answer : Authorizer(*db, counting_clock()).authorize(requests)) EXPECT_TRUE(answer);
  EXPECT_EQ(readings, 1);
}

TEST_F(AuthorizationOfSeveral, AllRestOnOneViewOfTheDatabase) {
  const CreatedToken second =
      *change([this](TokenService s) { return s.create({TokenType::client, alice.id, {}, {}, {}}); });
  StreamRequest later = request("www.example.com");
  later.token_id = second.token.id;
  const std::vector<StreamRequest> requests = {request("www.example.com"), later};
  at_second_reading = &AuthorizationOfSeveral::disable_home_elsewhere;
  Authorizer authorizer(*db, counting_clock());
  const auto answers = authorizer.authorize(requests);
  EXPECT_TRUE(answers[0] && answers[1]);
  EXPECT_EQ(readings, 2);
  EXPECT_STREQ(authorizer.authorize(requests[0]).error().text, "the agent is disabled")
      << "nothing is kept for the next call";
}

TEST_F(AuthorizationOfSeveral, AgentsMixedUpAreAnsweredInTheirPlaces) {
  const storage::AgentRecord other = *change([this](AgentService s) { return s.create("other", alice); });
  change([&](PolicyService s) { return s.create(other.id, *parse_target_pattern("other.test:1"), "tcp"); });
  std::vector<StreamRequest> requests;
  for (int i = 0; i < 6; ++i) {
    StreamRequest next = i % 2 == 0 ? request("www.example.com") : request("other.test", 1);
    next.agent_id = i % 3 == 0 ? home.id : other.id;
    requests.push_back(next);
  }
  const auto answers = Authorizer(*db, time.clock()).authorize(requests);
  const bool wanted[] = {true, true, false, false, false, true};
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].has_value(), wanted[i]) << i;
  EXPECT_EQ(answers[0]->agent_id, home.id);
  EXPECT_EQ(answers[5]->agent_id, other.id);
}

// What a server re-checks when rights moved: every open stream.
struct ManyStreams : AuthorizationOfSeveral {
  static constexpr std::size_t policies_count = 4000;
  static constexpr std::size_t tokens_count = 50;
  static constexpr std::size_t streams_count = 10'000;

  void SetUp() override {
    AuthorizationOfSeveral::SetUp();
    change([this](PolicyService s) -> Result<void> {
      for (std::size_t i = 1; i < policies_count; ++i) {
        const TargetPattern pattern = *parse_target_pattern("h" + std::to_string(i) + ".test:443");
        if (auto made = s.create(home.id, pattern, "tcp"); !made) return std::unexpected(made.error());
      }
      return {};
    });
    for (std::size_t i = 0; i < tokens_count; ++i) {
      tokens.push_back(change([this](TokenService s) {
                         return s.create({TokenType::client, alice.id, {}, {}, {}});
                       })->token.id);
    }
  }
  std::vector<std::string> tokens;
};

TEST_F(ManyStreams, AreCheckedWithoutReadingPoliciesAgain) {
  std::vector<StreamRequest> requests;
  for (std::size_t i = 0; i < streams_count; ++i) {
    // Every other one is compared with all policies and refused.
    const std::string host = (i % 2 == 0 ? "h" : "x") + std::to_string(i % policies_count) + ".test";
    requests.push_back({tokens[i % tokens_count], home.id, "tcp", host, 443});
  }
  requests[0].host = "www.example.com";
  const auto begun = std::chrono::steady_clock::now();
  const auto answers = Authorizer(*db, time.clock()).authorize(requests);
  const auto took = std::chrono::steady_clock::now() - begun;
  std::size_t allowed = 0;
  for (const auto& answer : answers) allowed += answer ? 1 : 0;
  // h0 is no policy; its place is taken by the first request alone.
  EXPECT_EQ(allowed, streams_count / 2 - 2);
  RecordProperty("milliseconds",
                 static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  EXPECT_LT(took, std::chrono::seconds(10)) << "reading 4000 rows for each takes minutes";
}

TEST_F(AuthorizationOfSeveral, ADatabaseFailureIsTheAnswerToAll) {
  test::run_sql(*db, "DROP TABLE agent_policies");
  const std::vector<StreamRequest> requests(2, request("www.example.com"));
  for (const auto& answer : Authorizer(*db, time.clock()).authorize(requests))
    EXPECT_EQ(answer.error().code, TMESH_E_IO);
}

}  // namespace
}  // namespace tmesh::server
