// Socks5Entry and Socks5Local: real browsers' sockets on one side, a real link on the other.
#include "cpp/client/socks5_entry.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "core/loop/loop.h"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::client {
namespace {

using net::RawClient;
using test::FakeServer;
using test::PeerStream;

std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int b : list) out.push_back(static_cast<char>(b));
  return out;
}
const std::string kGreeting = bytes({5, 1, 0});
const std::string kChosen = bytes({5, 0});
const std::string kRequest = bytes({5, 1, 0, 3, 6}) + "target" + bytes({0x1F, 0x90});
std::string reply(int code) {
  return bytes({5, code, 0, 1, 0, 0, 0, 0, 0, 0});
}

// An unmasked WebSocket message with one frame of the stream with id 1.
std::string raw_frame(uint8_t type, std::string_view payload = {}) {
  tmesh_frame_header header{};
  header.type = type;
  header.stream_id = 1;
  header.length_bytes = static_cast<uint32_t>(payload.size());
  uint8_t head[TMESH_FRAME_HEADER_BYTES];
  EXPECT_TRUE(tmesh_is_ok(tmesh_frame_header_encode(head, &header)));
  std::string out = bytes({0x82, static_cast<int>(sizeof head + payload.size())});
  EXPECT_LE(sizeof head + payload.size(), 125u);
  return out.append(reinterpret_cast<const char*>(head), sizeof head).append(payload);
}
std::string raw_result(const tmesh_open_result& result) {
  char text[TMESH_OPEN_RESULT_MAX_BYTES];
  std::size_t len = 0;
  EXPECT_TRUE(tmesh_is_ok(tmesh_open_result_encode(&result, text, sizeof text, &len)));
  return raw_frame(TMESH_FRAME_OPEN_RESULT, {text, len});
}

// Streams of one link, strict where the entry may have it and the test wants it.
struct Opener final : StreamOpener {
  Result<OpenedStream> open_tcp(std::string_view agent_id, std::string_view host, uint16_t port,
                                bool allow_strict) override {
    calls.push_back({std::string(agent_id), std::string(host), port, allow_strict});
    if (refusal != TMESH_OK) return fail(refusal, "refused by the test");
    tmesh_open_stream open{};
    open.protocol = TMESH_OPEN_TCP;
    host.copy(open.target_host, sizeof open.target_host - 1);
    open.target_port = port;
    tmesh_open_params params{&open, is_strict && (allow_strict || ignores_wish), TMESH_WINDOW_INITIAL_BYTES};
    tmesh_status why{};
    tmesh_stream* const stream = tmesh_mux_open(mux, &params, &why);
    EXPECT_NE(stream, nullptr);
    if (refuses_next) refusal = TMESH_E_CLOSED;
    return OpenedStream{stream, params.is_strict};
  }

  struct Call {
    std::string agent_id, host;
    uint16_t port;
    bool allow_strict;
  };
  std::vector<Call> calls;
  tmesh_mux* mux = nullptr;
  bool is_strict = true;
  bool ignores_wish = false;  // strict whatever the entry asks for
  tmesh_code refusal = TMESH_OK;
  bool refuses_next = false;  // from the second call on
};

