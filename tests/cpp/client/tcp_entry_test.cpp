// TcpEntry: a local connection is one stream to the tunnel's target.
#include "tests/cpp/client/entry_fixture.hpp"

namespace tmesh::client {
namespace {

class TcpEntryTest : public EntryTest {
 protected:
  TcpEntryTest() {
    tunnel.protocol = config::Tunnel::Protocol::tcp;
    tunnel.target_host = "database";
    tunnel.target_port = 5432;
  }
  uint64_t data_bytes_at_the_server() { return server.last().link.mux()->stats.data_bytes_in; }
};

TEST_F(TcpEntryTest, TheOpenStartsWithTheAccept) {
  make();
  RawClient local = connect_with("");
  EXPECT_STREQ(far().open.target_host, "database");
  EXPECT_EQ(far().open.target_port, 5432);
  EXPECT_EQ(far().open.protocol, TMESH_OPEN_TCP);
  EXPECT_TRUE(opener.calls.back().allow_strict);
  EXPECT_EQ(opener.calls.back().agent_id, "home");
  far().answer(tmesh_open_accept());
  far().send("220 ready");
  ASSERT_TRUE(run_until([&] { return local.pump().received == "220 ready"; }));
  EXPECT_EQ(entry->stats().opens_count, 1u);
}

// WIRE E: what is there goes with the open.
TEST_F(TcpEntryTest, EarlyBytesArriveBeforeTheAnswer) {
  make();
  RawClient local = connect_with("");
  local.send("SELECT ");
  ASSERT_TRUE(run_until([&] { return data_bytes_at_the_server() == 7; }));
  local.send("1");
  ASSERT_TRUE(run_until([&] { return data_bytes_at_the_server() == 8; }));
  EXPECT_EQ(local.pump().received, "");
  far().answer(tmesh_open_accept());
  local.send(";");
  ASSERT_TRUE(run_until([&] { return far().received == "SELECT 1;"; }));
}

TEST_F(TcpEntryTest, EarlyBytesKeepTheirPlaceBeforeWhatFollows) {
  make();
  RawClient local = connect_with("");
  std::string upload;
  for (int i = 0; upload.size() < 700'000; i++) upload += std::to_string(i) + " ";
  std::size_t sent = 0;
  ASSERT_TRUE(run_until([&] {
    sent += local.send(std::string_view(upload).substr(sent));
    return data_bytes_at_the_server() == TMESH_EARLY_DATA_MAX_BYTES;
  }));
  ASSERT_FALSE(run_until(
      [&] {
        sent += local.send(std::string_view(upload).substr(sent));
        return data_bytes_at_the_server() > TMESH_EARLY_DATA_MAX_BYTES;
      },
      20'000))
      << "not a byte more before the answer";
  EXPECT_LE(loop().raw()->pool.live_count, 8u) << "the rest waits in the socket";
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] {
    sent += local.send(std::string_view(upload).substr(sent));
    return far().received.size() == upload.size();
  }));
  EXPECT_TRUE(far().received == upload);
}

TEST_F(TcpEntryTest, WithoutTheCapabilityNothingLeavesBeforeTheAnswer) {
  opener.mux->config.has_early_data = false;
  make();
  RawClient local = connect_with("");
  local.send("SELECT 1");
  run_for(20'000);
  EXPECT_EQ(data_bytes_at_the_server(), 0u);
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received == "SELECT 1"; }));
}

// LESSONS P-A8: no clean end, which a client would take for a target without an answer.
TEST_F(TcpEntryTest, ARefusedOpenIsAResetAndIsCounted) {
  make();
  RawClient local = connect_with("hello?");
  far().answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
  ASSERT_TRUE(run_until([&] { return local.is_over(); }));
  EXPECT_TRUE(local.is_reset);
  EXPECT_EQ(local.received, "");
  EXPECT_EQ(entry->locals_count(), 0u);
  EXPECT_EQ(entry->stats().refused_count, 1u);
  EXPECT_EQ(entry->stats().opens_count, 0u);
  expect_no_streams();
}

TEST_F(TcpEntryTest, WithoutALinkItIsAResetToo) {
  make();
  opener.refusal = TMESH_E_CLOSED;
  RawClient local(entry->port());
  ASSERT_TRUE(run_until([&] { return local.is_over(); }));
  EXPECT_TRUE(local.is_reset);
  EXPECT_EQ(entry->locals_count(), 0u);
  EXPECT_EQ(entry->stats().refused_count, 1u);
}

TEST_F(TcpEntryTest, ALinkThatEndsInsteadOfAnAnswerIsAReset) {
  make();
  RawClient local = connect_with("x");
  server.last().link = {};
  ASSERT_TRUE(run_until([&] { return local.is_over(); }));
  EXPECT_TRUE(local.is_reset);
}

