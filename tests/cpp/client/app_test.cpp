// The program as a process of its own: what it says, when it ends, and with which code.
#include "cpp/client/app.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>
#include <thread>

#include "cpp/base/exit_code.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::client {
namespace {

using net::RawClient;
using test::FakeServer;

class AppTest : public net::LoopTest {
 protected:
  AppTest() : server(loop()) {
    config.server.endpoint = {false, "127.0.0.1", server.port(), "/ws/client"};
    config.token = Secret("t");
    config.instance_id = "client-test";
    config.shutdown_timeout_us = 5'000'000;
    config.log.level = log::Level::info;
    add("web");
  }
  ~AppTest() override {
    if (child > 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    if (out >= 0) ::close(out);
  }
  config::Tunnel& add(const std::string& name, uint16_t port = 0) {
    config::Tunnel tunnel;
    tunnel.name = name;
    tunnel.listen = {"127.0.0.1", port};
    tunnel.agent_id = "home";
    return config.tunnels.emplace_back(tunnel);
  }
  void run() {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::dup2(pipe[1], STDOUT_FILENO);
      ::dup2(pipe[1], STDERR_FILENO);
      ::close(pipe[0]);
      ::close(pipe[1]);
      config::Loaded<config::ClientConfig> loaded;
      loaded.config = config;
      std::thread killer;
      if (loses_listener) killer = std::thread(&AppTest::shut_listeners_down);
      const int code = client::run(loaded, source);
      if (killer.joinable()) killer.join();
      ::_exit(code);
    }
    ::close(pipe[1]);
    out = pipe[0];
    ::fcntl(out, F_SETFL, O_NONBLOCK);
  }
  // What the kernel does to a listening socket when its address goes away.
  static void shut_listeners_down() {
    for (int count = 0; count == 0; ::usleep(1'000)) {
      for (int fd = 3; fd < 1024; fd++) {
        int is_listening = 0;
        int family = 0;
        socklen_t len = sizeof is_listening;
        if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0 || is_listening == 0)
          continue;
        // Not the status socket.
        if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) != 0 || family != AF_INET) continue;
        ::shutdown(fd, SHUT_RDWR);
        count++;
      }
    }
  }
  const std::string& text() {
    char buffer[4096];
    for (ssize_t n; out >= 0 && (n = ::read(out, buffer, sizeof buffer)) > 0;) {
      said.append(buffer, static_cast<std::size_t>(n));
    }
    return said;
  }
  bool says(std::string_view what) { return text().find(what) != std::string::npos; }
  // Of the n-th entry that listens, from 0; 0 when it never does.
  uint16_t port(std::size_t n = 0) {
    const std::string mark = "listens on 127.0.0.1:";
    EXPECT_TRUE(run_until([&] {
      std::size_t at = 0;
      for (std::size_t i = 0; i <= n; i++) at = text().find(mark, at + 1);
      return at != std::string::npos && said.find('\n', at) != std::string::npos;
    })) << said;
    std::size_t at = 0;
    for (std::size_t i = 0; i <= n; i++) at = said.find(mark, at + 1);
    if (at == std::string::npos) return 0;
    return static_cast<uint16_t>(std::stoi(said.substr(at + mark.size())));
  }
  // Waits for the end and returns the exit code; -1 when a signal (an assertion) ended it.
  int exit_code() {
    int status = 0;
    EXPECT_TRUE(run_until([&] { return ::waitpid(child, &status, WNOHANG) == child; }, 20'000'000)) << text();
    child = -1;
    EXPECT_FALSE(says("handles_leaked")) << said;
    EXPECT_FALSE(says("Sanitizer")) << said;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void up() {
    ASSERT_TRUE(run_until([&] { return server.has_request(0); }));
    server.last().upgrade(TMESH_SUBPROTOCOL_METADATA);
    ASSERT_TRUE(run_until([&] { return says("link_up"); }));
  }
  // A flow through the entry that has carried a byte.
  RawClient flow() {
    RawClient browser(port());
    browser.send(std::string("\x05\x01\x00\x05\x01\x00\x01\xC0\x00\x02\x07\x00\x50", 13));
    EXPECT_TRUE(run_until([&] { return !server.last().streams.empty(); }));
    server.last().streams.back().answer(tmesh_open_accept());
    server.last().streams.back().send("x");
    EXPECT_TRUE(run_until([&] { return browser.pump().received.ends_with("x"); }));
    return browser;
  }

  FakeServer server;
  config::ClientConfig config;
  config::Source source;  // of reloads; empty = none of them succeeds
  pid_t child = -1;
  int out = -1;
  bool loses_listener = false;
  std::string said;
};

