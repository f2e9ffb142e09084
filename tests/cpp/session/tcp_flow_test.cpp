// The bytes between a real socket and a stream of a real link.
#include "cpp/session/tcp_flow.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::session {
namespace {

using test::FakeServer;
using test::PeerStream;

struct Silent : net::TcpHandler {
  void on_readable() override {}
  void on_eof() override { is_eof = true; }
  void on_written(std::size_t, bool) override {}
  void on_broken(tmesh_status) override { is_broken = true; }
  bool is_eof = false;
  bool is_broken = false;
};

class TcpFlowTest : public net::LoopTest {
 protected:
  // One end of a link opens (the client), the other accepts (`server`); the flow joins
  // the opener's stream with the accepted side of `local`.
  TcpFlowTest() : server(loop()), entry_loop(loop()) {
    listener = std::move(
        *net::Listener::open(loop(), "127.0.0.1", 0,
                             {Delegate<void(int, const net::Peer&)>::bind<&TcpFlowTest::on_accept>(this),
                              Delegate<void(tmesh_status)>::free<&TcpFlowTest::on_broken>(nullptr)}));
    net::RawClient raw(server.port());
    opener.emplace(loop(), raw.release(), nullptr);
    EXPECT_TRUE(run_until([&] { return server.count() == 1 && server.last().ready && opener->ready; }));
    server.last().on_stream = [](PeerStream& s) { s.answer(tmesh_open_accept()); };
    server.last().become_link(test::mux_config(false));
    opener->become_link(test::mux_config(true), true);
    local.emplace(listener.port());
    EXPECT_TRUE(run_until([&] { return static_cast<bool>(tcp); }));
    open();
  }
  void on_accept(int fd, const net::Peer&) {
    tcp = std::move(*net::Tcp::open(entry_loop, fd, silent));
    tcp.read(16'384);
  }
  static void on_broken(void*, tmesh_status) { ADD_FAILURE(); }

  void open() {
    tmesh_open_stream o{};
    o.protocol = TMESH_OPEN_TCP;
    o.target_host[0] = 'h';
    o.target_port = 80;
    tmesh_open_params params{&o, true, TMESH_WINDOW_INITIAL_BYTES};
    tmesh_status why{};
    stream = tmesh_mux_open(opener->link.mux(), &params, &why);
    ASSERT_NE(stream, nullptr);
    is_open = false;
    tmesh_stream_attach(stream, this, [](void* self, tmesh_stream*, unsigned) {
      static_cast<TcpFlowTest*>(self)->is_open = true;
    });
    ASSERT_TRUE(run_until([&] { return is_open; }));
    far = &server.last().streams.back();
  }
  void make() {
    flow.emplace(std::move(tcp), std::exchange(stream, nullptr),
                 TcpFlow::Done::bind<&TcpFlowTest::on_done>(this));
  }
  void start() {
    make();
    flow->start();
  }
  void on_done(tmesh_status why) {
    done_count++;
    done = why;
    sent_bytes = flow->sent_bytes();
    received_bytes = flow->received_bytes();
    flow.reset();
  }
  void send_all(std::string_view text) {
    std::size_t at = 0;
    ASSERT_TRUE(run_until([&] {
      at += local->send(text.substr(at));
      local->pump();
      return at == text.size();
    }));
  }
  void expect_clean_end() {
    ASSERT_TRUE(run_until([&] { return done_count == 1 && local->is_over() && far->is_eof; }));
    EXPECT_TRUE(tmesh_is_ok(*done)) << tmesh_code_name(done->code);
    EXPECT_FALSE(local->is_reset);
    EXPECT_FALSE(far->over.has_value());
    far->release();
    EXPECT_EQ(opener->link.mux()->streams.count, 0u);
  }
  static std::string pattern(std::size_t n) {
    std::string out(n, '\0');
    uint32_t x = 1;
    for (char& c : out) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
    return out;
  }

  FakeServer server;
  net::Loop& entry_loop;
  std::optional<test::Peer> opener;
  net::Listener listener;
  std::optional<net::RawClient> local;
  Silent silent;
  net::Tcp tcp;
  tmesh_stream* stream = nullptr;
  bool is_open = false;
  PeerStream* far = nullptr;
  std::optional<TcpFlow> flow;
  std::size_t done_count = 0;
  std::optional<tmesh_status> done;
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
};

TEST_F(TcpFlowTest, MovesBytesBothWays) {
  start();
  local->send("to the target");
  far->send("to the browser");
  ASSERT_TRUE(run_until(
      [&] { return far->received == "to the target" && local->pump().received == "to the browser"; }));
  EXPECT_EQ(done_count, 0u);
  local->finish();
  far->finish();
  expect_clean_end();
  EXPECT_EQ(sent_bytes, 13u);
  EXPECT_EQ(received_bytes, 14u);
}

TEST_F(TcpFlowTest, TheFirstByteAndItsLeavingAreToldOnce) {
  make();
  struct Watcher {
    void on(FlowMoment moment) { seen += moment == FlowMoment::first_read ? 'r' : 's'; }
    std::string seen;
  } watcher;
  flow->watch(TcpFlow::Watch::bind<&Watcher::on>(&watcher));
  flow->start();
  far->send("not from the socket");
  ASSERT_TRUE(run_until([&] { return local->pump().received == "not from the socket"; }));
  EXPECT_EQ(watcher.seen, "");
  local->send("first");
  ASSERT_TRUE(run_until([&] { return far->received == "first"; }));
  local->send(" second");
  ASSERT_TRUE(run_until([&] { return far->received == "first second"; }));
  EXPECT_EQ(watcher.seen, "rs");
  local->finish();
  far->finish();
  expect_clean_end();
}

TEST_F(TcpFlowTest, BytesThatWaitedInTheSocketGoFirst) {
  local->send("early, ");
  ASSERT_TRUE(run_until([&] { return tcp.in()->len_bytes == 7; }));
  start();
  local->send("late");
  ASSERT_TRUE(run_until([&] { return far->received == "early, late"; }));
  local->finish();
  far->finish();
  expect_clean_end();
}

TEST_F(TcpFlowTest, BytesThatWaitedInTheStreamGoFirst) {
  far->send("banner");
  ASSERT_TRUE(run_until([&] { return stream->in.len_bytes == 6; }));
  start();
  ASSERT_TRUE(run_until([&] { return local->pump().received == "banner"; }));
  local->finish();
  far->finish();
  expect_clean_end();
}

TEST_F(TcpFlowTest, AnEndBeforeStartIsPassedOnBehindItsBytes) {
  local->send("request");
  local->finish();
  ASSERT_TRUE(run_until([&] { return silent.is_eof; }));
  start();
  ASSERT_TRUE(run_until([&] { return far->is_eof; }));
  EXPECT_EQ(far->received, "request");
  far->send("answer");
  far->finish();
  expect_clean_end();
  EXPECT_EQ(local->received, "answer");
}

TEST_F(TcpFlowTest, AnEndBetweenConstructionAndStartIsNotLost) {
  make();
  local->finish();
  ASSERT_FALSE(run_until([] { return false; }, 20'000));
  flow->start();
  ASSERT_TRUE(run_until([&] { return far->is_eof; }));
  far->finish();
  expect_clean_end();
}

TEST_F(TcpFlowTest, AnEndOfTheStreamBeforeStartIsPassedOn) {
  far->send("all");
  far->finish();
  ASSERT_TRUE(run_until([&] { return stream->in_eof; }));
  start();
  ASSERT_TRUE(run_until([&] { return local->is_over(); }));
  EXPECT_EQ(local->received, "all");
  EXPECT_FALSE(local->is_reset);
  EXPECT_EQ(done_count, 0u);
  local->finish();
  expect_clean_end();
}

// LESSONS R6, P-B1.
TEST_F(TcpFlowTest, ALateAnswerAfterOurHalfCloseArrivesWhole) {
  start();
  local->send("G");
  local->finish();
  ASSERT_TRUE(run_until([&] { return far->is_eof; }));
  EXPECT_FALSE(run_until([&] { return done_count > 0 || local->is_over(); }, 50'000));
  const std::string answer = pattern(512 * 1024);
  far->send(answer);
  far->finish();
  expect_clean_end();
  EXPECT_TRUE(local->received == answer);
}

TEST_F(TcpFlowTest, ALateUploadAfterThePeersHalfCloseArrivesWhole) {
  start();
  far->finish();
  ASSERT_TRUE(run_until([&] { return local->is_over(); }));
  EXPECT_FALSE(local->is_reset);
  EXPECT_FALSE(run_until([&] { return done_count > 0; }, 50'000));
  const std::string upload = pattern(512 * 1024);
  send_all(upload);
  local->finish();
  expect_clean_end();
  EXPECT_TRUE(far->received == upload);
}

TEST_F(TcpFlowTest, ASlowReaderGetsEverything) {
  start();
  const std::string answer = pattern(3u << 20);
  far->send(answer);
  far->finish();
  ASSERT_FALSE(run_until([] { return false; }, 50'000));  // nobody reads: everything backs up
  EXPECT_LE(far->stream->out.len_bytes, 524'288u);
  local->finish();
  ASSERT_TRUE(run_until([&] { return local->is_over(); }));
  expect_clean_end();
  EXPECT_TRUE(local->received == answer);
}

TEST_F(TcpFlowTest, CreditComesOnlyForBytesThatLeft) {
  // The reader does not read: no more than one window may ever be under way.
  start();
  far->send(pattern(20u << 20));  // more than two kernel buffers hold
  ASSERT_FALSE(run_until([] { return false; }, 50'000));
  const uint64_t moved = flow->received_bytes();
  const uint64_t sent = server.last().link.mux()->stats.data_bytes_out;
  EXPECT_LE(sent - moved, TMESH_WINDOW_INITIAL_BYTES);
  EXPECT_GT(far->unsent.size() + far->stream->out.len_bytes, 0u);
}

TEST_F(TcpFlowTest, ForeignBytesAreNotCredited) {
  // A reply of the entry that is still in the socket's queue is nobody's stream data.
  const std::string reply(100'000, 'r');
  ASSERT_TRUE(tmesh_is_ok(tcp.send({reinterpret_cast<const uint8_t*>(reply.data()), reply.size()})));
  start();
  far->send("x");
  ASSERT_TRUE(run_until([&] { return local->pump().received.size() == reply.size() + 1; }));
  EXPECT_EQ(local->received.back(), 'x');
  EXPECT_EQ(flow->received_bytes(), 1u);
  // 100,001 bytes were written and one was the stream's: below every threshold.
  ASSERT_FALSE(run_until([] { return false; }, 10'000));
  EXPECT_EQ(far->stream->send.credit_bytes, TMESH_WINDOW_INITIAL_BYTES - 1);
}

TEST_F(TcpFlowTest, AResetStreamResetsTheSocket) {
  start();
  far->release();  // both directions open: RESET
  ASSERT_TRUE(run_until([&] { return done_count == 1 && local->is_over(); }));
  EXPECT_EQ(done->code, TMESH_E_RESET);
  EXPECT_EQ(done->scope, TMESH_SCOPE_STREAM);
  EXPECT_TRUE(local->is_reset);
}

TEST_F(TcpFlowTest, ALinkThatEndsResetsTheSocket) {
  start();
  server.last().streams.clear();
  server.last().link = {};
  ASSERT_TRUE(run_until([&] { return done_count == 1 && local->is_over(); }));
  EXPECT_FALSE(tmesh_is_ok(*done));
  EXPECT_TRUE(local->is_reset);
}

TEST_F(TcpFlowTest, AResetSocketResetsTheStream) {
  start();
  local->reset();
  ASSERT_TRUE(run_until([&] { return done_count == 1 && far->over.has_value(); }));
  EXPECT_EQ(done->code, TMESH_E_RESET);
  EXPECT_EQ(far->over->code, TMESH_E_RESET);
}

TEST_F(TcpFlowTest, ASocketThatBrokeBeforeStartEndsItInsideStart) {
  make();
  local->reset();
  ASSERT_FALSE(run_until([] { return false; }, 20'000));
  EXPECT_EQ(done_count, 0u) << "not before start()";
  flow->start();
  EXPECT_EQ(done_count, 1u);
  EXPECT_EQ(done->code, TMESH_E_RESET);
  ASSERT_TRUE(run_until([&] { return far->over.has_value(); }));
}

TEST_F(TcpFlowTest, DestroyedEarlyItResetsBothEnds) {
  start();
  local->send("half");
  ASSERT_TRUE(run_until([&] { return far->received == "half"; }));
  flow.reset();
  ASSERT_TRUE(run_until([&] { return far->over.has_value() && local->is_over(); }));
  EXPECT_TRUE(local->is_reset);
  EXPECT_EQ(done_count, 0u);
  EXPECT_EQ(opener->link.mux()->streams.count, 0u);
}

TEST_F(TcpFlowTest, DestroyedBeforeStartItResetsBothEnds) {
  make();
  flow.reset();
  ASSERT_TRUE(run_until([&] { return far->over.has_value() && local->is_over(); }));
  EXPECT_EQ(done_count, 0u);
}

TEST_F(TcpFlowTest, ItsLastBytesReachASlowReaderAfterDone) {
  // Done means the kernel has everything; the owner destroys the flow at once, and the
  // socket must end with FIN, not RST, however late the browser reads.
  start();
  const std::string answer = pattern(100'000);
  local->finish();
  far->send(answer);
  far->finish();
  ASSERT_TRUE(run_until([&] { return done_count == 1; }));
  ASSERT_FALSE(run_until([] { return false; }, 20'000));
  expect_clean_end();
  EXPECT_TRUE(local->received == answer);
}

}  // namespace
}  // namespace tmesh::session
