#include "cpp/net/tcp.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "core/base/chunkq.h"
#include "cpp/net/listener.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::net {
namespace {

struct Recorder : TcpHandler {
  void on_readable() override {
    char buffer[4096];
    std::size_t n = tmesh_chunkq_read(tcp.in(), buffer, sizeof buffer);
    received.append(buffer, n);
    tcp.read(TMESH_BLOCK_BYTES);
    if (destroys) tcp = {};
  }
  void on_eof() override { is_eof = true; }
  void on_written(std::size_t n, bool is_all) override {
    written += n;
    is_all_written = is_all;
  }
  void on_broken(tmesh_status why) override { broken = why; }

  Tcp tcp;
  std::string received;
  std::optional<tmesh_status> broken;
  std::size_t written = 0;
  bool is_all_written = false;
  bool is_eof = false;
  bool destroys = false;
};

class TcpTest : public LoopTest {
 protected:
  TcpTest() {
    auto made = Listener::open(loop(), "127.0.0.1", 0,
                               {Delegate<void(int, const Peer&)>::bind<&TcpTest::on_accept>(this),
                                Delegate<void(tmesh_status)>::bind<&TcpTest::on_broken>(this)});
    listener = std::move(*made);
    peer.emplace(listener.port());
    EXPECT_TRUE(run_until([&] { return static_cast<bool>(recorder.tcp); }));
  }
  void on_accept(int fd, const Peer&) {
    recorder.tcp = std::move(*Tcp::open(loop(), fd, recorder));
    recorder.tcp.read(TMESH_BLOCK_BYTES);
  }
  void on_broken(tmesh_status) {}
  static std::span<const uint8_t> bytes(std::string_view text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }

  Recorder recorder;
  Listener listener;
  std::optional<RawClient> peer;
};

TEST_F(TcpTest, ReadsWritesAndHalfCloses) {
  peer->send("question");
  peer->finish();
  ASSERT_TRUE(run_until([&] { return recorder.is_eof; }));
  EXPECT_EQ(recorder.received, "question");
  ASSERT_TRUE(tmesh_is_ok(recorder.tcp.send(bytes("answer"))));
  recorder.tcp.finish();
  ASSERT_TRUE(run_until([&] { return peer->is_over() && recorder.is_all_written; }));
  EXPECT_EQ(peer->received, "answer");
  EXPECT_EQ(recorder.written, 6u);
}

TEST_F(TcpTest, AGracefulCloseStillDeliversWhatIsQueued) {
  ASSERT_TRUE(tmesh_is_ok(recorder.tcp.send(bytes("last words"))));
  recorder.tcp.close(true);
  ASSERT_TRUE(run_until([&] { return peer->is_over(); }));
  EXPECT_EQ(peer->received, "last words");
  EXPECT_FALSE(peer->is_reset);
}

TEST_F(TcpTest, DestroyingItResetsAndCallsNobody) {
  recorder.tcp = {};
  ASSERT_TRUE(run_until([&] { return peer->is_over(); }));
  EXPECT_TRUE(peer->is_reset);
  EXPECT_FALSE(recorder.broken.has_value());
}

TEST_F(TcpTest, MayBeDestroyedInsideItsCallback) {
  recorder.destroys = true;
  peer->send("x");
  ASSERT_TRUE(run_until([&] { return !recorder.tcp; }));
  EXPECT_EQ(recorder.received, "x");
}

TEST_F(TcpTest, AResetIsReported) {
  peer->reset();
  ASSERT_TRUE(run_until([&] { return recorder.broken.has_value(); }));
}

TEST_F(TcpTest, AnEndThatASpliceAbortedMayBeDestroyedLater) {
  tmesh_end end = recorder.tcp.end();
  end.ops->abort(end.impl);
  ASSERT_TRUE(run_until([&] { return peer->is_over(); }));
  ASSERT_FALSE(run_until([] { return false; }, 20'000));  // the handle is closed by now
  EXPECT_TRUE(static_cast<bool>(recorder.tcp));
  recorder.tcp = {};
}

}  // namespace
}  // namespace tmesh::net