TEST_F(AppTest, SigtermEndsItCleanlyWithoutALink) {
  config.server.endpoint.port = 1;
  run();
  port();
  ::kill(child, SIGTERM);
  EXPECT_EQ(exit_code(), kExitOk);
}

TEST_F(AppTest, SigtermEndsItCleanlyWithAnIdleLink) {
  run();
  up();
  ::kill(child, SIGINT);
  EXPECT_EQ(exit_code(), kExitOk);
  ASSERT_TRUE(run_until([&] { return server.last().down.has_value(); }));
}

// Requirement J4: listeners, then streams, then links.
TEST_F(AppTest, ShutdownLetsRunningStreamsEndFirst) {
  run();
  up();
  RawClient browser = flow();
  ::kill(child, SIGTERM);
  ASSERT_TRUE(run_until([&] { return says("stopping"); }));
  ASSERT_TRUE(run_until([&] { return !RawClient(port()).is_connected(); }))
      << "the listener is closed at once";
  auto& stream = server.last().streams.back();
  stream.send("goes on");
  browser.send("both ways");
  ASSERT_TRUE(run_until(
      [&] { return browser.pump().received.ends_with("goes on") && stream.received == "both ways"; }));
  EXPECT_FALSE(server.last().down.has_value()) << "the link lives as long as its streams";
  browser.finish();
  stream.finish();
  ASSERT_TRUE(run_until([&] { return browser.is_over(); }));
  EXPECT_FALSE(browser.is_reset);
  EXPECT_EQ(exit_code(), kExitOk);
}

TEST_F(AppTest, ShutdownDoesNotWaitLongerThanConfigured) {
  config.shutdown_timeout_us = 50'000;
  run();
  up();
  RawClient browser = flow();
  ::kill(child, SIGTERM);
  EXPECT_EQ(exit_code(), kExitOk);
  EXPECT_TRUE(browser.is_over());
}

TEST_F(AppTest, ShutdownDoesNotWaitForASilentBrowser) {
  config.shutdown_timeout_us = 3'600'000'000;
  config.handshake_timeout_us = 3'600'000'000;
  run();
  up();
  RawClient silent(port());
  ::kill(child, SIGTERM);
  EXPECT_EQ(exit_code(), kExitOk);
}

// LESSONS R13: both have defaults that this test does not wait for.
TEST_F(AppTest, TheConfiguredTimesOfLocalConnectionsHold) {
  config.handshake_timeout_us = 50'000;
  config.open_timeout_us = 50'000;
  run();
  up();
  RawClient silent(port());
  EXPECT_TRUE(run_until([&] { return silent.is_over(); })) << "client.handshake_timeout";
  RawClient browser(port());
  browser.send(std::string("\x05\x01\x00\x05\x01\x00\x01\xC0\x00\x02\x07\x00\x50", 13));
  EXPECT_TRUE(run_until([&] { return browser.is_over(); })) << "client.stream.open_timeout";
  EXPECT_EQ(browser.received.substr(0, 4), std::string("\x05\x00\x05\x06", 4));
}

TEST_F(AppTest, ASecondSignalDoesNotWait) {
  config.shutdown_timeout_us = 3'600'000'000;
  run();
  up();
  RawClient browser = flow();
  ::kill(child, SIGTERM);
  ASSERT_TRUE(run_until([&] { return says("stopping"); }));
  ::kill(child, SIGTERM);
  EXPECT_EQ(exit_code(), kExitOk);
}

