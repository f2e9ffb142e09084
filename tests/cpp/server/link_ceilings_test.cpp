// What the server bounds and writes down about whole links: how many a client's token may
// have, and the end of one that keeps breaking its windows (requirements E5, G3).
#include <cstring>
#include <list>
#include <vector>

#include "cpp/storage/audit_repository.hpp"
#include "tests/cpp/server/ws_handler_fixture.hpp"

namespace tmesh::server {
namespace {

using test::kSwitched;
using test::Peer;

struct LinkCeilings : test::WsHandlerFixture {
  std::vector<storage::AuditRecord> audit_rows(const std::string& action) {
    auto all = storage::AuditRepository(*rows.db).newest(100);
    if (all) std::erase_if(*all, [&](const storage::AuditRecord& row) { return row.action != action; });
    return all ? std::move(*all) : std::vector<storage::AuditRecord>{};
  }
  // The peer sends more on an open stream than it was granted, count times over.
  void violate(Peer& client, std::size_t count);
};

// --- ceilings on links -------------------------------------------------------------------

TEST_F(LinkCeilings, LinksOfOneClientTokenBeyondTheCeilingGet503BeforeThe101) {
  start(2);
  std::list<net::RawClient> held;
  for (int i = 0; i < 2; i++) {
    held.push_back(request(client_text()));
    EXPECT_EQ(status_of(held.back()), kSwitched);
  }
  net::RawClient third = request(client_text());
  EXPECT_EQ(status_of(third), "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(handler->capacity_refused_count(), 1u);
  ASSERT_TRUE(run_until([&] { return handler->links_count() == 2; }));
  net::RawClient agent = request(agent_text());
  EXPECT_EQ(status_of(agent), kSwitched) << "it is the token's ceiling, not the server's";
  held.pop_front();
  ASSERT_TRUE(run_until([&] { return handler->links_count() == 2; })) << "one client and the agent";
  net::RawClient next = request(client_text());
  EXPECT_EQ(status_of(next), kSwitched) << "a link that went gives its place back";
}

// The place is taken with the answer about the token, not when the link stands.
TEST_F(LinkCeilings, UpgradesUnderWayCountAsLinksOfTheirToken) {
  start(2);
  stop_database();
  std::list<net::RawClient> held;
  for (int i = 0; i < 5; i++) held.push_back(request(client_text()));
  ASSERT_TRUE(run_until([&] { return handler->upgrades_count() == 5; }));
  release_database();
  std::size_t switched = 0;
  for (auto& client : held) switched += status_of(client) == kSwitched;
  EXPECT_EQ(switched, 2u);
  EXPECT_EQ(handler->capacity_refused_count(), 3u);
}

// --- window violations (requirement E5) --------------------------------------------------

void LinkCeilings::violate(Peer& client, std::size_t count) {
  for (std::size_t i = 0; i < count; i++) {
    tmesh_open_stream open{};
    std::memcpy(open.agent_id, rows.home.id.data(), rows.home.id.size());
    std::strcpy(open.target_host, "secret.example.com");
    open.target_port = 443;
    tmesh_open_params params{&open, false, TMESH_WINDOW_INITIAL_BYTES};
    tmesh_status why{};
    tmesh_stream* raw = tmesh_mux_open(client.link.mux(), &params, &why);
    ASSERT_NE(raw, nullptr);
    test::PeerStream stream(raw, open);
    raw->send.credit_bytes = 1u << 20;  // what it was never granted
    ASSERT_TRUE(run_until([&] {
      if (!stream.over && !client.down) {
        const std::string block(32768, 'x');
        tmesh_stream_write(raw, block.data(), block.size());
      }
      return stream.over || client.down;
    }));
  }
}

TEST_F(LinkCeilings, AStormOfWindowViolationsEndsTheLinkAndIsAudited) {
  config.limits.window_violations_count = 3;
  start();
  Peer& agent = link(request(agent_text()), false);
  agent.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  agent.on_stream = [](test::PeerStream& s) { s.is_reading = false; };
  ASSERT_TRUE(run_until([&] { return agent.controls.size() == 1; }));
  Peer& client = link(request(client_text()), true);
  Peer& other = link(request(client_text()), true);
  violate(client, 2);
  EXPECT_FALSE(client.down) << "a violation costs its stream";
  violate(client, 1);
  ASSERT_TRUE(run_until([&] { return client.down.has_value(); }));
  EXPECT_FALSE(other.down || agent.down);
  ASSERT_TRUE(run_until([&] { return !audit_rows("link.window_violations").empty(); }));
  const auto noted = audit_rows("link.window_violations");
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].actor_user_id, rows.alice.id);
  EXPECT_EQ(noted[0].resource_type, "client_link");
  EXPECT_EQ(noted[0].resource_id.substr(0, 7), "client_");
  EXPECT_EQ(noted[0].details, "{}");
  for (const std::string* text : {&noted[0].resource_id, &noted[0].details}) {
    EXPECT_EQ(text->find("example.com"), std::string::npos);
    EXPECT_EQ(text->find("stok_"), std::string::npos);
  }
}

TEST_F(LinkCeilings, OtherEndsOfALinkAreNotAudited) {
  start();
  Peer& client = link(request(client_text()), true);
  client.link.close();
  ASSERT_TRUE(run_until([&] { return handler->links_count() == 0; }));
  EXPECT_EQ(handler->audit().waiting_count(), 0u);
  EXPECT_TRUE(audit_rows("link.window_violations").empty());
}

// Links must not be able to keep the database's thread busy.
TEST_F(LinkCeilings, TheAuditTrailIsBoundedAndDoesNotWaitForTheDatabase) {
  start();
  stop_database();
  AuditTrail trail(timers, *database);
  std::size_t noted = 0;
  for (int i = 0; i < 100; i++) noted += trail.note({"link.window_violations", "u", "client_link", "c"});
  EXPECT_EQ(noted, AuditTrail::kRowsMax);
  EXPECT_EQ(trail.dropped_count(), 100 - AuditTrail::kRowsMax);
  EXPECT_LE(trail.waiting_count(), AuditTrail::kWaitingMax);
  release_database();
  ASSERT_TRUE(run_until([&] { return audit_rows("link.window_violations").size() == AuditTrail::kRowsMax; }));
  timers.advance(LogGate::kWindow_us);
  EXPECT_TRUE(trail.note({"link.window_violations", "u", "client_link", "later"}));
  ASSERT_TRUE(
      run_until([&] { return audit_rows("link.window_violations").size() == AuditTrail::kRowsMax + 1; }));
  std::size_t told = 0;
  for (const auto& row : audit_rows("link.window_violations")) {
    if (row.resource_id == "later") told += row.details == R"({"not_written_before":90})";
  }
  EXPECT_EQ(told, 1u);
}

TEST_F(LinkCeilings, AnAuditRowThatCannotBeWrittenIsCountedAndTheNextTried) {
  start();
  test::run_sql(*rows.db, "ALTER TABLE audit_logs RENAME TO audit_gone");
  AuditTrail trail(timers, *database);
  for (int i = 0; i < 3; i++) EXPECT_TRUE(trail.note({"link.window_violations", "u", "client_link", "c"}));
  ASSERT_TRUE(run_until([&] { return trail.dropped_count() == 3; }));
  test::run_sql(*rows.db, "ALTER TABLE audit_gone RENAME TO audit_logs");
  EXPECT_TRUE(trail.note({"link.window_violations", "u", "client_link", "c"}));
  ASSERT_TRUE(run_until([&] { return audit_rows("link.window_violations").size() == 1; }));
  EXPECT_EQ(audit_rows("link.window_violations")[0].details, R"({"not_written_before":3})");
}

}  // namespace
}  // namespace tmesh::server
