// Socks5Local: from a request to its answer, and what waits meanwhile.
#include "tests/cpp/client/socks5_entry_fixture.hpp"

namespace tmesh::client {
namespace {

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

// LESSONS P-E11: a server that restarts fails no new stream.
TEST_F(Socks5EntryTest, AnOpenWaitsForALinkThatIsOnItsWay) {
  make();
  opener.refusal = TMESH_E_CLOSED;
  opener.is_link_coming = true;
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest + "early");
  ASSERT_TRUE(run_until([&] { return opener.waiting.size() == 1; }));
  run_for(20'000);
  EXPECT_EQ(browser.pump().received, kChosen) << "neither refused nor served";
  opener.refusal = TMESH_OK;
  opener.wake();
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 1; }));
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received == "early"; }));
  EXPECT_TRUE(browser.pump().received.starts_with(kChosen + reply(0)));
  EXPECT_EQ(opener.calls.size(), 2u);
}

TEST_F(Socks5EntryTest, ALinkThatDoesNotComeIsAgentUnavailable) {
  make();
  opener.refusal = TMESH_E_CLOSED;
  opener.is_link_coming = true;
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest);
  ASSERT_TRUE(run_until([&] { return opener.waiting.size() == 1; }));
  opener.wake();  // the attempt failed
  expect_end(browser, kChosen + reply(4));
  EXPECT_TRUE(opener.waiting.empty()) << "once is enough";
}

// A link that was silent for a while is taken again when it speaks, but nobody is woken for that.
TEST_F(Socks5EntryTest, TheEndOfTheWaitLooksOnceMore) {
  deps.link_wait_us = 30'000;
  make();
  opener.refusal = TMESH_E_CLOSED;
  opener.is_link_coming = true;
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest);
  ASSERT_TRUE(run_until([&] { return opener.waiting.size() == 1; }));
  opener.refusal = TMESH_OK;
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 1; }));
  EXPECT_TRUE(opener.waiting.empty());
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return browser.pump().received == kChosen + reply(0); }));
}

TEST_F(Socks5EntryTest, NobodyWaitsLongForALink) {
  deps.link_wait_us = 30'000;
  make();
  opener.refusal = TMESH_E_CLOSED;
  opener.is_link_coming = true;
  RawClient browser(entry->port());
  browser.send(kGreeting + kRequest);
  expect_end(browser, kChosen + reply(4));
  EXPECT_EQ(opener.calls.size(), 2u);
}

TEST_F(Socks5EntryTest, ABrowserThatLeavesWhileItWaitsIsForgotten) {
  make();
  opener.refusal = TMESH_E_CLOSED;
  opener.is_link_coming = true;
  {
    RawClient browser(entry->port());
    browser.send(kGreeting + kRequest);
    ASSERT_TRUE(run_until([&] { return opener.waiting.size() == 1; }));
    const linger now{1, 0};
    ::setsockopt(browser.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
  EXPECT_TRUE(opener.waiting.empty());
}

TEST_F(Socks5EntryTest, AnOpenThatTakesTooLongIsTimeoutAndResetsOnlyThatStream) {
  deps.open_timeout_us = 30'000;
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
  EXPECT_EQ(opener.timed_out, std::vector<std::string>{"home"}) << "the link is asked whether it lives";
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

}  // namespace
}  // namespace tmesh::client
