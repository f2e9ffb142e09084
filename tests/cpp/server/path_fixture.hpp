// Clients, a ClientStreamService and agents over muxes in memory and a fake clock. The
// client's and the agent's ends are steered by hand.
#pragma once

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/proto/capability.h"
#include "cpp/server/client_stream_service.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/server/mux_pair.hpp"

namespace tmesh::test {

class FakeAuthorizer final : public server::StreamAuthorizer {
 public:
  using Done = Delegate<void(Result<server::Grant>)>;

  std::optional<Result<server::Grant>> lookup(const server::StreamRequest& request) override {
    if (!is_known) return std::nullopt;
    if (error) return fail(*error, "refused by the test");
    return grant_of(request);
  }
  Result<Ticket> authorize(server::StreamRequest request, Done done) override {
    if (sync_error) return fail(*sync_error, "refused by the test");
    requests.push_back(request);
    const uint64_t id = ++last_id_;
    waiting_.emplace(id, std::pair(std::move(request), done));
    return Ticket(this, id, [](void* self, uint64_t job) {
      auto& a = *static_cast<FakeAuthorizer*>(self);
      a.cancelled_count += a.waiting_.erase(job);
    });
  }
  std::size_t waiting_count() const { return waiting_.size(); }
  // Ends the oldest query; false if there is none.
  bool settle() {
    if (waiting_.empty()) return false;
    auto [request, done] = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    if (error) {
      done(fail(*error, "refused by the test"));
      return true;
    }
    if (request.token_id == denied_token) {
      done(fail(TMESH_E_POLICY, "refused by the test"));
      return true;
    }
    done(grant_of(request));
    return true;
  }

  bool is_slow = false;   // true: the test calls settle()
  bool is_known = false;  // true: lookup() has the answer
  std::optional<tmesh_code> sync_error;
  std::optional<tmesh_code> error;
  std::string denied_token;
  uint64_t generation = 0;          // of the grants
  std::optional<std::string> host;  // in the grant, instead of the one asked for
  std::vector<server::StreamRequest> requests;
  std::size_t cancelled_count = 0;

 private:
  server::Grant grant_of(const server::StreamRequest& request) const {
    server::Grant grant;
    grant.token_id = request.token_id;
    grant.agent_id = request.agent_id;
    grant.target = {request.protocol, host ? *host : request.host, std::nullopt, request.port};
    grant.generation = generation;
    return grant;
  }

  uint64_t last_id_ = 0;
  std::map<uint64_t, std::pair<server::StreamRequest, Done>> waiting_;
};

class FakeAgent final : public server::RegisteredLink {
 public:
  FakeAgent(tmesh_pool* pool, const char* id, const std::string& connection, uint32_t streams_max)
      : pair(pool, streams_max) {
    agent_id = id;
    connection_id = connection;
    epoch = 1;
    pair.acceptor.open = MuxEnd::OnOpen::bind<&FakeAgent::on_open>(this);
  }
  bool takes_opens() const override { return takes && pair.opener.mux.failed.code == TMESH_OK; }
  std::size_t streams_count() const override { return pair.opener.mux.live_count; }
  uint64_t last_heard_us() const override { return heard_us; }
  void note_open(bool is_good) override { notes += is_good ? '+' : '-'; }
  uint32_t capabilities() const override { return caps; }
  tmesh_mux* mux() override { return &pair.opener.mux; }
  void on_replaced() override {}
  PlainStream& last() { return *streams.back(); }

  MuxPair pair;
  bool takes = true;
  uint32_t caps = TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL;
  uint64_t heard_us = 0;
  std::string notes;                        // how its opens ended
  std::optional<tmesh_open_result> answer;  // to every open at once
  std::vector<tmesh_open_stream> opens;
  std::list<std::unique_ptr<PlainStream>> streams;

