// An Opening as an entry has it, through the real pools and links.
#pragma once

#include <memory>

#include "cpp/client/opening.hpp"
#include "tests/cpp/client/pools_fixture.hpp"

namespace tmesh::client {

inline constexpr uint64_t kPatience_us = 250'000;  // the round-trip times here are tiny

struct Validator final : OpenValidator {
  Ticket validate(const ValidationRequest& request, Delegate<void(bool)> on_answer) override {
    url = request.url;
    target = std::string(request.target_host) + ":" + std::to_string(request.target_port);
    login = std::string(request.username) + "/" + std::string(request.password);
    if (is_known) return {};
    done = on_answer;
    return Ticket(this, 0, [](void* self, uint64_t) { static_cast<Validator*>(self)->done = {}; });
  }
  void answer(bool is_allowed) { std::exchange(done, {})(is_allowed); }
  bool is_known = false;
  Delegate<void(bool)> done;
  std::string url, target, login;
};

class OpeningTest : public PoolsTest {
 protected:
  // Stands where an entry's local connection would.
  struct User {
    explicit User(OpeningTest& test)
        : opening(std::make_unique<Opening>(*test.pools, &test.validator, test.timers, test.settings,
                                            Opening::Done::bind<&User::on_done>(this))) {}
    ~User() {
      if (stream != nullptr) tmesh_stream_release(stream);
    }
    void start(std::string_view early = {}) {
      OpenRequest request;
      request.host = "target";
      request.port = 443;
      if (!early.empty()) send(early);
      opening->start(request, {"user", "secret"});
    }
    std::size_t send(std::string_view text) {
      return opening->send_early({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    }
    void on_done(const tmesh_open_result& r) {
      EXPECT_FALSE(result.has_value()) << "told twice";
      result = r;
      if (takes && r.accepted) take();
      if (goes) opening.reset();
    }
    void take() {
      stream = opening->take();
      tmesh_stream_attach(stream, this, [](void* self, tmesh_stream* s, unsigned bits) {
        auto* const user = static_cast<User*>(self);
        user->events |= bits;
        if ((bits & TMESH_STREAM_EV_OVER) == 0) return;
        tmesh_stream_release(s);
        user->stream = nullptr;
      });
    }
    bool is(tmesh_open_stage stage, tmesh_open_code code) const {
      return result && result->stage == stage && result->code == code;
    }

    std::unique_ptr<Opening> opening;
    std::optional<tmesh_open_result> result;
    tmesh_stream* stream = nullptr;
    unsigned events = 0;
    bool takes = true;
    bool goes = false;
  };

  // Switches early data on, as our own server does.
  void acknowledge(std::size_t n) {
    ASSERT_TRUE(run_until([&] { return server.peer(n).controls.size() == 1; }));
    tmesh_client_metadata_ack ack{};
    ack.is_accepted = true;
    ack.capabilities = ~0u;
    std::string text(TMESH_METADATA_MAX_BYTES, '\0');
    std::size_t len = 0;
    ASSERT_TRUE(tmesh_is_ok(tmesh_client_metadata_ack_encode(&ack, text.data(), text.size(), &len)));
    server.peer(n).control(TMESH_FRAME_CLIENT_METADATA_ACK, {text.data(), len});
    // The acceptor's side of it.
    server.peer(n).link.mux()->config.has_early_data = true;
    settle();
  }
  // Only for the link that answers.
  PeerStream& far(std::size_t n = 0) { return server.peer(n).streams.back(); }
  void arrive(std::size_t count, std::size_t n = 0) {
    ASSERT_TRUE(run_until([&] { return server.peer(n).streams.size() == count; }));
  }
  // Of two, the one that got the only open.
  std::size_t first_peer() {
    EXPECT_TRUE(
        run_until([&] { return server.peer(0).streams.size() + server.peer(1).streams.size() == 1; }));
    return server.peer(0).streams.empty() ? 1 : 0;
  }
  // Its open goes to the silent link (up_raw_and_good) and is hedged; the second try has arrived.
  void race(User& user) {
    user.start();
    ASSERT_EQ(raw->live_count, 1u);
    settle();
    timers.advance(kPatience_us);
    arrive(2, 1);
    EXPECT_EQ(pools->stats().hedges_count, 1u);
    EXPECT_FALSE(user.result.has_value());
  }
  void expect_counts(uint64_t won, uint64_t lost) {
    EXPECT_EQ(pools->stats().hedges_won_count, won);
    EXPECT_EQ(pools->stats().hedges_lost_count, lost);
  }
  // Of the open under way on the raw link: the stream that kept it company was 1.
  static constexpr uint32_t kRawId = 2;

  Validator validator;
  OpeningSettings settings{"web", "home", "tcp", "", 8'000'000, 2'000'000, false};
};

}  // namespace tmesh::client
