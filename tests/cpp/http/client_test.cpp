// Requests, answers, and connections that are kept.
#include <gtest/gtest.h>

#include "tests/cpp/http/client_fixture.hpp"

namespace tmesh::http {
namespace {

TEST_F(ClientTest, SendsTheRequestAndReturnsTheAnswer) {
  ClientRequest request = post("{\"a\":1}");
  request.headers = {{"Content-Type", "application/json"}};
  Call& call = send(std::move(request));
  ASSERT_TRUE(run_until([&] { return server.count() == 1 && server.last().bytes.ends_with("}"); }));
  EXPECT_EQ(server.last().bytes,
            "POST /check HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port()) +
                "\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}");
  answer(0, call, "HTTP/1.1 403 No\r\nX: y\r\nContent-Length: 3\r\n\r\nbad");
  ASSERT_TRUE(call.is_ok());
  EXPECT_EQ(call.response().status, 403);
  EXPECT_EQ(*call.response().headers.find("x"), "y");
  EXPECT_EQ(call.response().body, "bad");
  EXPECT_EQ(client->requests_count(), 0u);
  settle();
  EXPECT_EQ(call.count, 1);
}

TEST_F(ClientTest, AnAnswerInAnyPiecesChunkedOrAfterInterimOnes) {
  const std::string text =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n";
  for (const std::size_t piece : {text.size(), std::size_t{7}, std::size_t{1}}) {
    const std::size_t before = server.count() == 0 ? 0 : requests(0);
    Call& call = send();
    ASSERT_TRUE(has_requests(0, before + 1));
    for (std::size_t at = 0; at < text.size(); at += piece) {
      EXPECT_EQ(call.count, 0);
      server.last().reply(text.substr(at, piece));
      loop().run_once();
    }
    ASSERT_TRUE(run_until([&] { return call.count == 1; }));
    ASSERT_TRUE(call.is_ok());
    EXPECT_EQ(call.response().body, "abcde");
  }
  EXPECT_EQ(server.count(), 1u);
}

TEST_F(ClientTest, ARedirectIsAnAnswerAndNotFollowed) {
  Call& call = send();
  ASSERT_TRUE(has_requests(0, 1));
  answer(0, call, "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(call.response().status, 307);
  settle();
  EXPECT_EQ(client->stats().requests_count, 1u);
}

TEST_F(ClientTest, AnAnswerToHeadHasNoBody) {
  ClientRequest request = post("");
  request.method = Method::head;
  Call& call = send(std::move(request));
  ASSERT_TRUE(run_until([&] { return server.has_request(0); }));
  answer(0, call, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  ASSERT_TRUE(call.is_ok());
  EXPECT_EQ(client->idle_count(), 1u);
}

TEST_F(ClientTest, KeepsTheConnectionForTheNextRequest) {
  for (int i = 0; i < 5; i++) exchange();
  EXPECT_EQ(server.count(), 1u);
  EXPECT_EQ(client->connections_count(), 1u);
  EXPECT_EQ(client->idle_count(), 1u);
  EXPECT_EQ(client->stats().connections_count, 1u);
  EXPECT_EQ(client->stats().reused_count, 4u);
}

TEST_F(ClientTest, AConnectionThatWillNotServeAnotherRequestEnds) {
  const char* const last_answers[] = {
      "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",  // bytes nobody asked for
  };
  std::size_t n = 0;
  for (const char* text : last_answers) {
    Call& call = send();
    ASSERT_TRUE(has_requests(n, 1));
    answer(n, call, text);
    ASSERT_TRUE(call.is_ok()) << text;
    EXPECT_EQ(call.response().body, "ok");
    EXPECT_EQ(client->connections_count(), 0u) << text;
    ASSERT_TRUE(run_until([&] { return server.peer(n).is_eof || server.peer(n).down; })) << text;
    n++;
  }
}

TEST_F(ClientTest, TheEndOfTheConnectionEndsABodyWithoutLength) {
  Call& call = send();
  ASSERT_TRUE(has_requests(0, 1));
  server.last().reply("HTTP/1.1 200 OK\r\n\r\nall of it");
  settle();
  EXPECT_EQ(call.count, 0);
  server.last().transport = {};
  ASSERT_TRUE(run_until([&] { return call.count == 1; }));
  ASSERT_TRUE(call.is_ok());
  EXPECT_EQ(call.response().body, "all of it");
}

TEST_F(ClientTest, ALongBodyIsCutAndItsConnectionEnds) {
  make({.response = {.max_body_bytes = 10}});
  Call& call = send();
  ASSERT_TRUE(has_requests(0, 1));
  answer(0, call, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n0123456789ab");
  ASSERT_TRUE(call.is_ok());
  EXPECT_EQ(call.response().body, "0123456789");
  EXPECT_EQ(client->connections_count(), 0u);
}

TEST_F(ClientTest, WhatIsNoAnswerIsAFailure) {
  struct Case {
    const char* text;
    bool is_cut_off;
    tmesh_code code;
  };
  std::size_t n = 0;
  for (const Case& c :
       {Case{"SSH-2.0-OpenSSH_9.2\r\n", false, TMESH_E_HTTP},
        Case{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", false,
             TMESH_E_HTTP},
        Case{"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false, TMESH_E_HTTP},
        Case{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", true, TMESH_E_TRUNCATED},
        Case{"HTTP/1.1 100 Continue\r\n\r\n", true, TMESH_E_TRUNCATED}, Case{"HTT", true, TMESH_E_TRUNCATED},
        Case{"", true, TMESH_E_CLOSED}}) {
    Call& call = send();
    ASSERT_TRUE(has_requests(n, 1));
    if (*c.text != '\0') server.peer(n).reply(c.text);
    settle();
    if (c.is_cut_off) server.peer(n).transport = {};
    ASSERT_TRUE(run_until([&] { return call.count == 1; })) << c.text;
    expect_failure(call, c.code, "response");
    EXPECT_EQ(client->connections_count(), 0u);
    n++;
  }
  EXPECT_EQ(server.count(), n) << "a fresh connection that fails is not tried again";
}

TEST_F(ClientTest, AnAnswerBeforeTheWholeRequestWasTakenEndsTheConnection) {
  Call& call = send(post(std::string(16 << 20, 'x')));
  ASSERT_TRUE(run_until([&] { return server.has_request(0); }));
  server.last().transport.read(false);
  settle();
  answer(0, call, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(call.is_ok());
  EXPECT_EQ(call.response().status, 413);
  EXPECT_EQ(client->connections_count(), 0u);
}

// A socket like those of simple servers: Nagle's algorithm holds a second write back until
// the first one is acknowledged.
struct SlowWriter {
  SlowWriter() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  ~SlowWriter() {
    ::close(listener);
    ::close(fd);
  }
  bool has_request() {
    if (fd < 0) fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    char buffer[4096];
    return fd >= 0 && ::recv(fd, buffer, sizeof buffer, 0) > 0;
  }
  void write(std::string_view text) {
    EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int fd = -1;
  uint16_t port = 0;
};

TEST_F(ClientTest, AServerThatWritesHeadAndBodyApartIsNotWaitedFor) {
  constexpr int kRequests = 20;  // 40 ms each where acknowledgements are delayed
  SlowWriter slow;
  const uint64_t begun_us = loop().now_us();
  for (int i = 0; i < kRequests; i++) {
    ClientRequest request = post();
    request.url.port = slow.port;
    Call& call = send(std::move(request));
    ASSERT_TRUE(run_until([&] { return slow.has_request(); }));
    slow.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    slow.write("ok");
    ASSERT_TRUE(run_until([&] { return call.count == 1; }));
    ASSERT_TRUE(call.is_ok());
  }
  EXPECT_LT(loop().now_us() - begun_us, kRequests * 40'000u / 2);
}

TEST_F(ClientTest, WhatItCannotSendItDoesNotTake) {
  ClientRequest bad = post();
  bad.headers = {{"X", "a\r\nb"}};
  EXPECT_EQ(client->send(std::move(bad), {}).error().code, TMESH_E_INVALID);
  ClientRequest tls = post();
  tls.url.is_tls = true;
  EXPECT_EQ(client->send(std::move(tls), {}).error().code, TMESH_E_STATE);
  make({.max_requests = 1});
  send();
  EXPECT_EQ(client->send(post(), {}).error().code, TMESH_E_LIMIT);
  EXPECT_EQ(client->requests_count(), 1u);
}

TEST_F(ClientTest, TheCallbackMayDestroyTheClient) {
  Call& call = send();
  call.client = &client;
  ASSERT_TRUE(has_requests(0, 1));
  answer(0, call);
  EXPECT_TRUE(call.answer->has_value());
  EXPECT_FALSE(client.has_value());
}

TEST_F(ClientTest, FailuresOfTheDial) {
  make_undialed();
  Call& dns = send();
  fake_dialer.end("127.0.0.1", test::FakeDialer::failed(TMESH_E_DNS, true));
  expect_failure(dns, TMESH_E_DNS, "dns");
  Call& refused = send();
  fake_dialer.end("127.0.0.1", test::FakeDialer::failed(TMESH_E_REFUSED));
  expect_failure(refused, TMESH_E_REFUSED, "connect");
  fake_dialer.refuse_with(TMESH_E_DNS);
  Call& at_once = send();
  timers.advance(0);
  expect_failure(at_once, TMESH_E_DNS, "dns");
  EXPECT_EQ(client->connections_count(), 0u);
  EXPECT_EQ(timers.count(), 0u);
}

}  // namespace
}  // namespace tmesh::http