TEST_F(AppTest, ABusyPortIsExplainedAndEndsIt) {
  add("second", server.port());
  run();
  EXPECT_EQ(exit_code(), kExitFailure);
  EXPECT_TRUE(says("tunnel \"second\": cannot listen on 127.0.0.1:" + std::to_string(server.port()) +
                   ": the address is already in use\n"))
      << said;
}

// LESSONS R22.
TEST_F(AppTest, ADeadListenerEndsItWithAFailure) {
  server.close();  // a socket of this process too, which the child has a copy of
  loses_listener = true;
  run();
  EXPECT_EQ(exit_code(), kExitFailure);
  EXPECT_TRUE(says("entry_broken entry=web")) << said;
}

TEST_F(AppTest, AUnixSocketIsServedAndItsFileGoesWithTheProgram) {
  char folder[] = "/tmp/tmesh-app-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/x.sock";
  add("local").socket_path = path;
  config.tunnels.back().listen = {};
  run();
  ASSERT_TRUE(run_until([&] { return says("socks5 entry \"local\" listens on unix:" + path + "\n"); }))
      << said;
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  ::kill(child, SIGTERM);
  EXPECT_EQ(exit_code(), kExitOk);
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  ::rmdir(folder);
}

// Requirement D10: nobody is let through because the service cannot be asked.
TEST_F(AppTest, AServiceThatIsNotThereIsADenial) {
  {
    FakeServer gone(loop());
    config.tunnels.back().auth_url = "http://127.0.0.1:" + std::to_string(gone.port()) + "/check";
  }
  run();
  up();
  RawClient browser(port());
  browser.send(std::string("\x05\x01\x00\x05\x01\x00\x01\xC0\x00\x02\x07\x00\x50", 13));
  ASSERT_TRUE(run_until([&] { return browser.is_over(); }));
  EXPECT_EQ(browser.received, std::string("\x05\x00\x05\x02\x00\x01\0\0\0\0\0\0", 12));
  EXPECT_TRUE(server.last().streams.empty());
  EXPECT_TRUE(says("remote_validation_failed stage=connect reason=refused")) << said;
}

TEST_F(AppTest, AnAuthUrlWhoseCaCannotBeReadEndsItAndSaysWhy) {
  config.tunnels.back().auth_url = "https://127.0.0.1/check";
  config.remote_validation.ca_file = "/nonexistent/ca.pem";
  run();
  EXPECT_EQ(exit_code(), kExitFailure);
  EXPECT_TRUE(says("client.remote_validation.ca_file: CA file /nonexistent/ca.pem: ")) << said;
}

TEST_F(AppTest, WithoutTunnelsThereIsNothingToDo) {
  config.tunnels.clear();
  run();
  EXPECT_EQ(exit_code(), kExitConfig);
  EXPECT_TRUE(says("nothing to serve"));
}

TEST_F(AppTest, AnUnreadableCaIsExplained) {
  config.server.endpoint.is_tls = true;
  config.server.ca_file = "/nonexistent/ca.pem";
  run();
  EXPECT_EQ(exit_code(), kExitFailure);
  EXPECT_TRUE(says("/nonexistent/ca.pem")) << said;
}

TEST_F(AppTest, TunnelsToOneAgentShareItsLink) {
  add("second");
  run();
  EXPECT_NE(port(0), port(1));
  up();
  EXPECT_FALSE(run_until([&] { return server.count() > 1; }, 20'000));
}

TEST_F(AppTest, AReconnectRebindsNoPort) {
  run();
  up();
  const uint16_t before = port();
  server.last().link = {};
  ASSERT_TRUE(run_until([&] { return says("link_down"); }));
  EXPECT_TRUE(RawClient(before).is_connected());
  ASSERT_TRUE(run_until([&] { return server.has_request(1); }));
  server.peer(1).upgrade(TMESH_SUBPROTOCOL_METADATA);
  RawClient browser = flow();
  EXPECT_EQ(port(), before);
}

TEST_F(AppTest, SighupWithoutTlsIsHarmless) {
  run();
  up();
  ::kill(child, SIGHUP);
  RawClient browser = flow();
  ::kill(child, SIGTERM);
  browser.reset();
  EXPECT_EQ(exit_code(), kExitOk);
}

}  // namespace
}  // namespace tmesh::client
