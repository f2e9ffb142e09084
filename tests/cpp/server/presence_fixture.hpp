// Presence over a real database, with a clock that jumps and writes that a test holds or
// fails.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <utility>

#include "cpp/server/agent_presence.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/metadata_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::test {

struct PresenceLink final : server::RegisteredLink {
  bool takes_opens() const override { return true; }
  std::size_t streams_count() const override { return streams; }
  uint64_t last_heard_us() const override { return 0; }
  bool is_suspect() const override { return suspect; }
  uint32_t health_percent() const override { return health; }
  uint32_t capabilities() const override { return 0; }
  tmesh_mux* mux() override { return nullptr; }
  void on_replaced() override {}

  std::size_t streams = 0;
  bool suspect = false;
  uint32_t health = 100;
};

// Runs batches when the test says so; otherwise at once after the call that gave them.
struct TestWriter final : server::PresenceWriter {
  TestWriter(storage::Db& database, FakeClock& clock) : db(database), time(clock) {}

  Result<Ticket> write_presence(server::PresenceBatch batch,
                                Delegate<void(server::PresenceOutcome)> done) override {
    if (refuses) return fail(TMESH_E_LIMIT, "refused by the test");
    waiting.emplace(std::move(batch), done);
    return Ticket(this, 0, [](void* self, uint64_t) { static_cast<TestWriter*>(self)->waiting.reset(); });
  }
  // One write; false if there was none.
  bool step() {
    if (!waiting) return false;
    auto [batch, done] = std::move(*waiting);
    waiting.reset();
    server::PresenceOutcome outcome;
    const Result<void> away = fail(TMESH_E_IO, "the database is away");
    if (is_away) {
      outcome.node = outcome.leases = outcome.metadata = outcome.sweep = away;
    } else {
      server::PresenceBatch part = batch;
      if (fails_leases) {
        part.leases.clear();
        part.releases.clear();
      }
      if (fails_metadata) {
        part.departures.clear();
        part.reports.clear();
        part.touches.clear();
      }
      outcome = server::write_presence(db, part, time.now_us);
      if (fails_leases) outcome.leases = away;
      if (fails_metadata) outcome.metadata = away;
    }
    written.push_back(std::move(batch));
    done(std::move(outcome));
    return true;
  }

  storage::Db& db;
  FakeClock& time;
  bool refuses = false;
  bool is_away = false;
  bool fails_leases = false;
  bool fails_metadata = false;
  std::optional<std::pair<server::PresenceBatch, Delegate<void(server::PresenceOutcome)>>> waiting;
  std::vector<server::PresenceBatch> written;
};

struct PresenceFixture : ServiceFixture {
  void SetUp() override {
    ServiceFixture::SetUp();
    begin();
  }
  // Another life of the server.
  void begin(const std::string& node_id = "server-a") {
    presence.reset();
    writer.waiting.reset();
    auto node = server::announce_node(*db, node_id, "host:443", time.now_us);
    ASSERT_TRUE(node) << node.error().text;
    presence.emplace(timers, writer, *node,
                     Delegate<void(server::NodeStanding)>::bind<&PresenceFixture::on_standing>(this));
    presence->start();
  }
  void on_standing(server::NodeStanding now) { standings.push_back(now); }

  void settle() {
    int rounds = 0;
    while (writer.step()) ASSERT_LT(++rounds, 1000);
  }
  void tick(int count = 1) {
    for (int i = 0; i < count; ++i) {
      time.now_us += static_cast<int64_t>(server::AgentPresence::kTick_us);
      timers.advance(server::AgentPresence::kTick_us);
      settle();
    }
  }
  PresenceLink& link(const std::string& connection, int64_t epoch = 1) {
    PresenceLink& made = links.emplace_back();
    made.agent_id = home.id;
    made.connection_id = connection;
    made.epoch = epoch;
    return made;
  }
  server::AgentReport report(const std::string& instance = "instance-1", int64_t epoch = 1,
                             int64_t revision = 1, const std::string& items = R"([{"name":"a"}])") {
    server::AgentReport said;
    said.row.agent_id = home.id;
    said.row.instance_id = instance;
    said.row.node_id = "node-1";
    said.row.epoch = epoch;
    said.row.revision = revision;
    said.row.metadata = R"({"items":)" + items + R"(,"errors":[],"capabilities":[]})";
    said.row.reported_at = storage::format_timestamp(time.now_us);
    said.is_unreported = items == "[]";
    return said;
  }
  PresenceLink& up(const std::string& connection, int64_t epoch = 1) {
    PresenceLink& made = link(connection, epoch);
    presence->add(made, report("instance-1", epoch));
    settle();
    return made;
  }

  std::vector<storage::LeaseRecord> leases() { return *storage::LeaseRepository(*db).of_agent(home.id); }
  std::vector<storage::MetadataRecord> reports() {
    return *storage::MetadataRepository(*db).of_agent(home.id);
  }
  bool is_online() {
    const std::string ids[] = {home.id};
    const auto online = storage::LeaseRepository(*db).online(ids, storage::format_timestamp(time.now_us));
    return online && online->size() == 1;
  }

  FakeTimers timers;
  TestWriter writer{*db, time};
  std::list<PresenceLink> links;
  std::vector<server::NodeStanding> standings;
  std::optional<server::AgentPresence> presence;
};

}  // namespace tmesh::test
