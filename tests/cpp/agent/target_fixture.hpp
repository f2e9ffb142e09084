// TargetStreams on a mux in memory; the test plays their dialer and their targets.
#pragma once

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpp/agent/target_stream.hpp"
#include "cpp/net/listener.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/net/loop_fixture.hpp"
#include "tests/cpp/server/mux_pair.hpp"

namespace tmesh::agent {

using test::FakeDialer;
using test::PlainStream;

struct TargetStreamTest : net::LoopTest {
  TargetStreamTest() {
    listener = std::move(
        *net::Listener::open(loop(), "127.0.0.1", 0,
                             {Delegate<void(int, const net::Peer&)>::bind<&TargetStreamTest::on_accept>(this),
                              Delegate<void(tmesh_status)>::free<&TargetStreamTest::on_broken>(nullptr)}));
    pair.acceptor.open = test::MuxEnd::OnOpen::bind<&TargetStreamTest::on_open>(this);
  }
  ~TargetStreamTest() override {
    targets.clear();
    for (auto& socket : sockets) socket->close();
  }
  static void on_broken(void*, tmesh_status) {}
  void on_accept(int fd, const net::Peer&) { accepted.push_back(fd); }
  void on_open(tmesh_stream* stream, const tmesh_open_stream& open) {
    targets.push_back(std::make_unique<TargetStream>(
        context, stream, Ticket(), TargetStream::Over::bind<&TargetStreamTest::on_over>(this)));
    targets.back()->place = std::prev(targets.end());
    targets.back()->start(*executor, open);
  }
  void on_over(TargetStream& stream) {
    overs++;
    targets.erase(stream.place);
  }
  void pump() {
    for (bool moved = true; moved;) {
      timers.advance(0);
      moved = pair.step();
    }
  }
  template <class Condition>
  bool until(Condition condition) {
    return run_until([&] {
      pump();
      return condition();
    });
  }
  // The dial to this host succeeds; gives the target's end of it.
  net::RawClient& connect(const char* host) {
    net::RawClient far(listener.port());
    accepted.clear();
    EXPECT_TRUE(run_until([&] { return accepted.size() == 1; }));
    // The accepted end plays the dialled socket, the other one the target.
    sockets.push_back(std::make_unique<net::RawClient>(std::move(far)));
    dialer.end(host, FakeDialer::connected(accepted[0]));
    return *sockets.back();
  }
  tmesh_mux* mux() { return &pair.opener.mux; }

  net::Listener listener;
  std::vector<int> accepted;
  std::vector<std::unique_ptr<net::RawClient>> sockets;
  test::FakeTimers timers;
  FakeDialer dialer;
  Policy policy;
  LoadSamples samples;
  config::AgentStreamSettings stream_settings;
  uint64_t datagrams_dropped_count = 0;
  TargetContext context{loop(), timers, samples, datagrams_dropped_count, stream_settings};
  DialSettings settings{2, 2, 5'000'000, 8'000'000};
  test::MuxPair pair{loop().pool(), 1024};
  std::optional<DialExecutor> executor{std::in_place, timers, dialer, policy, settings};
  std::list<std::unique_ptr<TargetStream>> targets;
  int overs = 0;
};

inline void expect_refused(const PlainStream& s, unsigned stage, unsigned code) {
  ASSERT_TRUE(s.has_result);
  EXPECT_FALSE(s.result.accepted);
  EXPECT_STREQ(tmesh_open_stage_name(s.result.stage), tmesh_open_stage_name(stage));
  EXPECT_STREQ(tmesh_open_code_name(s.result.code), tmesh_open_code_name(code));
}

}  // namespace tmesh::agent
