#include "cpp/server/authorizer.hpp"
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
  const storage::AgentRecord other =
      *change([this](AdminService& s) { return s.create_agent("other", alice); });
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
      *change([this](AdminService& s) { return s.create_token({TokenType::client, alice.id, {}, {}, {}}); });
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

TEST_F(AuthorizationOfSeveral, ManyPoliciesAreReadAgainInsteadOfKept) {
  change([this](AdminService& s) -> Result<void> {
    for (std::size_t i = 0; i < Authorizer::policies_kept_max; ++i) {
      const TargetPattern pattern = *parse_target_pattern("h" + std::to_string(i) + ".test:1");
      if (auto made = s.create_policy(home.id, pattern, "tcp"); !made) return std::unexpected(made.error());
    }
    return {};
  });
  const std::vector<StreamRequest> requests = {request("h0.test", 1), request("h9.test", 2),
                                               request("h4095.test", 1)};
  const auto answers = Authorizer(*db, time.clock()).authorize(requests);
  EXPECT_TRUE(answers[0]);
  EXPECT_FALSE(answers[1]);
  EXPECT_TRUE(answers[2]);
}

TEST_F(AuthorizationOfSeveral, ADatabaseFailureIsTheAnswerToAll) {
  test::run_sql(*db, "DROP TABLE agent_policies");
  const std::vector<StreamRequest> requests(2, request("www.example.com"));
  for (const auto& answer : Authorizer(*db, time.clock()).authorize(requests))
    EXPECT_EQ(answer.error().code, TMESH_E_IO);
}

}  // namespace
}  // namespace tmesh::server