class Socks5EntryTest : public net::LoopTest {
 protected:
  Socks5EntryTest() : server(loop()) {
    RawClient raw(server.port());
    link.emplace(loop(), raw.release(), nullptr);
    EXPECT_TRUE(run_until([&] { return server.count() == 1 && server.last().ready && link->ready; }));
    link->become_link(test::mux_config(true), true);
    opener.mux = link->link.mux();
    options.name = "web";
    options.agent_id = "home";
  }
  // is_raw: the server's end stays a byte stream, for frames in one segment.
  void make(bool is_raw = false) {
    if (!is_raw) server.last().become_link(test::mux_config(false));
    entry.emplace(loop(), opener, options, Socks5Entry::Broken::bind<&Socks5EntryTest::on_broken>(this));
    ASSERT_TRUE(entry->listen("127.0.0.1", 0).has_value());
    EXPECT_NE(entry->port(), 0);
  }
  void on_broken(Socks5Entry& e) {
    broken_count++;
    if (destroys_when_broken) {
      EXPECT_EQ(&e, &*entry);
      entry.reset();
    }
  }
  // A browser that sent its request; the stream has arrived at the server.
  RawClient connect(std::string_view behind = {}) {
    RawClient browser(entry->port());
    EXPECT_TRUE(browser.is_connected());
    const std::size_t before = server.last().streams.size();
    browser.send(kGreeting + kRequest + std::string(behind));
    EXPECT_TRUE(run_until([&] { return server.last().streams.size() == before + 1; }));
    return browser;
  }
  PeerStream& far() { return server.last().streams.back(); }
  // Everything the browser got, and an end that is no reset.
  void expect_end(RawClient& browser, const std::string& received) {
    ASSERT_TRUE(run_until([&] { return browser.is_over(); }));
    EXPECT_EQ(browser.received, received);
    EXPECT_FALSE(browser.is_reset);
    EXPECT_EQ(entry->locals_count(), 0u);
  }
  void expect_no_streams() {
    server.last().streams.clear();
    ASSERT_TRUE(run_until([&] { return opener.mux->streams.count == 0; }));
  }
  void run_for(uint64_t us) {
    ASSERT_FALSE(run_until([] { return false; }, us));
  }

  FakeServer server;
  std::optional<test::Peer> link;
  Opener opener;
  Socks5EntryOptions options;
  std::optional<Socks5Entry> entry;
  std::size_t broken_count = 0;
  bool destroys_when_broken = false;
};

// Requirement B10, LESSONS P-A1.
TEST_F(Socks5EntryTest, SuccessIsRepliedOnlyAfterTheAgentConnected) {
  make();
  RawClient browser = connect();
  EXPECT_STREQ(far().open.target_host, "target");
  EXPECT_EQ(far().open.target_port, 8080);
  EXPECT_EQ(opener.calls.back().agent_id, "home");
  EXPECT_TRUE(opener.calls.back().allow_strict);
  run_for(20'000);
  EXPECT_EQ(browser.pump().received, kChosen);
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return browser.pump().received == kChosen + reply(0); }));
  browser.send("ping");
  far().send("pong");
  ASSERT_TRUE(
      run_until([&] { return far().received == "ping" && browser.pump().received.ends_with("pong"); }));
  EXPECT_EQ(entry->locals_count(), 1u);
  browser.finish();
  ASSERT_TRUE(run_until([&] { return far().is_eof; }));
  far().finish();
  expect_end(browser, kChosen + reply(0) + "pong");
  expect_no_streams();
}

TEST_F(Socks5EntryTest, EachRefusalHasItsReplyAndACleanEnd) {
  make();
  for (unsigned code = 1; code < TMESH_OPEN_CODE_COUNT; code++) {
    if (code == TMESH_OPEN_UNSUPPORTED_CAPABILITY) continue;  // opened again: see below
    RawClient browser = connect("data that nobody will read");
    far().answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, static_cast<tmesh_open_code>(code), false));
    expect_end(browser, kChosen + reply(socks5_reply(code)));
    browser.close();
    expect_no_streams();
  }
}

TEST_F(Socks5EntryTest, WithoutALinkTheHostIsUnreachable) {
  make();
  opener.refusal = TMESH_E_CLOSED;
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest);
  expect_end(browser, kChosen + reply(4));
}

TEST_F(Socks5EntryTest, LimitsOfOurOwnAreAGeneralFailure) {
  make();
  for (const tmesh_code code : {TMESH_E_LIMIT, TMESH_E_NO_MEMORY, TMESH_E_INVALID}) {
    opener.refusal = code;
    RawClient browser(entry->port());
    browser.send(kGreeting + kRequest);
    expect_end(browser, kChosen + reply(1));
  }
}

