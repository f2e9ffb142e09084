// Session pools over real links to a server that is the test's, on a clock that jumps.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/proto/metadata.h"
#include "cpp/client/session_pools.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::client {

using test::FakeServer;
using test::PeerStream;

constexpr uint64_t kEvaluation_us = 10'000'000;  // the default

// Connects to one port of this machine, as often at once as it is asked.
class PoolDialer final : public Dialer {
 public:
  PoolDialer(net::Loop& loop, uint16_t port) : loop_(loop), port_(port) {}

  Result<Ticket> dial(const DialRequest&, Delegate<void(DialResult)> done) override {
    const uint64_t id = ++last_id_;
    Job& job = jobs_.try_emplace(id, Job{*this, id, done, {}}).first->second;
    job.later = loop_.after(0, Delegate<void()>::bind<&Job::deliver>(&job));
    return Ticket(this, id, [](void* self, uint64_t n) { static_cast<PoolDialer*>(self)->jobs_.erase(n); });
  }
  uint64_t count() const { return last_id_; }

 private:
  struct Job {
    PoolDialer& dialer;
    const uint64_t id;
    const Delegate<void(DialResult)> done;
    Ticket later;
    void deliver() {
      later.release();
      DialResult out;
      net::RawClient raw(dialer.port_, ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (raw.is_connected()) {
        out.fd = raw.release();
      } else {
        out.status = tmesh_err_stream(TMESH_E_REFUSED);
      }
      const Delegate<void(DialResult)> tell = done;
      dialer.jobs_.erase(id);
      tell(out);
    }
  };

  net::Loop& loop_;
  const uint16_t port_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Job> jobs_;
};

inline std::string pong(uint64_t ping_id) {
  std::string id(8, '\0');
  id.back() = static_cast<char>(ping_id);
  return test::raw_frame(TMESH_FRAME_PONG, id);
}
inline std::string result_frame(const tmesh_open_result& result, uint32_t stream_id) {
  char text[TMESH_OPEN_RESULT_MAX_BYTES];
  std::size_t len = 0;
  EXPECT_TRUE(tmesh_is_ok(tmesh_open_result_encode(&result, text, sizeof text, &len)));
  return test::raw_frame(TMESH_FRAME_OPEN_RESULT, {text, len}, stream_id);
}

class PoolsTest : public net::LoopTest {
 protected:
  PoolsTest() : server(loop()), dialer(loop(), server.port()) {
    identity.endpoint.url = {false, "localhost", server.port(), "/ws/client"};
    identity.endpoint.token = &token;
    identity.instance_id = "client-0123456789abcdef0123456789abcdef";
    config.connections.evaluation_interval_us = 10'000'000;
    config.connections.cooldown_us = 30'000'000;
  }
  ~PoolsTest() override {
    for (tmesh_stream* stream : streams_) tmesh_stream_release(stream);
  }
  // A pool for each of these agents, with so many links.
  void make(uint64_t min_count = 1, uint64_t max_count = 1, std::set<std::string> agents = {"home"}) {
    config.connections.min_count = min_count;
    config.connections.max_count = max_count;
    pools.emplace(loop(), timers, dialer, identity);
    pools->use_agents(agents);
  }
  // ... and all of them are up, with links that answer by themselves.
  void up(uint64_t min_count = 1, uint64_t max_count = 1, std::set<std::string> agents = {"home"}) {
    const std::size_t before = server.count();
    const std::size_t links = min_count * agents.size();
    make(min_count, max_count, std::move(agents));
    pools->start();
    for (std::size_t n = before; n < before + links; n++) answer(n);
  }
  // Two links that are ready and hardly used, one more than there must be.
  void two_of_which_one_may_go() {
    config.connections.low_watermark_count = 2;
    up(1, 2);
    config.connections.min_count = 2;
    pools->use_settings(config.connections);
    answer(1);
    config.connections.min_count = 1;
    pools->use_settings(config.connections);
  }
  // The n-th request from 0 arrives and becomes a link; the client has its session.
  void answer(std::size_t n, tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_METADATA) {
    const std::size_t before = ready_count();
    ASSERT_TRUE(run_until([&] { return server.has_request(n); })) << "request " << n;
    server.peer(n).upgrade(subprotocol);
    ASSERT_TRUE(run_until([&] { return ready_count() == before + 1; }));
  }
  // The same, but the far end stays bytes in the test's hands: it is silent when the test is.
  void answer_raw(std::size_t n) {
    const std::size_t before = ready_count();
    ASSERT_TRUE(run_until([&] { return server.has_request(n); })) << "request " << n;
    auto& peer = server.peer(n);
    peer.reply(peer.switching(tmesh_subprotocol_name(TMESH_SUBPROTOCOL_FLOW_CONTROL)));
    ASSERT_TRUE(run_until([&] { return ready_count() == before + 1; }));
  }
  // Its first PING is answered: the round-trip time is known.
  void measure_raw(std::size_t n) {
    const std::size_t before = measured_count();
    const std::size_t request = server.peer(n).bytes.find("\r\n\r\n") + 4;
    ASSERT_TRUE(run_until([&] { return server.peer(n).bytes.size() > request; })) << "a PING";
    server.peer(n).reply(pong(1));
    ASSERT_TRUE(run_until([&] { return measured_count() == before + 1; }));
  }
  // One agent, a raw link 0 that is measured and a link 1 that answers, both ready.
  void up_raw_and_good() {
    make(2, 2);
    pools->start();
    ASSERT_TRUE(run_until([&] { return server.has_request(0) && server.has_request(1); }));
    answer_raw(0);
    measure_raw(0);
    answer(1);
    ASSERT_TRUE(run_until([&] { return measured_count() == 2; }));
    // One stream stays on the link that answers, so that the next one goes to the raw one.
    tmesh_stream* const a = open();
    tmesh_stream* const b = open();
    ASSERT_TRUE(run_until([&] { return server.peer(1).streams.size() == 1; }));
    server.peer(1).streams.front().answer(tmesh_open_accept());
    ASSERT_TRUE(run_until([&] { return a->state == TMESH_STREAM_OPEN || b->state == TMESH_STREAM_OPEN; }));
    tmesh_stream* const on_raw = a->state == TMESH_STREAM_OPEN ? b : a;
    raw = on_raw->mux;
    good = (on_raw == a ? b : a)->mux;
    release(on_raw);
    settle();
  }
  std::vector<session::LinkReport> links() {
    session::StatusReport report;
    pools->report(report);
    return report.links;
  }
  std::size_t ready_count() {
    std::size_t count = 0;
    for (const auto& link : links()) count += link.slot.state == session::SlotStatus::State::up;
    return count;
  }
  std::size_t measured_count() {
    std::size_t count = 0;
    for (const auto& link : links()) count += link.slot.rtt_us != 0;
    return count;
  }

