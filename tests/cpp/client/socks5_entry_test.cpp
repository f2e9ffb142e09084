// Socks5Entry: the handshake and the life of its sockets.
#include "tests/cpp/client/socks5_entry_fixture.hpp"

namespace tmesh::client {
namespace {

TEST_F(Socks5EntryTest, ABrowserThatGoesInTheHandshake) {
  make();
  for (const std::string& text :
       {std::string(), kGreeting.substr(0, 1), kGreeting, kGreeting + kRequest.substr(0, 7)}) {
    RawClient fin(entry->port());
    fin.send(text);
    ASSERT_TRUE(run_until([&] { return entry->locals_count() == 1; }));
    fin.finish();
    ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0 && fin.is_over(); }));
    RawClient rst(entry->port());
    rst.send(text);
    ASSERT_TRUE(run_until([&] { return entry->locals_count() == 1; }));
    rst.reset();
    ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
  }
  EXPECT_TRUE(opener.calls.empty());
}

TEST_F(Socks5EntryTest, OtherCommandsAreRefusedAndClosedCleanly) {
  make();
  for (const int command : {2, 3}) {
    RawClient browser(entry->port());
    std::string request = kRequest;
    request[1] = static_cast<char>(command);
    browser.send(kGreeting + request + "and more that is not read");
    expect_end(browser, kChosen + reply(7));
  }
  RawClient unknown(entry->port());
  unknown.send(kGreeting + bytes({5, 1, 0, 9, 1, 2, 3}));
  expect_end(unknown, kChosen + reply(8));
}

TEST_F(Socks5EntryTest, AForeignProtocolIsClosed) {
  make();
  RawClient browser(entry->port());
  browser.send("GET / HTTP/1.1\r\n\r\n");
  expect_end(browser, "");
}

TEST_F(Socks5EntryTest, ALoginIsDemanded) {
  tunnel.auth = config::Tunnel::Auth::password;
  deps.socks5 = {"user", Secret("password")};
  make();
  RawClient without(entry->port());
  without.send(kGreeting + kRequest);
  expect_end(without, bytes({5, 0xFF}));
  RawClient wrong(entry->port());
  wrong.send(bytes({5, 1, 2, 1, 4}) + "user" + bytes({3}) + "bad" + kRequest);
  expect_end(wrong, bytes({5, 2, 1, 1}));
  EXPECT_TRUE(opener.calls.empty());
  RawClient right(entry->port());
  right.send(bytes({5, 1, 2, 1, 4}) + "user" + bytes({8}) + "password" + kRequest);
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 1; }));
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return right.pump().received == bytes({5, 2, 1, 0}) + reply(0); }));
}

TEST_F(Socks5EntryTest, ASilentBrowserIsClosedAfterTheHandshakeTimeout) {
  deps.handshake_timeout_us = 30'000;
  make();
  RawClient silent(entry->port());
  RawClient half(entry->port());
  half.send(kGreeting + kRequest.substr(0, 5));
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 2; }));
  ASSERT_TRUE(run_until([&] { return silent.is_over() && half.is_over(); }));
  EXPECT_EQ(entry->locals_count(), 0u);
  EXPECT_TRUE(opener.calls.empty());
}

TEST_F(Socks5EntryTest, TheHandshakeTimeoutEndsWithTheHandshake) {
  deps.handshake_timeout_us = 30'000;
  make();
  RawClient opening = connect();
  RawClient flowing = connect();
  far().answer(tmesh_open_accept());
  run_for(80'000);
  EXPECT_EQ(entry->locals_count(), 2u);
  EXPECT_FALSE(opening.is_over());
  EXPECT_FALSE(flowing.is_over());
}

// LESSONS P-I8.
TEST_F(Socks5EntryTest, AHundredSilentBrowsersDoNotDelayTheNext) {
  make();
  std::vector<RawClient> silent;
  for (int i = 0; i < 100; i++) silent.emplace_back(entry->port());
  RawClient browser = connect();
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return browser.pump().received == kChosen + reply(0); }));
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 101; }));
  for (auto& s : silent) EXPECT_FALSE(s.is_over());
}

TEST_F(Socks5EntryTest, StopListeningKeepsWhatRuns) {
  make();
  const uint16_t port = entry->port();
  RawClient silent(port);
  RawClient browser = connect();
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 2; }));
  entry->stop_listening();
  EXPECT_EQ(entry->locals_count(), 1u) << "who has not asked yet is not waited for";
  ASSERT_TRUE(run_until([&] { return silent.is_over(); }));
  EXPECT_EQ(entry->port(), 0);
  RawClient late(port);
  EXPECT_FALSE(late.is_connected());
  far().answer(tmesh_open_accept());
  far().send("on and on");
  ASSERT_TRUE(run_until([&] { return browser.pump().received.ends_with("on and on"); }));
}

TEST_F(Socks5EntryTest, DestroyingItEndsEverything) {
  make();
  RawClient silent(entry->port());
  RawClient opening = connect();
  RawClient flowing = connect();
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return flowing.pump().received == kChosen + reply(0); }));
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 3; }));
  entry.reset();
  ASSERT_TRUE(run_until([&] { return silent.is_over() && opening.is_over() && flowing.is_over(); }));
  for (auto& stream : server.last().streams) {
    ASSERT_TRUE(run_until([&] { return stream.over.has_value(); }));
  }
  expect_no_streams();
}

TEST_F(Socks5EntryTest, ABusyPortIsSaidSo) {
  make();
  tunnel.listen.port = entry->port();
  Socks5Entry second(deps, tunnel, {});
  const auto listening = second.listen();
  ASSERT_FALSE(listening.has_value());
  EXPECT_EQ(listening.error().code, TMESH_E_REFUSED);
  EXPECT_EQ(second.port(), 0);
}

// LESSONS R22.
TEST_F(Socks5EntryTest, ADeadListenerIsReported) {
  make();
  // What the kernel does to a listening socket when its address goes away.
  for (int fd = 3; fd < 1024; fd++) {
    int is_listening = 0;
    socklen_t len = sizeof is_listening;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0 || is_listening == 0) continue;
    sockaddr_in address{};
    len = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &len);
    if (ntohs(address.sin_port) == entry->port()) ::shutdown(fd, SHUT_RDWR);
  }
  destroys_when_broken = true;
  ASSERT_TRUE(run_until([&] { return broken_count > 0; }));
  run_for(10'000);
  EXPECT_EQ(broken_count, 1u);
  EXPECT_EQ(entry, nullptr);
}

TEST_F(Socks5EntryTest, AThousandConnectionsLeaveNothingBehind) {
  make();
  for (int i = 0; i < 1000; i++) {
    RawClient browser = connect("x");
    if (i % 3 == 0) {
      far().answer(tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, false));
    } else if (i % 3 == 1) {
      far().answer(tmesh_open_accept());
      far().finish();
      browser.finish();
    } else {
      browser.reset();
    }
    ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
    server.last().streams.clear();
  }
  expect_no_streams();
  EXPECT_EQ(loop().timer_count(), 0u);
}

}  // namespace
}  // namespace tmesh::client