 private:
  void on_open(tmesh_stream* stream, const tmesh_open_stream& open) {
    opens.push_back(open);
    streams.push_back(std::make_unique<PlainStream>());
    streams.back()->attach(stream);
    if (answer) streams.back()->answer(*answer);
  }
};

// A client's link: the opener's end is the client.
struct FakeClient {
  FakeClient(tmesh_pool* pool, std::string token_id, uint64_t id, uint32_t streams_max)
      : pair(pool, streams_max), token(std::move(token_id)), link_id(id) {
    pair.acceptor.open = MuxEnd::OnOpen::bind<&FakeClient::on_open>(this);
  }
  void on_open(tmesh_stream* stream, const tmesh_open_stream& open) {
    (*service)->open(token, link_id, stream, open);
  }
  tmesh_mux* mux() { return &pair.opener.mux; }

  MuxPair pair;
  std::string token;
  uint64_t link_id;
  std::optional<server::ClientStreamService>* service = nullptr;
};

struct PathTest : testing::Test {
  struct Pool {
    Pool() { tmesh_pool_init(&pool, 512u << 20, 4u << 20); }
    ~Pool() {
      EXPECT_EQ(pool.live_count, 0u) << "a queue still holds blocks";
      tmesh_pool_close(&pool);
    }
    tmesh_pool pool;
  };

  Pool pool;
  FakeTimers timers;
  FakeAuthorizer authorizer;
  server::AgentRegistry registry{64};
  config::ServerStreamSettings settings;
  std::list<FakeClient> clients;
  std::list<FakeAgent> agents;
  std::optional<server::ClientStreamService> service;
  uint32_t streams_max = 4096;

  ~PathTest() override {
    // The service lets go of the streams before their muxes close.
    service.reset();
    EXPECT_EQ(timers.count(), 0u);
  }
  void start() { service.emplace(timers, authorizer, registry, settings); }
  FakeClient& add_client(const std::string& token = "token") {
    clients.emplace_back(&pool.pool, token, clients.size() + 1, streams_max);
    clients.back().service = &service;
    return clients.back();
  }
  FakeAgent& add_agent(const char* id = "home", uint32_t max = 4096) {
    agents.emplace_back(&pool.pool, id, "c" + std::to_string(agents.size()), max);
    EXPECT_EQ(registry.add(agents.back()), server::AgentRegistry::Registration::registered);
    return agents.back();
  }
  // Until nothing moves any more at this time.
  void pump() {
    for (bool moved = true; moved;) {
      moved = false;
      const std::size_t started = service ? service->executor().stats().started_count : 0;
      timers.advance(0);
      if (service) moved |= service->executor().stats().started_count != started;
      for (FakeClient& client : clients) moved |= client.pair.step();
      for (FakeAgent& agent : agents) moved |= agent.pair.step();
      while (!authorizer.is_slow && authorizer.settle()) moved = true;
    }
  }
  void expect_idle() {
    EXPECT_EQ(service->flows_count(), 0u);
    EXPECT_EQ(service->relays_count(), 0u);
    EXPECT_EQ(service->executor().running_count(), 0u);
    EXPECT_EQ(service->executor().waiting_count(), 0u);
    EXPECT_EQ(service->executor().links_count(), 0u);
    EXPECT_EQ(service->slots().tokens_count(), 0u);
    EXPECT_EQ(service->slots().agents_count(), 0u);
  }
};

// accepted, stage, code, retryable.
inline void expect_result(const PlainStream& stream, unsigned stage, unsigned code, bool retryable) {
  ASSERT_TRUE(stream.has_result);
  EXPECT_FALSE(stream.result.accepted);
  EXPECT_STREQ(tmesh_open_stage_name(stream.result.stage), tmesh_open_stage_name(stage));
  EXPECT_STREQ(tmesh_open_code_name(stream.result.code), tmesh_open_code_name(code));
  EXPECT_EQ(stream.result.retryable, retryable);
}

// With one client.
struct OneClientTest : PathTest {
  OneClientTest() : client(add_client()) {}
  // Opens one stream and lets everything happen.
  void open(PlainStream& stream, bool is_strict = true, const tmesh_open_stream* request = nullptr) {
    const tmesh_open_stream usual = open_request("db.example.com", 5432);
    ASSERT_TRUE(stream.open(client.mux(), request != nullptr ? *request : usual, is_strict));
    pump();
  }
  FakeClient& client;
};

}  // namespace tmesh::test