  static OpenRequest request_for(std::string_view agent_id) {
    OpenRequest out;
    out.agent_id = agent_id;
    out.host = "target";
    out.port = 443;
    return out;
  }
  // Held until it is over or the test ends.
  tmesh_stream* open(std::string_view agent_id = "home") {
    auto opened = pools->open(request_for(agent_id), true);
    EXPECT_TRUE(opened.has_value());
    if (!opened) return nullptr;
    return hold(opened->stream);
  }
  tmesh_stream* hold(tmesh_stream* stream) {
    streams_.push_back(stream);
    tmesh_stream_attach(stream, this, [](void* self, tmesh_stream* s, unsigned events) {
      if ((events & TMESH_STREAM_EV_OVER) != 0) static_cast<PoolsTest*>(self)->release(s);
    });
    return stream;
  }
  void release(tmesh_stream* stream) {
    std::erase(streams_, stream);
    tmesh_stream_release(stream);
  }
  tmesh_code refusal(std::string_view agent_id = "home", const tmesh_mux* not_on = nullptr) {
    auto opened = pools->open(request_for(agent_id), true, not_on);
    if (!opened) return opened.error().code;
    tmesh_stream_release(opened->stream);
    return TMESH_OK;
  }
  // Nothing happens that the loop could bring about.
  void settle() {
    ASSERT_FALSE(run_until([] { return false; }, 20'000));
  }

  FakeServer server;
  PoolDialer dialer;
  test::FakeTimers timers;
  Secret token{"t"};
  config::ClientConfig config;
  ClientIdentity identity{config, {}, "", 0};
  std::optional<SessionPools> pools;
  tmesh_mux* raw = nullptr;  // of up_raw_and_good()
  tmesh_mux* good = nullptr;

 private:
  std::vector<tmesh_stream*> streams_;
};

}  // namespace tmesh::client
