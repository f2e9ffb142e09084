#include "cpp/server/health.hpp"

#include <list>

#include "tests/cpp/server/fake_revision.hpp"
#include "tests/cpp/server/ws_fixture.hpp"

namespace tmesh::server {
namespace {

constexpr std::string_view kReady = "GET /health/ready HTTP/1.1\r\nHost: a\r\n\r\n";

struct HealthTest : test::WsFixture {
  HealthTest() {
    router.add("/health/live", {http::Method::get}, live);
    router.add("/health/ready", {http::Method::get}, ready);
    serve();
  }
  ~HealthTest() override {
    http_server.reset();  // its Deferreds abort before the handlers go
    release_database();
  }
  static std::string body(const net::RawClient& client) {
    return client.received.substr(client.received.find("\r\n\r\n") + 4);
  }
  LiveHandler live;
  ReadyHandler ready{timers, *database};
};

TEST_F(HealthTest, LiveNeedsNoDatabase) {
  stop_database();
  net::RawClient client = request("GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(client), "HTTP/1.1 200 OK");
  EXPECT_EQ(body(client), R"({"status":"ok"})");
}

TEST_F(HealthTest, ReadyAsksTheDatabase) {
  net::RawClient client = request(kReady);
  EXPECT_EQ(status_of(client), "HTTP/1.1 200 OK");
  EXPECT_EQ(body(client), R"({"status":"ready","components":[{"name":"database","healthy":true}]})");
  EXPECT_EQ(timers.count(), 0u);
}

TEST_F(HealthTest, ADatabaseThatDoesNotAnswerWithinASecondIsNotReady) {
  stop_database();
  net::RawClient client = request(kReady);
  ASSERT_TRUE(run_until([&] { return timers.count() == 1; }));
  timers.advance(ReadyHandler::kDatabaseTimeout_us - 1);
  EXPECT_TRUE(client.pump().received.empty());
  timers.advance(1);
  EXPECT_EQ(status_of(client), "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(body(client), R"({"status":"not_ready","components":[{"name":"database","healthy":false}]})");
  release_database();
  net::RawClient again = request(kReady);
  EXPECT_EQ(status_of(again), "HTTP/1.1 200 OK");
}

TEST_F(HealthTest, ManyQuestionsAreOneForTheDatabase) {
  stop_database();
  std::list<net::RawClient> clients;
  for (int i = 0; i < 50; i++) clients.push_back(request(kReady));
  ASSERT_TRUE(run_until([&] { return timers.count() == 50; }));
  clients.front().reset();  // gives up
  clients.pop_front();
  ASSERT_TRUE(run_until([&] { return timers.count() == 49; }));
  release_database();
  for (net::RawClient& client : clients) EXPECT_EQ(status_of(client), "HTTP/1.1 200 OK");
  EXPECT_EQ(timers.count(), 0u);
}

TEST_F(HealthTest, PipelinedQuestionsAreAnsweredOneByOne) {
  net::RawClient client = request(std::string(kReady) + std::string(kReady) + std::string(kReady));
  EXPECT_TRUE(run_until([&] {
    std::size_t count = 0;
    const std::string& text = client.pump().received;
    for (std::size_t at = 0; (at = text.find("\"ready\"", at)) != std::string::npos; at++) count++;
    return count == 3;
  }));
}

TEST_F(HealthTest, ADrainingServerIsNotReadyAndItsDatabaseIsHealthy) {
  ready.begin_drain();
  net::RawClient client = request(kReady);
  EXPECT_EQ(status_of(client), "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(body(client), R"({"status":"not_ready","components":[{"name":"database","healthy":true}]})");
}

TEST_F(HealthTest, ABrokenDatabaseIsNotReadyAndSaysNothingMore) {
  test::run_sql(*rows.db, "DROP TABLE schema_meta");
  net::RawClient client = request(kReady);
  EXPECT_EQ(status_of(client), "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(body(client), R"({"status":"not_ready","components":[{"name":"database","healthy":false}]})");
}

// With kept decisions, requirement D7: readiness tells whether changes of rights are seen.
struct CacheHealthTest : HealthTest {
  CacheHealthTest() { router.add("/with-cache", {http::Method::get}, with_cache); }
  std::string answer() {
    net::RawClient client = request("GET /with-cache HTTP/1.1\r\nHost: a\r\n\r\n");
    const std::string status = status_of(client).substr(9, 3);
    return status + ' ' + body(client);
  }
  test::FakeRevision revision;
  RevisionWatch watch{timers, revision, {}};
  ReadyHandler with_cache{timers, *database, &watch};
};

TEST_F(CacheHealthTest, ReadinessNeedsARevisionThatIsFollowed) {
  constexpr const char* kReadyBody =
      R"(200 {"status":"ready","components":[{"name":"database","healthy":true},{"name":"authorization_cache","healthy":true}]})";
  constexpr const char* kNotReadyBody =
      R"(503 {"status":"not_ready","components":[{"name":"database","healthy":true},{"name":"authorization_cache","healthy":false}]})";
  EXPECT_EQ(answer(), kNotReadyBody) << "not read yet";
  watch.start();
  revision.answer(7);
  EXPECT_EQ(answer(), kReadyBody);
  timers.advance(2'000'000);
  revision.fail_poll();
  EXPECT_EQ(answer(), kNotReadyBody) << "a poll failed";
  timers.advance(2'000'000);
  revision.answer(7);
  EXPECT_EQ(answer(), kReadyBody);
  timers.advance(2'000'000);
  revision.answer(6);
  EXPECT_EQ(answer(), kNotReadyBody) << "it went back";
}

TEST_F(HealthTest, OtherMethodsAreRefused) {
  net::RawClient client = request("POST /health/ready HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(status_of(client), "HTTP/1.1 405 Method Not Allowed");
}

}  // namespace
}  // namespace tmesh::server
