// What comes back on the streams of associations: to whom it goes, and when not at all.
#include "tests/cpp/client/udp_associations_fixture.hpp"

namespace tmesh::client {
namespace {

TEST_F(UdpAssociationsTest, AnswersBehindTheEndAreDropped) {
  send(1);
  timers.advance(kIdle_us);
  pump();
  answer(0, "late");
  EXPECT_TRUE(replies.empty());
  EXPECT_EQ(table->counts().dropped_count, 1u);
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

}  // namespace
}  // namespace tmesh::client
