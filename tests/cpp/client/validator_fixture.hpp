// A RemoteValidator with a fake clock, and a service on loopback whose answers a test writes.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cpp/base/json.hpp"
#include "cpp/client/remote_validator.hpp"
#include "cpp/net/dialer.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::client {

class ValidatorTest : public net::LoopTest {
 protected:
  // One question and what came of it.
  struct Ask {
    void on_done(bool allowed) {
      ticket.release();
      count++;
      is_allowed = allowed;
      if (owner != nullptr) owner->reset();
    }

    Ticket ticket;
    int count = 0;
    bool is_allowed = false;
    std::optional<RemoteValidator>* owner = nullptr;  // to be destroyed in the callback
  };

  explicit ValidatorTest(const net::TlsContext* tls = nullptr)
      : service(loop(), tls), dialer(std::move(*net::Dialer::create(loop()))) {
    config.tunnels.emplace_back().auth_url = url =
        "http://127.0.0.1:" + std::to_string(service.port()) + "/ask";
    validator.emplace(loop(), timers, *dialer);
    configure();
  }
  ~ValidatorTest() override {
    for (Ask& ask : asks) ask.ticket.cancel();
    validator.reset();
  }
  void configure() {
    auto tls = RemoteValidator::make_tls(config);
    ASSERT_TRUE(tls.has_value()) << tls.error();
    validator->configure(config, std::move(*tls));
  }

  ValidationRequest question() const {
    ValidationRequest out;
    out.url = url;
    out.protocol = "socks5";
    out.agent_id = "agent-1";
    out.target_host = "db.corp";
    out.target_port = 5432;
    return out;
  }
  Ask& ask(const ValidationRequest& request) {
    Ask& made = asks.emplace_back();
    made.ticket = validator->validate(request, Delegate<void(bool)>::bind<&Ask::on_done>(&made));
    EXPECT_EQ(made.count, 0) << "never from inside the call";
    return made;
  }
  Ask& ask() { return ask(question()); }
  // Answered at once, with yes.
  bool is_known_yes(const ValidationRequest& request) {
    const bool is_yes = !ask(request).ticket.active();
    return is_yes;
  }
  bool is_known_yes() { return is_known_yes(question()); }
  // Answered without the service, with no.
  bool is_known_no() {
    const uint64_t hits = validator->stats().hits_count;
    Ask& made = ask();
    timers.advance(0);
    return validator->stats().hits_count == hits + 1 && made.count == 1 && !made.is_allowed;
  }

  std::size_t questions_count(std::size_t n) const {
    std::size_t found = 0;
    const std::string& bytes = service.peers.at(n)->bytes;
    for (std::size_t at = 0; (at = bytes.find("POST ", at)) != std::string::npos; at++) found++;
    return found;
  }
  std::size_t questions_count() const {
    std::size_t found = 0;
    for (std::size_t n = 0; n < service.count(); n++) found += questions_count(n);
    return found;
  }
  // The last question has come whole.
  bool has_question(std::size_t n, std::size_t count) {
    return run_until([&] {
      return n < service.count() && questions_count(n) == count && service.peer(n).bytes.ends_with("}");
    });
  }
  std::string last_body(std::size_t n = 0) {
    const std::string& bytes = service.peer(n).bytes;
    return bytes.substr(bytes.rfind("\r\n\r\n") + 4);
  }
  void answer(Ask& made, int status, std::size_t n = 0) {
    service.peer(n).reply("HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: 0\r\n\r\n");
    ASSERT_TRUE(run_until([&] { return made.count == 1; }));
  }
  // One question and its answer over the n-th connection.
  bool decide(const ValidationRequest& request, int status, std::size_t n = 0) {
    const std::size_t before = n < service.count() ? questions_count(n) : 0;
    Ask& made = ask(request);
    EXPECT_TRUE(has_question(n, before + 1));
    answer(made, status, n);
    return made.is_allowed;
  }
  bool decide(int status, std::size_t n = 0) { return decide(question(), status, n); }
  void settle() {
    EXPECT_FALSE(run_until([] { return false; }, 10'000));
  }

  test::FakeServer service;
  std::unique_ptr<net::Dialer> dialer;
  test::FakeTimers timers;
  config::ClientConfig config;
  std::string url;
  std::optional<RemoteValidator> validator;
  std::deque<Ask> asks;
};

}  // namespace tmesh::client
