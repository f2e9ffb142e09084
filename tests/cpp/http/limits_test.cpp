// Slow, huge and many: the budgets of LESSONS R23. Deadlines are real but small; what
// is asserted is order, never a duration.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

#include "cpp/net/process.hpp"
#include "tests/cpp/http/server_fixture.hpp"

namespace tmesh::http {
namespace {

constexpr uint64_t kShortUs = 50'000;

std::size_t value_at(void* count) {
  return *static_cast<std::size_t*>(count);
}

ServerOptions short_header() {
  ServerOptions options;
  options.read_header_timeout_us = kShortUs;
  return options;
}

class SlowRequestTest : public ServerTest {
 protected:
  // One byte at a time keeps coming, and does not move the deadline.
  void expect_drips_to_end(net::RawClient& client) {
    ASSERT_TRUE(run_until([&] {
      client.send("a");
      return client.is_over();
    }));
  }
};

TEST_F(SlowRequestTest, ASlowHeaderGets408) {
  start(short_header());
  net::RawClient client = connect();
  client.send("GET /");
  expect_drips_to_end(client);
  EXPECT_TRUE(client.received.starts_with("HTTP/1.1 408 Request Timeout\r\n"));
  EXPECT_TRUE(handler.seen.empty());
  EXPECT_EQ(server->stats().timeout_count, 1u);
}

TEST_F(ServerTest, ASilentConnectionIsClosedWithoutAnAnswer) {
  start(short_header());
  net::RawClient client = connect();
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_EQ(client.received, "");
}

TEST_F(ServerTest, TheHeaderDeadlineIsOfEachRequestAndNotOfTheConnection) {
  start(short_header());
  net::RawClient client = connect();
  client.send(kGet);
  ASSERT_TRUE(wait_for(client, "GET /|\n"));
  // Idle for longer than the header deadline: that is the idle deadline's business.
  ASSERT_FALSE(run_until([&] { return client.is_over(); }, 2 * kShortUs));
  client.send("GET /sl");
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_EQ(count_of(client.received, "HTTP/1.1 408 "), 1u);
}

TEST_F(SlowRequestTest, ASlowBodyGets408) {
  ServerOptions options;
  options.body_timeout_us = kShortUs;
  start(options);
  net::RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n");
  expect_drips_to_end(client);
  EXPECT_TRUE(client.received.starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(handler.seen.empty());
}

TEST_F(ServerTest, AnIdleConnectionIsClosedWithoutAnAnswer) {
  ServerOptions options;
  options.idle_timeout_us = kShortUs;
  start(options);
  net::RawClient client = connect();
  client.send(kGet);
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_EQ(count_of(client.received, "HTTP/1.1"), 1u);
  EXPECT_EQ(server->stats().timeout_count, 0u);
}

TEST_F(ServerTest, NoDeadlineRunsWhileTheHandlerWorks) {
  ServerOptions options = short_header();
  options.idle_timeout_us = options.body_timeout_us = kShortUs;
  start(options);
  net::RawClient client = connect();
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(1));
  ASSERT_FALSE(run_until([&] { return client.is_over() || handler.aborts > 0; }, 2 * kShortUs));
  handler.later.front().respond(Response::plain(200, "slow"));
  EXPECT_TRUE(wait_for(client, "slow\n"));
}

TEST_F(ServerTest, APeerThatDoesNotReadItsAnswerIsClosed) {
  ServerOptions options;
  options.body_timeout_us = kShortUs;
  handler.big_bytes = 50'000'000;
  start(options);
  net::RawClient client = connect();
  client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(1));
  EXPECT_GT(server->buffered_bytes(), 40'000'000u);
  ASSERT_TRUE(run_until([&] { return server->connection_count() == 0; }));
  EXPECT_EQ(server->buffered_bytes(), 0u);
  EXPECT_EQ(server->stats().timeout_count, 1u);
}

TEST_F(ServerTest, AHugeHeaderGets431AndTheAnswerArrives) {
  ServerOptions options;
  options.limits.max_header_bytes = 65536;
  start(options);
  net::RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
  std::string flood(100'000, 'x');
  ASSERT_TRUE(run_until([&] {
    client.send(flood);
    return client.pump().received.find("\r\n\r\n") != std::string::npos;
  }));
  EXPECT_TRUE(client.received.starts_with("HTTP/1.1 431 "));
  EXPECT_EQ(server->buffered_bytes(), 0u);
}

TEST_F(ServerTest, ALongTargetGets414) {
  start();
  EXPECT_TRUE(exchange("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n")
                  .starts_with("HTTP/1.1 414 "));
}

TEST_F(ServerTest, AHugeBodyGets413WithoutReadingIt) {
  start();
  EXPECT_TRUE(
      exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n").starts_with("HTTP/1.1 413 "));
}

TEST_F(ServerTest, BufferedBytesOfAllConnectionsAreBounded) {
  ServerOptions options;
  options.max_buffered_bytes = 100'000;
  start(options);
  std::vector<net::RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect());
    clients.back().send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" +
                        std::string(40'000, 'b'));
  }
  ASSERT_TRUE(run_until([&] {
    std::size_t refused = 0;
    for (net::RawClient& client : clients) refused += count_of(client.pump().received, "HTTP/1.1 503 ");
    return refused >= 1;
  }));
  EXPECT_LE(server->buffered_bytes(), 100'000u);
}

TEST_F(ServerTest, LargeRequestsLeaveRoomForSmallOnes) {
  ServerOptions options;
  options.max_buffered_bytes = 1'000'000;
  start(options);
  // As many large requests as get in, each waiting for more of its body.
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n";
  std::vector<net::RawClient> hogs;
  for (int i = 0; i < 24; ++i) {
    hogs.push_back(connect());
    hogs.back().send(head + std::string(40'000, 'b'));
  }
  hogs.push_back(connect());
  hogs.back().send(head + std::string(34'000, 'b'));
  ASSERT_TRUE(run_until([&] { return server->buffered_bytes() > 600'000; }));
  ASSERT_FALSE(run_until([&] { return server->buffered_bytes() > 999'000; }, 50'000));
  net::RawClient small = connect();
  small.send("GET /small HTTP/1.1\r\nHost: a\r\nX: " + std::string(7'000, 'x'));
  ASSERT_FALSE(run_until([&] { return small.is_over(); }, 20'000)) << small.received;
  small.send("\r\n\r\n");
  EXPECT_TRUE(wait_for(small, "GET /small|\n")) << small.received;
  EXPECT_LE(server->buffered_bytes(), options.max_buffered_bytes);
}

TEST_F(ServerTest, APipelinerIsNotReadWhileItsRequestIsHandled) {
  start();
  net::RawClient client = connect();
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(1));
  std::string flood(1'000'000, 'x');
  const auto holds = [&](std::size_t bytes) {
    client.send(flood);
    return server->buffered_bytes() > bytes;
  };
  ASSERT_TRUE(run_until([&] { return holds(0); }));
  ASSERT_FALSE(run_until([&] { return holds(200'000); }, 50'000));
}

TEST_F(ServerTest, EachAddressHasACap) {
  ServerOptions options;
  options.max_connections_per_address = 2;
  start(options);
  net::RawClient one = connect();
  net::RawClient two = connect();
  ASSERT_TRUE(run_until([&] { return server->connection_count() == 2; }));
  net::RawClient three = connect();
  ASSERT_TRUE(run_until([&] { return three.is_over(); }));
  EXPECT_EQ(three.received, "");
  EXPECT_EQ(server->stats().over_address_limit_count, 1u);
  one.close();
  ASSERT_TRUE(run_until([&] { return server->connection_count() == 1; }));
  net::RawClient four = connect();
  four.send(kGet);
  EXPECT_TRUE(wait_for(four, "GET /|\n"));
}

TEST_F(ServerTest, ExemptNetworksHaveNoCap) {
  ServerOptions options;
  options.max_connections_per_address = 1;
  options.uncapped_networks = {*parse_cidr("127.0.0.0/8")};
  start(options);
  net::RawClient one = connect();
  net::RawClient two = connect();
  EXPECT_TRUE(run_until([&] { return server->connection_count() == 2; }));
}

TEST_F(ServerTest, AllConnectionsHaveACapThatCountsUpgradedOnes) {
  std::size_t upgraded = 1;
  ServerOptions options;
  options.max_connections = 2;
  options.upgraded_count = Delegate<std::size_t()>::free<&value_at>(&upgraded);
  start(options);
  net::RawClient one = connect();
  ASSERT_TRUE(run_until([&] { return server->connection_count() == 1; }));
  net::RawClient two = connect();
  ASSERT_TRUE(run_until([&] { return two.is_over(); }));
  EXPECT_EQ(server->stats().over_limit_count, 1u);
  upgraded = 0;
  net::RawClient three = connect();
  EXPECT_TRUE(run_until([&] { return server->connection_count() == 2; }));
}

TEST(ServerLimitsTest, DerivesConnectionsFromTheOpenFileLimit) {
  EXPECT_EQ(derive_max_connections(1024), 768u);
  EXPECT_EQ(derive_max_connections(1'048'576), 786'432u);
  EXPECT_EQ(derive_max_connections(8), 16u);
}

// Takes every descriptor of the process and gives them back.
class DescriptorHog {
 public:
  DescriptorHog() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) fds_.push_back(fd);
  }
  ~DescriptorHog() {
    for (int fd : fds_) ::close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  bool is_full() const { return !fds_.empty(); }

 private:
  rlimit before_{};
  std::vector<int> fds_;
};

TEST_F(ServerTest, SurvivesRunningOutOfDescriptors) {
  start();
  int late_fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  net::RawClient early = connect();
  early.send(kGet);
  ASSERT_TRUE(wait_for(early, "GET /|\n"));
  {
    DescriptorHog hog;
    ASSERT_TRUE(hog.is_full());
    net::RawClient refused(server->port(), late_fd);
    ASSERT_TRUE(run_until([&] { return refused.is_over(); })) << "a newcomer must not hang";
    early.send(kGet);
    EXPECT_TRUE(wait_for(early, "GET /|\n", 2)) << "others must not notice";
  }
  net::RawClient after = connect();
  after.send(kGet);
  EXPECT_TRUE(wait_for(after, "GET /|\n")) << "and it goes on";
}

}  // namespace
}  // namespace tmesh::http
