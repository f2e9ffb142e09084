#include "cpp/client/udp_associations.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/pool.h"
#include "core/mux/datagram.h"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/server/mux_pair.hpp"

namespace tmesh::client {
namespace {

net::UdpAddress source(unsigned n) {
  net::UdpAddress out;
  out.len = 16;
  out.bytes[0] = 2;
  out.bytes[2] = static_cast<uint8_t>(n >> 8);
  out.bytes[3] = static_cast<uint8_t>(n);
  out.bytes[4] = static_cast<uint8_t>(n >> 16);
  return out;
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct FakeOpener final : StreamOpener {
  Result<OpenedStream> open(const OpenRequest& request, bool, const tmesh_mux*) override {
    opens++;
    EXPECT_EQ(request.protocol, TMESH_OPEN_UDP);
    EXPECT_EQ(request.host, "dns");
    EXPECT_EQ(request.port, 53);
    if (refusal != TMESH_OK) return fail(refusal, "refused by the test");
    auto open = test::open_request(request.host, request.port);
    open.protocol = TMESH_OPEN_UDP;
    tmesh_open_params params{&open, false, 0};
    tmesh_status why{};
    tmesh_stream* const stream = tmesh_mux_open(mux, &params, &why);
    if (stream == nullptr) return fail(TMESH_E_LIMIT, "no stream");
    return OpenedStream{stream, false};
  }
  Ticket await_link(std::string_view, Delegate<void()> done) override {
    if (!is_link_coming) return {};
    waiting.push_back(done);
    return Ticket(this, 0, [](void*, uint64_t) {});
  }
  void open_timed_out(std::string_view, const tmesh_stream&) override {}
  Ticket await_silence(std::string_view, const tmesh_stream&, Delegate<void()>) override { return {}; }

  tmesh_mux* mux = nullptr;
  tmesh_code refusal = TMESH_OK;
  bool is_link_coming = false;
  std::vector<Delegate<void()>> waiting;
  unsigned opens = 0;
};

struct FakeValidator final : OpenValidator {
  Ticket validate(const ValidationRequest& request, Delegate<void(bool)> done) override {
    EXPECT_EQ(request.protocol, "udp");
    EXPECT_EQ(request.target_host, "dns");
    asked.push_back(done);
    return Ticket(this, 0, [](void*, uint64_t) {});
  }
  std::vector<Delegate<void(bool)>> asked;
};

struct UdpAssociationsTest : ::testing::Test {
  UdpAssociationsTest() {
    opener.mux = &pair.opener.mux;
    opening.agent_id = "home";
    opening.protocol_name = "udp";
    pair.acceptor.open = test::MuxEnd::OnOpen::bind<&UdpAssociationsTest::on_open>(this);
    make();
  }
  ~UdpAssociationsTest() override {
    table.reset();
    far.clear();
    tmesh_mux_fail(&pair.opener.mux, tmesh_err_session(TMESH_E_CLOSED));
    tmesh_mux_fail(&pair.acceptor.mux, tmesh_err_session(TMESH_E_CLOSED));
  }
  void make() {
    table.emplace(
        UdpAssociationsParts{timers, opener, &validator, opening, stats, "dns", 53, idle_us,
                             UdpAssociationsParts::Reply::bind<&UdpAssociationsTest::on_reply>(this)});
  }
  void on_open(tmesh_stream* stream, const tmesh_open_stream&) {
    far.push_back(std::make_unique<test::PlainStream>());
    far.back()->takes = false;
    far.back()->attach(stream);
    if (accepts) {
      far.back()->accept();
    } else {
      far.back()->answer(tmesh_open_refuse(TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN, false));
      far.back()->release();
    }
  }
  tmesh_status on_reply(const net::UdpAddress& to, std::span<const uint8_t> data) {
    if (is_blocked) return tmesh_err_stream(TMESH_E_AGAIN);
    replies.emplace_back(to, std::string(reinterpret_cast<const char*>(data.data()), data.size()));
    return tmesh_ok();
  }
  void send(unsigned from, std::string_view data = "x") {
    table->on_datagram(source(from), bytes_of(data));
    pump();
  }
  void pump() {
    while (pair.step()) {
    }
  }
  void answer(std::size_t n, std::string_view data) {
    ASSERT_TRUE(tmesh_is_ok(tmesh_stream_send_datagram(far.at(n)->stream, data.data(), data.size())));
    pump();
  }
  // What has arrived at the far end of stream n.
  std::vector<std::string> arrived(std::size_t n) {
    std::vector<std::string> out;
    std::string buffer(TMESH_DATAGRAM_MAX_BYTES, '\0');
    std::size_t len = 0;
    while (tmesh_stream_peek_datagram(far.at(n)->stream, buffer.data(), buffer.size(), &len)) {
      out.push_back(buffer.substr(0, len));
      tmesh_stream_take_datagram(far[n]->stream);
    }
    return out;
  }
  bool far_ended(std::size_t n) { return far.at(n)->stream->in_eof; }
  using Strings = std::vector<std::string>;

  static constexpr uint64_t kIdle_us = 60'000'000;
  uint64_t idle_us = kIdle_us;
  tmesh_pool pool = make_pool();
  static tmesh_pool make_pool() {
    tmesh_pool out;
    tmesh_pool_init(&out, 64u << 20, 0);
    return out;
  }
  test::FakeTimers timers;
  test::MuxPair pair{&pool, 8192};
  FakeOpener opener;
  FakeValidator validator;
  OpeningSettings opening;
  EntryStats stats;
  std::optional<UdpAssociations> table;
  std::vector<std::unique_ptr<test::PlainStream>> far;
  std::vector<std::pair<net::UdpAddress, std::string>> replies;
  bool accepts = true;
  bool is_blocked = false;
};

TEST_F(UdpAssociationsTest, EachSourceHasAStreamOfItsOwnAndItsAnswersGoBackToIt) {
  send(1, "one");
  send(2, "");
  send(1, "more");
  ASSERT_EQ(far.size(), 2u);
  EXPECT_EQ(arrived(0), (Strings{"one", "more"}));
  EXPECT_EQ(arrived(1), Strings{""});
  answer(1, "two");
  answer(0, "");
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0], std::pair(source(2), std::string("two")));
  EXPECT_EQ(replies[1], std::pair(source(1), std::string("")));
  EXPECT_EQ(table->count(), 2u);
  EXPECT_EQ(stats.accepted_count, 2u);
  EXPECT_EQ(stats.opens_count, 2u);
  EXPECT_EQ(pair.opener.sent_of(TMESH_FRAME_OPEN_STREAM)[0].header.window_bytes, 0u);
}

TEST_F(UdpAssociationsTest, SilenceClosesAnAssociationRegularly) {
  send(1);
  timers.advance(kIdle_us - 1);
  EXPECT_EQ(table->count(), 1u);
  timers.advance(1);
  EXPECT_EQ(table->count(), 0u);
  EXPECT_EQ(table->counts().expired_count, 1u);
  pump();
  EXPECT_TRUE(far_ended(0));
  EXPECT_EQ(pair.opener.count_of(TMESH_FRAME_RESET), 0u) << "servers count those as cancelled opens";
  EXPECT_EQ(table->lingering_count(), 1u);
  far[0]->finish();
  pump();
  EXPECT_EQ(table->lingering_count(), 0u);
  EXPECT_EQ(pair.opener.mux.streams.count, 0u);
  EXPECT_EQ(pair.opener.count_of(TMESH_FRAME_RESET), 0u);
}

TEST_F(UdpAssociationsTest, ADatagramEitherWayKeepsAnAssociation) {
  send(1);
  timers.advance(kIdle_us - 1);
  send(1);
  timers.advance(kIdle_us - 1);
  answer(0, "a");
  timers.advance(kIdle_us - 1);
  EXPECT_EQ(table->count(), 1u);
  timers.advance(1);
  EXPECT_EQ(table->count(), 0u);
}

TEST_F(UdpAssociationsTest, AnEndThatNobodyAnswersIsReset) {
  send(1);
  timers.advance(kIdle_us);
  pump();
  ASSERT_EQ(table->lingering_count(), 1u);
  timers.advance(UdpAssociations::kLinger_us - 1);
  EXPECT_EQ(table->lingering_count(), 1u);
  timers.advance(1);
  EXPECT_EQ(table->lingering_count(), 0u);
  pump();
  EXPECT_EQ(pair.opener.count_of(TMESH_FRAME_RESET), 1u);
}

TEST_F(UdpAssociationsTest, BeyondTheLimitTheStreamThatLingersForLongestIsReset) {
  for (unsigned n = 0; n < UdpAssociations::kMax; n++) send(n);
  timers.advance(kIdle_us);
  ASSERT_EQ(table->lingering_count(), UdpAssociations::kMax);
  send(9'999);
  send(9'998);
  table->finish();
  EXPECT_EQ(table->lingering_count(), UdpAssociations::kMax);
  pump();
  EXPECT_EQ(pair.opener.count_of(TMESH_FRAME_RESET), 2u);
  EXPECT_TRUE(far[0]->is_over && far[1]->is_over);
}

TEST_F(UdpAssociationsTest, SilenceIsNoticedInTimeWhileAnotherStreamLingers) {
  idle_us = UdpAssociations::kLinger_us / 10;
  make();
  send(1);
  timers.advance(idle_us);
  pump();
  ASSERT_EQ(table->lingering_count(), 1u);
  send(2);
  timers.advance(idle_us);
  EXPECT_EQ(table->count(), 0u);
  far[0]->finish();
  pump();
  send(3);
  timers.advance(idle_us);
  EXPECT_EQ(table->count(), 0u);
}

TEST_F(UdpAssociationsTest, AnswersBehindTheEndAreDropped) {
  send(1);
  timers.advance(kIdle_us);
  pump();
  answer(0, "late");
  EXPECT_TRUE(replies.empty());
  EXPECT_EQ(table->counts().dropped_count, 1u);
}

// R13: a newcomer takes the place of the longest silent one.
TEST_F(UdpAssociationsTest, BeyondTheLimitTheLeastRecentlyUsedGoes) {
  for (unsigned n = 0; n < UdpAssociations::kMax; n++) send(n);
  send(0);  // used again: 1 is the oldest now
  answer(1, "still there");
  answer(2, "and me");  // 1 and 2 got something: 3 is the oldest
  send(9'999, "new");
  EXPECT_EQ(table->count(), UdpAssociations::kMax);
  EXPECT_EQ(table->counts().evicted_count, 1u);
  EXPECT_EQ(stats.over_limit_count, 0u);
  ASSERT_EQ(far.size(), UdpAssociations::kMax + 1);
  EXPECT_TRUE(far_ended(3));
  EXPECT_FALSE(far_ended(0) || far_ended(1) || far_ended(2) || far_ended(4));
  EXPECT_EQ(arrived(UdpAssociations::kMax), Strings{"new"});
}

// R13: each of them is an open.
TEST_F(UdpAssociationsTest, AFloodOfSourcesIsServedALimitAtOnceAndThenSlowly) {
  constexpr unsigned kMax = UdpAssociations::kMax;
  for (unsigned n = 0; n < 2 * kMax; n++) send(n);
  EXPECT_EQ(table->counts().evicted_count, kMax);
  EXPECT_EQ(stats.over_limit_count, 0u);
  const uint64_t dropped_count = table->counts().dropped_count;
  send(2 * kMax);
  EXPECT_EQ(stats.over_limit_count, 1u);
  EXPECT_EQ(table->counts().dropped_count, dropped_count + 1);
  EXPECT_EQ(opener.opens, 2 * kMax);
  timers.advance(2 * UdpAssociations::kEvict_us);
  for (unsigned n = 0; n < 3; n++) send(3 * kMax + n);
  EXPECT_EQ(table->counts().evicted_count, kMax + 2);
  EXPECT_EQ(stats.over_limit_count, 2u);
  EXPECT_EQ(table->count(), kMax);
}

TEST_F(UdpAssociationsTest, WhatWaitsForALinkIsSentInOrder) {
  opener.refusal = TMESH_E_CLOSED;
  opener.is_link_coming = true;
  send(1, "a");
  send(1, "");
  send(1, "c");
  EXPECT_EQ(opener.opens, 1u) << "one open is enough";
  ASSERT_EQ(opener.waiting.size(), 1u);
  opener.refusal = TMESH_OK;
  opener.waiting[0]();
  pump();
  EXPECT_EQ(arrived(0), (Strings{"a", "", "c"}));
}

TEST_F(UdpAssociationsTest, WhatWaitsIsBoundedAndTheNewestIsDropped) {
  opener.refusal = TMESH_E_CLOSED;
  opener.is_link_coming = true;
  for (std::size_t n = 0; n < UdpAssociation::kPendingMaxCount + 3; n++) send(1, std::to_string(n));
  EXPECT_EQ(table->counts().dropped_count, 3u);
  send(2, std::string(65'507, 'x'));
  send(2, std::string(1'000, 'y'));
  EXPECT_EQ(table->counts().dropped_count, 4u);
  // All associations together: each of these has a largest datagram.
  const std::size_t fits = UdpAssociations::kKeptMaxBytes / 65'507;
  for (unsigned n = 3; n < 3 + fits; n++) send(n, std::string(65'507, 'x'));
  EXPECT_EQ(table->counts().dropped_count, 5u);
  opener.refusal = TMESH_OK;
  for (auto& wake : std::exchange(opener.waiting, {})) wake();
  pump();
  EXPECT_EQ(arrived(0).size(), UdpAssociation::kPendingMaxCount);
  EXPECT_EQ(arrived(1), Strings{std::string(65'507, 'x')});
  // And room again.
  timers.advance(UdpAssociation::kRestFirst_us);
  send(500, std::string(65'507, 'x'));
  EXPECT_EQ(table->counts().dropped_count, 5u);
}

TEST_F(UdpAssociationsTest, ARefusedAssociationRestsAndTheNextDatagramTriesAgain) {
  opener.refusal = TMESH_E_CLOSED;  // and no link is on its way
  send(1);
  EXPECT_EQ(stats.refused_count, 1u);
  send(1);
  EXPECT_EQ(opener.opens, 1u);
  EXPECT_EQ(table->counts().dropped_count, 2u);
  timers.advance(UdpAssociation::kRestFirst_us - 1);
  send(1);
  EXPECT_EQ(opener.opens, 1u);
  timers.advance(1);
  send(1);
  EXPECT_EQ(opener.opens, 2u);
  // Twice as long, and so on up to the limit.
  timers.advance(2 * UdpAssociation::kRestFirst_us - 1);
  send(1);
  EXPECT_EQ(opener.opens, 2u);
  timers.advance(1);
  opener.refusal = TMESH_OK;
  send(1, "through");
  EXPECT_EQ(opener.opens, 3u);
  EXPECT_EQ(arrived(0), Strings{"through"});
  EXPECT_EQ(table->count(), 1u);
}

TEST_F(UdpAssociationsTest, RestsGrowToALimitAndAreShortAgainAfterAnAnswer) {
  accepts = false;  // legacy: the agent's refusal is a RESET
  send(1);
  for (uint64_t rest_us = UdpAssociation::kRestFirst_us; rest_us < UdpAssociation::kRestMax_us;
       rest_us *= 2) {
    timers.advance(rest_us);
    send(1);
  }
  timers.advance(UdpAssociation::kRestMax_us);
  send(1);  // refused once more: the rest does not grow
  const unsigned opens = opener.opens;
  timers.advance(UdpAssociation::kRestMax_us - 1);
  send(1);
  EXPECT_EQ(opener.opens, opens);
  timers.advance(1);
  accepts = true;
  send(1);
  EXPECT_EQ(opener.opens, opens + 1);
  const std::size_t n = far.size() - 1;
  answer(n, "yes");
  far[n]->reset();
  pump();
  EXPECT_EQ(table->count(), 1u) << "the association is there, its stream is not";
  timers.advance(UdpAssociation::kRestFirst_us);
  send(1, "again");
  ASSERT_EQ(far.size(), n + 2);
  EXPECT_EQ(arrived(n + 1), Strings{"again"});
}

TEST_F(UdpAssociationsTest, TheLastAnswersBeforeAResetAreDelivered) {
  send(1);
  ASSERT_TRUE(tmesh_is_ok(tmesh_stream_send_datagram(far[0]->stream, "last", 4)));
  pair.step();
  far[0]->reset();
  pump();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].second, "last");
}

TEST_F(UdpAssociationsTest, AnEndOfTheFarSideIsTakenForALoss) {
  send(1);
  far[0]->finish();
  pump();
  EXPECT_EQ(table->count(), 1u);
  timers.advance(UdpAssociation::kRestFirst_us);
  send(1, "again");
  ASSERT_EQ(far.size(), 2u);
  EXPECT_EQ(arrived(1), Strings{"again"});
}

TEST_F(UdpAssociationsTest, ABlockedSocketKeepsAnswersUntilItTakesThem) {
  send(1);
  send(2);
  is_blocked = true;
  answer(0, "a");
  answer(1, "b");
  answer(0, "c");
  EXPECT_TRUE(replies.empty());
  is_blocked = false;
  table->pump();
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_EQ(replies[0].second, "a");
  EXPECT_EQ(replies[1].second, "c");
  EXPECT_EQ(replies[2].second, "b");
  EXPECT_EQ(table->counts().dropped_count, 0u);
}

TEST_F(UdpAssociationsTest, ManyAnswersTakeSeveralTurns) {
  send(1);
  for (std::size_t n = 0; n < 2 * UdpAssociation::kTurnMax; n++) {
    ASSERT_TRUE(tmesh_is_ok(tmesh_stream_send_datagram(far[0]->stream, "x", 1)));
  }
  far[0]->finish();
  pump();
  EXPECT_EQ(replies.size(), UdpAssociation::kTurnMax);
  EXPECT_EQ(pair.opener.mux.live_count, 1u) << "the far side has ended, but there is more to hand on";
  timers.advance(0);
  EXPECT_EQ(replies.size(), 2 * UdpAssociation::kTurnMax);
  EXPECT_EQ(pair.opener.mux.live_count, 0u);
}

TEST_F(UdpAssociationsTest, ASocketThatTakesDatagramsAgainGivesEachAssociationOneTurn) {
  is_blocked = true;
  for (unsigned n : {0u, 1u}) {
    send(n + 1);
    for (std::size_t i = 0; i < 3 * UdpAssociation::kTurnMax; i++) {
      ASSERT_TRUE(tmesh_is_ok(tmesh_stream_send_datagram(far[n]->stream, "x", 1)));
    }
  }
  pump();
  is_blocked = false;
  table->pump();
  EXPECT_EQ(replies.size(), 2 * UdpAssociation::kTurnMax);
}

TEST_F(UdpAssociationsTest, AuthUrlIsAskedOncePerAssociation) {
  opening.auth_url = "http://127.0.0.1/check";
  send(1, "a");
  send(1, "b");
  ASSERT_EQ(validator.asked.size(), 1u);
  EXPECT_EQ(opener.opens, 0u);
  validator.asked[0](true);
  pump();
  EXPECT_EQ(arrived(0), (Strings{"a", "b"}));
  send(1, "c");
  EXPECT_EQ(validator.asked.size(), 1u);
  send(2, "no");
  ASSERT_EQ(validator.asked.size(), 2u);
  validator.asked[1](false);
  pump();
  EXPECT_EQ(far.size(), 1u);
  EXPECT_EQ(stats.refused_count, 1u);
}

TEST_F(UdpAssociationsTest, FinishClosesAllRegularly) {
  send(1);
  send(2);
  table->finish();
  EXPECT_EQ(table->count(), 0u);
  pump();
  EXPECT_TRUE(far_ended(0) && far_ended(1));
  EXPECT_EQ(pair.opener.count_of(TMESH_FRAME_RESET), 0u);
}

TEST_F(UdpAssociationsTest, ALostLinkLosesNoAssociation) {
  send(1);
  pair.cut();
  pump();
  EXPECT_EQ(table->count(), 1u);
  opener.refusal = TMESH_E_CLOSED;
  timers.advance(UdpAssociation::kRestFirst_us);
  send(1);
  EXPECT_EQ(opener.opens, 2u);
}

}  // namespace
}  // namespace tmesh::client