TEST_F(Socks5EntryTest, AnOpenThatTakesTooLongIsTimeoutAndResetsOnlyThatStream) {
  options.open_timeout_us = 30'000;
  make();
  RawClient other = connect();
  far().answer(tmesh_open_accept());
  PeerStream& other_far = far();
  RawClient browser = connect();
  ASSERT_TRUE(run_until([&] { return browser.is_over(); }));
  EXPECT_EQ(browser.received, kChosen + reply(6));
  EXPECT_FALSE(browser.is_reset);
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
  EXPECT_FALSE(other_far.over.has_value());
  other_far.send("still here");
  ASSERT_TRUE(run_until([&] { return other.pump().received.ends_with("still here"); }));
  EXPECT_EQ(entry->locals_count(), 1u);
}

TEST_F(Socks5EntryTest, AResetInsteadOfAnAnswerIsAGeneralFailure) {
  make();
  RawClient browser = connect();
  far().release();
  expect_end(browser, kChosen + reply(1));
}

TEST_F(Socks5EntryTest, ALinkThatEndsInsteadOfAnAnswerIsHostUnreachable) {
  make();
  RawClient browser = connect();
  server.last().link = {};
  expect_end(browser, kChosen + reply(4));
}

TEST_F(Socks5EntryTest, AnAcceptanceThatIsOverAlreadyIsNoSuccess) {
  make(true);
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest);
  ASSERT_TRUE(run_until([&] { return opener.calls.size() == 1 && !server.last().bytes.empty(); }));
  server.last().reply(raw_result(tmesh_open_accept()) + raw_frame(TMESH_FRAME_RESET));
  expect_end(browser, kChosen + reply(1));
}

TEST_F(Socks5EntryTest, ARefusalWithAResetBehindItKeepsItsCode) {
  make(true);
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest);
  ASSERT_TRUE(run_until([&] { return opener.calls.size() == 1 && !server.last().bytes.empty(); }));
  server.last().reply(
      raw_result(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false)) +
      raw_frame(TMESH_FRAME_RESET));
  expect_end(browser, kChosen + reply(5));
}

TEST_F(Socks5EntryTest, AWholeAnswerInOneSegmentLosesNothing) {
  make(true);
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest);
  ASSERT_TRUE(run_until([&] { return opener.calls.size() == 1 && !server.last().bytes.empty(); }));
  server.last().reply(raw_result(tmesh_open_accept()) + raw_frame(TMESH_FRAME_DATA, "banner") +
                      raw_frame(TMESH_FRAME_HALF_CLOSE));
  ASSERT_TRUE(run_until([&] { return browser.is_over(); }));
  EXPECT_EQ(browser.received, kChosen + reply(0) + "banner");
  EXPECT_FALSE(browser.is_reset);
  EXPECT_EQ(entry->locals_count(), 1u) << "the browser may still send";
  browser.finish();
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
}

TEST_F(Socks5EntryTest, AnUnreadableResultIsAGeneralFailure) {
  make(true);
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest);
  ASSERT_TRUE(run_until([&] { return opener.calls.size() == 1 && !server.last().bytes.empty(); }));
  server.last().reply(raw_frame(TMESH_FRAME_OPEN_RESULT, "{\"accepted\":true,\"code\":\"forbidden\"}"));
  expect_end(browser, kChosen + reply(1));
}

// Requirement B4.
TEST_F(Socks5EntryTest, UnsupportedCapabilityIsOpenedOnceMoreAsLegacy) {
  make();
  RawClient browser = connect();
  far().answer(tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true));
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 2; }));
  ASSERT_EQ(opener.calls.size(), 2u);
  EXPECT_FALSE(opener.calls[1].allow_strict);
  EXPECT_FALSE(far().stream->is_strict);
  EXPECT_STREQ(far().open.target_host, "target");
  ASSERT_TRUE(run_until([&] { return browser.pump().received == kChosen + reply(0); }));
  far().answer(tmesh_open_accept());
  far().send("hello");
  ASSERT_TRUE(run_until([&] { return browser.pump().received.ends_with("hello"); }));
}

TEST_F(Socks5EntryTest, ItIsOpenedOnceMoreOnly) {
  make();
  opener.ignores_wish = true;
  RawClient browser = connect();
  far().answer(tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true));
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 2; }));
  far().answer(tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true));
  expect_end(browser, kChosen + reply(1));
  EXPECT_EQ(opener.calls.size(), 2u);
  expect_no_streams();
}

