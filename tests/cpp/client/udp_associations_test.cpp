#include "tests/cpp/client/udp_associations_fixture.hpp"

namespace tmesh::client {
namespace {

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
