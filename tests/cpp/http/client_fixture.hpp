// A client with a fake clock against servers on loopback whose answers a test writes.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpp/http/client.hpp"
#include "cpp/net/dialer.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::http {

inline const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

class ClientTest : public net::LoopTest {
 protected:
  // One request and what came of it.
  struct Call {
    void on_done(ClientAnswer a) {
      ticket.release();
      count++;
      answer = std::move(a);
      if (client != nullptr) client->reset();
    }
    bool is_ok() const { return count == 1 && answer->has_value(); }
    const Response& response() const { return answer->value(); }
    const ClientFailure& failure() const { return answer->error(); }

    Ticket ticket;
    int count = 0;
    std::optional<ClientAnswer> answer;
    std::optional<Client>* client = nullptr;  // to be destroyed in the callback
  };

  ClientTest() : server(loop()), dialer(std::move(*net::Dialer::create(loop()))) {
    client.emplace(loop(), timers, *dialer, ClientOptions{});
  }
  void make(ClientOptions options) { client.emplace(loop(), timers, *dialer, options); }
  // With a dialer whose results the test gives.
  void make_undialed(ClientOptions options = {}) { client.emplace(loop(), timers, fake_dialer, options); }

  // For servers that the test itself holds.
  void drop_client() {
    for (Call& call : calls) call.ticket.cancel();
    client.reset();
  }

  ClientRequest post(std::string body = "b") {
    ClientRequest request;
    request.method = Method::post;
    request.url = {false, "127.0.0.1", server.port(), "/check"};
    request.body = std::move(body);
    request.timeout_us = 3'000'000;
    request.is_repeatable = true;
    return request;
  }
  Call& send(ClientRequest request) {
    Call& call = calls.emplace_back();
    auto ticket = client->send(std::move(request), Client::Done::bind<&Call::on_done>(&call));
    EXPECT_TRUE(ticket.has_value());
    EXPECT_EQ(call.count, 0) << "never from inside the call";
    if (ticket) call.ticket = std::move(*ticket);
    return call;
  }
  Call& send() { return send(post()); }

  // Waits until the n-th connection has got that many requests with a body of one byte.
  bool has_requests(std::size_t n, std::size_t count) {
    return run_until([&] { return n < server.count() && requests(n) == count; });
  }
  std::size_t requests(std::size_t n) {
    std::size_t found = 0;
    const std::string& bytes = server.peer(n).bytes;
    for (std::size_t at = 0; (at = bytes.find("\r\n\r\nb", at)) != std::string::npos; at++) found++;
    return found;
  }
  void answer(std::size_t n, Call& call, std::string_view text = kOk) {
    server.peer(n).reply(text);
    ASSERT_TRUE(run_until([&] { return call.count > 0; }));
  }
  // One whole exchange on the n-th connection, which stays open.
  void exchange(std::size_t n = 0) {
    const std::size_t before = n < server.count() ? requests(n) : 0;
    Call& call = send();
    ASSERT_TRUE(has_requests(n, before + 1));
    answer(n, call);
    ASSERT_TRUE(call.is_ok());
  }
  void expect_failure(const Call& call, tmesh_code code, std::string_view stage) {
    ASSERT_EQ(call.count, 1);
    ASSERT_FALSE(call.answer->has_value());
    EXPECT_EQ(call.failure().code, code) << call.failure().text;
    EXPECT_EQ(call.failure().stage, stage);
    EXPECT_NE(std::string_view(call.failure().text), "");
  }
  // Whatever is late must not come at all.
  void settle() {
    EXPECT_FALSE(run_until([] { return false; }, 10'000));
  }

  test::FakeServer server;
  std::unique_ptr<net::Dialer> dialer;
  test::FakeDialer fake_dialer;
  test::FakeTimers timers;
  std::optional<Client> client;
  std::deque<Call> calls;  // before the client: Tickets first
};

}  // namespace tmesh::http
