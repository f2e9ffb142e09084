// Exchanges, order, keep-alive, abort and shutdown.
#include "cpp/http/server.hpp"

#include <gtest/gtest.h>

#include "cpp/http/router.hpp"
#include "tests/cpp/http/server_fixture.hpp"

namespace tmesh::http {
namespace {

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  start();
  net::RawClient client = connect();
  client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for(client, "GET /a|\n"));
  EXPECT_TRUE(client.received.starts_with("HTTP/1.1 200 OK\r\nDate: "));
  EXPECT_EQ(client.received.find("Connection: close"), std::string::npos);
  EXPECT_EQ(client.received.find("Server:"), std::string::npos);
  client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
  ASSERT_TRUE(wait_for(client, "POST /b|body\n"));
  EXPECT_EQ(handler.peer, "127.0.0.1");
  EXPECT_EQ(server->connection_count(), 1u);
  EXPECT_EQ(server->stats().request_count, 2u);
}

TEST_F(ServerTest, ClosesWhenAsked) {
  start();
  std::string answer = exchange(kGetClose);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_EQ(server->connection_count(), 0u);
  EXPECT_TRUE(exchange("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(ServerTest, HeadHasNoBody) {
  start();
  std::string answer = exchange("HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("\r\nContent-Length: 9\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  net::RawClient client = connect();
  client.send(
      "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
      "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_EQ(count_of(client.received, "HTTP/1.1 200 OK"), 3u);
  std::size_t one = client.received.find("GET /1|\n");
  std::size_t two = client.received.find("POST /2|ab\n");
  std::size_t three = client.received.find("GET /3|\n");
  EXPECT_LT(one, two);
  EXPECT_LT(two, three);
  EXPECT_NE(three, std::string::npos);
}

TEST_F(ServerTest, PipelinedRequestsWaitForADeferredOne) {
  start();
  net::RawClient client = connect();
  client.send(
      "GET /later HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: "
      "a\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(1));
  ASSERT_FALSE(run_until([&] { return handler.seen.size() > 1; }, 20'000));
  handler.later.front().respond(Response::plain(200, "first"));
  EXPECT_FALSE(handler.later.front().active());
  ASSERT_TRUE(wait_for(client, "GET /3|\n"));
  EXPECT_LT(client.received.find("first\n"), client.received.find("GET /2|\n"));
}

TEST_F(ServerTest, ManyPipelinedRequestsAllGetTheirAnswer) {
  start();
  net::RawClient client = connect();
  std::string requests;
  for (int i = 0; i < 2000; ++i) requests += kGet;
  std::string_view rest = requests;
  ASSERT_TRUE(run_until([&] {
    rest.remove_prefix(client.send(rest));
    return count_of(client.pump().received, "GET /|\n") == 2000;
  }));
  EXPECT_EQ(handler.max_depth, 1) << "a request must not be handled inside another one's answer";
}

TEST_F(ServerTest, LargeAnswersArriveWhole) {
  handler.big_bytes = 3'000'000;
  start();
  std::string answer = exchange("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  std::size_t body = answer.find("\r\n\r\n");
  ASSERT_NE(body, std::string::npos);
  EXPECT_EQ(answer.size() - body - 4, 3'000'001u);
}

TEST_F(ServerTest, APeerThatResetsAbortsItsDeferred) {
  start();
  net::RawClient client = connect();
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(1));
  ASSERT_TRUE(handler.later.front().active());
  EXPECT_EQ(handler.later.front().request().path, "/later");
  client.reset();
  ASSERT_TRUE(run_until([&] { return handler.aborts == 1; }));
  EXPECT_FALSE(handler.later.front().active());
  handler.later.front().respond(Response::plain(200));
  EXPECT_EQ(server->connection_count(), 0u);
  EXPECT_EQ(server->stats().aborted_count, 1u);
}

TEST_F(ServerTest, AHalfClosedPeerStillGetsItsAnswer) {
  start();
  net::RawClient client = connect();
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  client.finish();
  ASSERT_TRUE(wait_for_requests(1));
  ASSERT_FALSE(run_until([&] { return handler.aborts > 0; }, 20'000));
  handler.later.front().respond(Response::plain(200, "late"));
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_NE(client.received.find("late\n"), std::string::npos);
}

TEST_F(ServerTest, APeerThatGoesInTheMiddleOfARequestIsForgotten) {
  start();
  net::RawClient head = connect();
  head.send("GET /x HTTP/1.1\r\nHo");
  net::RawClient body = connect();
  body.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  ASSERT_TRUE(run_until([&] { return server->buffered_bytes() > 10; }));
  head.reset();
  body.reset();
  ASSERT_TRUE(run_until([&] { return server->connection_count() == 0; }));
  EXPECT_EQ(server->buffered_bytes(), 0u);
  EXPECT_TRUE(handler.seen.empty());
}

TEST_F(ServerTest, ADestroyedDeferredDoesNotCallBackAndIsAnsweredWith500) {
  start();
  std::string answer = exchange("GET /dropped HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 Internal Server Error\r\n"));
  EXPECT_EQ(handler.aborts, 0);
  EXPECT_EQ(server->stats().unanswered_count, 1u);
}

TEST_F(ServerTest, AForgottenRequestIsAnsweredWith500) {
  start();
  EXPECT_TRUE(exchange("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 500 "));
  EXPECT_EQ(server->stats().unanswered_count, 1u);
}

TEST_F(ServerTest, ADeferredMayOutliveItsServer) {
  start();
  net::RawClient client = connect();
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(1));
  server.reset();
  EXPECT_FALSE(handler.later.front().active());
  handler.later.front().respond(Response::plain(200));
  EXPECT_EQ(handler.aborts, 0);
}

TEST_F(ServerTest, CloseAbortsWhatIsUnderWay) {
  start();
  net::RawClient client = connect();
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(1));
  server->close();
  EXPECT_EQ(handler.aborts, 1);
  EXPECT_EQ(server->connection_count(), 0u);
  EXPECT_FALSE(connect().is_connected());
}

TEST_F(ServerTest, DrainClosesIdleConnectionsAndFinishesTheOthers) {
  start();
  net::RawClient idle = connect();
  idle.send(kGet);
  ASSERT_TRUE(wait_for(idle, "GET /|\n"));
  net::RawClient busy = connect();
  busy.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(2));
  server->drain();
  ASSERT_TRUE(run_until([&] { return idle.is_over(); }));
  EXPECT_FALSE(busy.is_over());
  EXPECT_EQ(handler.aborts, 0);
  handler.later.front().respond(Response::plain(200, "done"));
  ASSERT_TRUE(run_until([&] { return busy.is_over(); }));
  EXPECT_NE(busy.received.find("Connection: close"), std::string::npos);
  EXPECT_NE(busy.received.find("done\n"), std::string::npos);
}

TEST_F(ServerTest, ContinueIsSentWhenTheBodyIsWaitedFor) {
  start();
  net::RawClient client = connect();
  for (std::size_t i = 1; i <= 2; i++) {
    client.send("POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    ASSERT_TRUE(wait_for(client, "HTTP/1.1 100 Continue\r\n\r\n", i));
    EXPECT_EQ(handler.seen.size(), i - 1);
    client.send("abc");
    ASSERT_TRUE(wait_for(client, "POST /p|abc\n", i));
    EXPECT_EQ(count_of(client.received, "100 Continue"), i);
  }
}

TEST_F(ServerTest, ContinueIsNotSentWhenTheBodyIsThereOrRefused) {
  start();
  net::RawClient client = connect();
  client.send("POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
  ASSERT_TRUE(wait_for(client, "POST /p|abc\n"));
  EXPECT_EQ(client.received.find("100 Continue"), std::string::npos);
  std::string refused =
      exchange("POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 413 "));
}

TEST_F(ServerTest, MalformedRequestsAreAnsweredAndClosed) {
  start();
  for (const char* text :
       {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"}) {
    // What follows the malformed request must never be taken for one.
    std::string answer = exchange(std::string(text) + kGet + kGet);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 Bad Request\r\n")) << text;
    EXPECT_EQ(count_of(answer, "HTTP/1.1"), 1u) << text;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  }
  EXPECT_TRUE(handler.seen.empty());
  EXPECT_EQ(server->stats().rejected_count, 4u);
}

TEST_F(ServerTest, ARefusedUpgradeCloses) {
  start();
  std::string answer =
      exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + kGet);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(count_of(answer, "HTTP/1.1"), 1u) << "bytes behind a refused upgrade are not a request";
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
}

class RouterTest : public ServerTest {
 protected:
  void start_router() {
    router.add("/health", {Method::get}, handler);
    router.add("/any", {}, handler);
    router.add_prefix("/api/", api);
    router.add_prefix("/api/v1/", handler);
    server = std::make_unique<Server>(loop(), router, ServerOptions{});
    ASSERT_TRUE(server->listen("127.0.0.1", 0).has_value());
  }
  std::string ask(const std::string& line) {
    return exchange(line + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  }
  struct : Handler {
    void on_request(Exchange& exchange) override { exchange.respond(Response::json(200, "{}")); }
  } api;
  Router router;
};

TEST_F(RouterTest, FindsExactPathsAndTheLongestPrefix) {
  start_router();
  EXPECT_NE(ask("GET /health").find("GET /health|"), std::string::npos);
  EXPECT_NE(ask("GET /health?x=1").find("GET /health|"), std::string::npos);
  EXPECT_NE(ask("DELETE /any").find("DELETE /any|"), std::string::npos);
  EXPECT_NE(ask("PATCH /api/v1/users").find("PATCH /api/v1/users|"), std::string::npos);
  EXPECT_TRUE(ask("GET /api/other").ends_with("{}"));
}

TEST_F(RouterTest, UnknownPathsAre404) {
  start_router();
  for (const char* path : {"/", "/healt", "/health/", "/%68ealth", "//health", "/api"}) {
    EXPECT_TRUE(ask(std::string("GET ") + path).starts_with("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(RouterTest, WrongMethodsAre405WithAllow) {
  start_router();
  std::string answer = ask("POST /health");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_NE(answer.find("\r\nAllow: GET, HEAD\r\n"), std::string::npos);
  EXPECT_TRUE(ask("HEAD /health").starts_with("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace tmesh::http