TEST_F(TcpEntryTest, AnOpenThatTakesTooLongIsAReset) {
  deps.open_timeout_us = 30'000;
  make();
  RawClient local = connect_with("x");
  ASSERT_TRUE(run_until([&] { return local.is_over(); }));
  EXPECT_TRUE(local.is_reset);
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
}

TEST_F(TcpEntryTest, AHalfCloseBeforeTheAnswerIsPassedOnBehindItsBytes) {
  make();
  for (const std::string text : {"", "GET / HTTP/1.0\r\n\r\n"}) {
    RawClient local = connect_with(text);
    local.finish();
    run_for(20'000);
    EXPECT_FALSE(far().over.has_value()) << "a half-close is no reason to give up";
    EXPECT_FALSE(local.is_over());
    far().answer(tmesh_open_accept());
    ASSERT_TRUE(run_until([&] { return far().is_eof; }));
    EXPECT_EQ(far().received, text);
    far().send("late answer");
    far().finish();
    expect_end(local, "late answer");
    expect_no_streams();
  }
}

TEST_F(TcpEntryTest, ALocalClientThatGoesWhileOpeningResetsTheStream) {
  make();
  RawClient local = connect_with("x");
  local.reset();
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
  EXPECT_EQ(entry->locals_count(), 0u);
  expect_no_streams();
}

TEST_F(TcpEntryTest, AResetOfEitherEndReachesTheOther) {
  make();
  RawClient local = connect_with("");
  far().answer(tmesh_open_accept());
  local.send("x");
  ASSERT_TRUE(run_until([&] { return far().received == "x"; }));
  far().release();
  ASSERT_TRUE(run_until([&] { return local.is_over(); }));
  EXPECT_TRUE(local.is_reset);
  RawClient second = connect_with("");
  far().answer(tmesh_open_accept());
  second.send("y");
  ASSERT_TRUE(run_until([&] { return far().received == "y"; }));
  second.reset();
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
}

// Requirement B4: the bytes of the first try are not lost, and not doubled.
TEST_F(TcpEntryTest, AnOpenRepeatedAsLegacyKeepsItsEarlyBytes) {
  make();
  RawClient local = connect_with("first ");
  far().answer(tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true));
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 2; }));
  EXPECT_FALSE(opener.calls[1].allow_strict);
  far().answer(tmesh_open_accept());
  local.send("second");
  ASSERT_TRUE(run_until([&] { return far().received == "first second"; }));
}

TEST_F(TcpEntryTest, ARefusedLegacyOpenIsAReset) {
  make();
  opener.is_strict = false;
  RawClient local = connect_with("x");
  far().answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
  ASSERT_TRUE(run_until([&] { return local.is_over(); }));
  EXPECT_TRUE(local.is_reset);
}

TEST_F(TcpEntryTest, StopListeningLetsOpensGoOn) {
  make();
  RawClient local = connect_with("");
  entry->stop_listening();
  EXPECT_EQ(entry->locals_count(), 1u);
  EXPECT_EQ(entry->port(), 0);
  far().answer(tmesh_open_accept());
  far().send("here you are");
  ASSERT_TRUE(run_until([&] { return local.pump().received == "here you are"; }));
}

// LESSONS P-I8: here a silent client is a stream, and still delays nobody.
TEST_F(TcpEntryTest, AHundredSilentClientsDoNotDelayTheNext) {
  make();
  std::vector<RawClient> silent;
  for (int i = 0; i < 100; i++) silent.emplace_back(entry->port());
  ASSERT_TRUE(run_until([&] { return server.last().streams.size() == 100; }));
  RawClient local = connect_with("x");
  far().answer(tmesh_open_accept());
  far().send("at once");
  ASSERT_TRUE(run_until([&] { return local.pump().received == "at once"; }));
}

TEST_F(TcpEntryTest, DestroyingItEndsEverything) {
  make();
  RawClient opening = connect_with("x");
  RawClient flowing = connect_with("y");
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received == "y"; }));
  entry.reset();
  ASSERT_TRUE(run_until([&] { return opening.is_over() && flowing.is_over(); }));
  expect_no_streams();
}

TEST_F(TcpEntryTest, AThousandConnectionsLeaveNothingBehind) {
  make();
  for (int i = 0; i < 1000; i++) {
    RawClient local = connect_with("x");
    if (i % 3 == 0) {
      far().answer(tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, false));
    } else if (i % 3 == 1) {
      far().answer(tmesh_open_accept());
      far().finish();
      local.finish();
    } else {
      local.reset();
    }
    ASSERT_TRUE(run_until([&] { return entry->locals_count() == 0; }));
    server.last().streams.clear();
  }
  expect_no_streams();
  EXPECT_EQ(loop().timer_count(), 0u);
}

}  // namespace
}  // namespace tmesh::client