TEST_F(Socks5EntryTest, ALinkThatIsGoneAtTheRetryIsHostUnreachable) {
  make();
  opener.refuses_next = true;
  RawClient browser = connect();
  far().answer(tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true));
  expect_end(browser, kChosen + reply(4));
}

TEST_F(Socks5EntryTest, ALegacyLinkIsOptimistic) {
  make();
  opener.is_strict = false;
  RawClient browser = connect("first");
  ASSERT_TRUE(run_until([&] { return browser.pump().received == kChosen + reply(0); }));
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received == "first"; }));
}

TEST_F(Socks5EntryTest, ARefusedLegacyOpenResetsTheBrowser) {
  make();
  opener.is_strict = false;
  RawClient browser = connect();
  far().answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
  ASSERT_TRUE(run_until([&] { return browser.is_over() && entry->locals_count() == 0; }));
  EXPECT_TRUE(browser.is_reset);
}

TEST_F(Socks5EntryTest, ByteByByte) {
  make();
  RawClient browser(entry->port());
  for (const char c : kGreeting + kRequest + "GET") {
    browser.send({&c, 1});
    run_for(300);
  }
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 1; }));
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received == "GET"; }));
  EXPECT_EQ(browser.pump().received, kChosen + reply(0));
}

TEST_F(Socks5EntryTest, EarlyDataWaitsForTheAnswerAndNothingIsLost) {
  make();
  std::string early(16'384, 'e');
  RawClient browser = connect(early);
  run_for(20'000);
  EXPECT_EQ(server.last().link.mux()->stats.data_bytes_in, 0u) << "no DATA before the answer";
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received.size() == early.size(); }));
  EXPECT_EQ(far().received, early);
}

TEST_F(Socks5EntryTest, MoreEarlyDataThanIsHeldWaitsInTheSocket) {
  make();
  RawClient browser = connect();
  std::string upload;
  for (int i = 0; upload.size() < 700'000; i++) upload += std::to_string(i) + " ";
  std::size_t sent = 0;
  ASSERT_FALSE(run_until(
      [&] {
        sent += browser.send(std::string_view(upload).substr(sent));
        return false;
      },
      20'000));
  const std::size_t held = loop().raw()->pool.live_count;
  EXPECT_LE(held, 4u) << "blocks of 32 KiB";
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] {
    sent += browser.send(std::string_view(upload).substr(sent));
    return far().received.size() == upload.size();
  }));
  EXPECT_TRUE(far().received == upload);
}

TEST_F(Socks5EntryTest, AHalfCloseWhileOpeningIsPassedOnBehindItsBytes) {
  make();
  RawClient browser = connect("all of it");
  browser.finish();
  run_for(20'000);
  EXPECT_FALSE(far().over.has_value()) << "a half-close is no reason to give up";
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().is_eof; }));
  EXPECT_EQ(far().received, "all of it");
  far().send("answer");
  far().finish();
  expect_end(browser, kChosen + reply(0) + "answer");
}

TEST_F(Socks5EntryTest, AHalfCloseWithinTheRequestSegmentIsPassedOnToo) {
  make();
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest + "x");
  browser.finish();
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 1; }));
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().is_eof; }));
  EXPECT_EQ(far().received, "x");
}

TEST_F(Socks5EntryTest, ABrowserThatGoesWhileOpeningResetsTheStream) {
  make();
  RawClient browser = connect();
  browser.reset();
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
  EXPECT_EQ(entry->locals_count(), 0u);
  expect_no_streams();
}

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
  options.has_login = true;
  options.login = {"user", Secret("password")};
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
  options.handshake_timeout_us = 30'000;
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
  options.handshake_timeout_us = 30'000;
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
  Socks5Entry second(loop(), opener, options, {});
  const auto listening = second.listen("127.0.0.1", entry->port());
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
  EXPECT_FALSE(entry.has_value());
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
