// Leases, reports and server nodes, on both engines.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/metadata_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/summary_repository.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::storage {
namespace {

constexpr const char* now = "2027-01-15T08:00:00Z";
constexpr const char* soon = "2027-01-15T08:00:30Z";
constexpr const char* later = "2027-01-15T09:00:00Z";
constexpr int64_t above_31_bits = (int64_t{1} << 31) + 5;
constexpr int64_t above_40_bits = (int64_t{1} << 40) + 7;
constexpr int64_t highest = std::numeric_limits<int64_t>::max();

LeaseRecord lease(const std::string& connection, int64_t connection_epoch = 1,
                  const std::string& server = "server-a") {
  return {"agent-home",     connection, "node-1", "instance-1", server, 1,
          connection_epoch, 0,          100,      now,          soon,   now};
}
MetadataRecord report(int64_t epoch, int64_t revision, const std::string& reported_at = now) {
  return {"agent-home", "instance-1", "node-1", epoch, revision, R"({"items":[]})",
          reported_at,  "",           soon,     false, ""};
}
MetadataKey key(int64_t epoch, int64_t revision) {
  return {"agent-home", "instance-1", epoch, revision};
}

class Presence : public test::EngineTest {
 protected:
  // What `work(Transaction&) -> Result<T>` gave; committed.
  template <class Work>
  auto write(Work work) {
    Result<Transaction> tx = Transaction::write(*db);
    EXPECT_TRUE(tx);
    auto done = work(*tx);
    EXPECT_TRUE(done) << (done ? "" : done.error().text);
    EXPECT_TRUE(tx->commit());
    if constexpr (!std::is_void_v<typename decltype(done)::value_type>) return *done;
  }
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    db = open();
    const Opened<SchemaReport> schema = migrate(*db, true);
    ASSERT_TRUE(schema) << schema.error().text;
    write([](Transaction& tx) {
      return UserRepository::create(tx, {"user-alice", "alice", "user", "h", false, "", now, now});
    });
    write([](Transaction& tx) {
      return AgentRepository::create(tx, {"agent-home", "home", "user-alice", "[]", true, now, now});
    });
  }
  void TearDown() override {
    db.reset();
    EngineTest::TearDown();
  }

  bool acquire(const LeaseRecord& row, const char* at = now) {
    return write([&](Transaction& tx) { return LeaseRepository::acquire(tx, row, at); });
  }
  bool upsert(const MetadataRecord& row, const char* at = now) {
    return write([&](Transaction& tx) { return MetadataRepository::upsert(tx, row, at); });
  }
  std::vector<LeaseRecord> leases() { return *LeaseRepository(*db).of_agent("agent-home"); }
  std::vector<MetadataRecord> reports() { return *MetadataRepository(*db).of_agent("agent-home"); }
  uint64_t revision() { return *read_revision(*db); }

  std::unique_ptr<Db> db;
};

TEST_P(Presence, ALeaseKeepsItsValuesAndEpochsOf64Bits) {
  for (const int64_t epoch : {int64_t{1}, above_31_bits, above_40_bits, highest}) {
    LeaseRecord row = lease("connection-" + std::to_string(epoch), epoch);
    row.epoch = epoch - (epoch == highest ? 1 : 0);
    row.active_streams = 7;
    row.health_score = 60;
    ASSERT_TRUE(acquire(row));
    const std::vector<LeaseRecord> found = leases();
    const auto same = std::ranges::find(found, row.connection_id, &LeaseRecord::connection_id);
    ASSERT_NE(same, found.end());
    EXPECT_EQ(same->connection_epoch, epoch);
    EXPECT_EQ(same->epoch, row.epoch);
    EXPECT_EQ(same->node_id, "node-1");
    EXPECT_EQ(same->instance_id, "instance-1");
    EXPECT_EQ(same->server_node_id, "server-a");
    EXPECT_EQ(same->active_streams, 7);
    EXPECT_EQ(same->health_score, 60);
    EXPECT_EQ(same->expires_at, soon);
    // The fence works with them: what is one lower, or cut to 32 bits, matches nothing (R16).
    const LeaseKey wrong[] = {{"agent-home", row.connection_id, epoch - 1}};
    const LeaseKey right[] = {{"agent-home", row.connection_id, epoch}};
    const auto renew = [&](const LeaseKey* which) {
      return write([&](Transaction& tx) {
        return LeaseRepository::renew(tx, std::span(which, 1), "server-a", later, now);
      });
    };
    EXPECT_EQ(renew(wrong), 0U);
    EXPECT_EQ(renew(right), 1U);
  }
}

TEST_P(Presence, ALeaseIsTakenOverByANewerEpochOnly) {
  ASSERT_TRUE(acquire(lease("c", above_40_bits)));
  EXPECT_FALSE(acquire(lease("c", above_40_bits, "server-b")));
  EXPECT_FALSE(acquire(lease("c", above_40_bits - 1, "server-b")));
  EXPECT_EQ(leases().front().server_node_id, "server-a");
  EXPECT_TRUE(acquire(lease("c", above_40_bits + 1, "server-b")));
  ASSERT_EQ(leases().size(), 1U);
  EXPECT_EQ(leases().front().server_node_id, "server-b");
  EXPECT_EQ(leases().front().connection_epoch, above_40_bits + 1);
}

TEST_P(Presence, ALeaseIsTakenOverFromAnExpiredHolderAndFromAnEarlierLifeOfTheServer) {
  ASSERT_TRUE(acquire(lease("c", 5)));
  EXPECT_TRUE(acquire(lease("c", 1), now)) << "the registry of the same server has decided";
  EXPECT_EQ(leases().front().connection_epoch, 1);
  LeaseRecord other = lease("c", 1, "server-b");
  EXPECT_FALSE(acquire(other, "2027-01-15T08:00:29Z"));
  EXPECT_TRUE(acquire(other, soon)) << "expired at that time";
}

TEST_P(Presence, OnlyTheHolderRenewsAndReleases) {
  ASSERT_TRUE(acquire(lease("c", 3)));
  const LeaseKey keys[] = {{"agent-home", "c", 3}};
  const auto renew = [&](const char* server) {
    return write([&](Transaction& tx) { return LeaseRepository::renew(tx, keys, server, later, now); });
  };
  EXPECT_EQ(renew("server-b"), 0U);
  EXPECT_EQ(leases().front().expires_at, soon);
  EXPECT_EQ(renew("server-a"), 1U);
  EXPECT_EQ(leases().front().expires_at, later);
  EXPECT_EQ(renew("server-a"), 1U) << "rows count that match, also when nothing changes";
  LeaseRecord loaded = lease("c", 3);
  loaded.active_streams = 12;
  EXPECT_TRUE(write([&](Transaction& tx) { return LeaseRepository::renew_with_load(tx, loaded, now); }));
  EXPECT_EQ(leases().front().active_streams, 12);
  loaded.connection_epoch = 2;
  EXPECT_FALSE(write([&](Transaction& tx) { return LeaseRepository::renew_with_load(tx, loaded, now); }));
  const auto release = [&](const LeaseKey& which, const char* server) {
    return write([&](Transaction& tx) { return LeaseRepository::release(tx, which, server); });
  };
  EXPECT_FALSE(release({"agent-home", "c", 2}, "server-a"));
  EXPECT_FALSE(release({"agent-home", "c", 3}, "server-b"));
  EXPECT_EQ(leases().size(), 1U);
  EXPECT_TRUE(release({"agent-home", "c", 3}, "server-a"));
  EXPECT_FALSE(release({"agent-home", "c", 3}, "server-a"));
  EXPECT_TRUE(leases().empty());
}

TEST_P(Presence, ManyLeasesAreRenewedByOneStatement) {
  std::vector<LeaseKey> keys;
  for (std::size_t i = 0; i < LeaseRepository::renew_max; ++i) {
    const std::string connection = "c" + std::to_string(i);
    ASSERT_TRUE(acquire(lease(connection, 1)));
    keys.push_back({"agent-home", connection, 1});
  }
  const auto renew = [&] {
    return write([&](Transaction& tx) { return LeaseRepository::renew(tx, keys, "server-a", later, now); });
  };
  EXPECT_EQ(renew(), keys.size());
  for (const LeaseRecord& row : leases()) EXPECT_EQ(row.expires_at, later);
  keys[3].connection_epoch = 9;
  EXPECT_EQ(renew(), keys.size() - 1);
  keys.push_back(keys.front());
  Result<Transaction> tx = Transaction::write(*db);
  EXPECT_EQ(LeaseRepository::renew(*tx, keys, "server-a", later, now).error().code, TMESH_E_TOO_LARGE);
}

// SQLite stores a text that reads as a number in such a column as the number; agents choose
// these ids.
TEST_P(Presence, IdsThatReadAsNumbersStayTexts) {
  const char* const ids[] = {"007", "7",  "1e5",  "100000", "12345678901234567890123456789012",
                             " 1",  "=x", "-1.50"};
  for (const char* id : ids) {
    LeaseRecord row = lease(id);
    row.node_id = row.instance_id = id;
    ASSERT_TRUE(acquire(row));
    MetadataRecord said = report(1, 1);
    said.instance_id = said.node_id = id;
    ASSERT_TRUE(upsert(said));
  }
  ASSERT_EQ(leases().size(), std::size(ids));
  ASSERT_EQ(reports().size(), std::size(ids));
  for (const char* id : ids) {
    const std::vector<LeaseRecord> found = leases();
    const auto row = std::ranges::find(found, id, &LeaseRecord::connection_id);
    ASSERT_NE(row, found.end()) << id;
    EXPECT_EQ(row->instance_id, id);
    EXPECT_EQ(row->node_id, id);
    const LeaseKey one{"agent-home", id, 1};
    EXPECT_TRUE(write([&](Transaction& tx) { return LeaseRepository::release(tx, one, "server-a"); })) << id;
    const MetadataKey said{"agent-home", id, 1, 1};
    EXPECT_TRUE(write([&](Transaction& tx) { return MetadataRepository::remove(tx, said, now); })) << id;
  }
  EXPECT_TRUE(leases().empty());
  EXPECT_TRUE(reports().empty());
}

TEST_P(Presence, OnlineAreThoseWithALeaseThatHasNotExpired_R15) {
  std::vector<std::string> ids;
  for (int i = 0; i < 9; ++i) {
    LeaseRecord row = lease("c");
    row.agent_id = "agent-" + std::to_string(i);
    ids.push_back(row.agent_id);
    if (i % 3 == 0) continue;  // has none
    row.expires_at = i % 3 == 1 ? soon : now;
    ASSERT_TRUE(acquire(row));
    row.connection_id = "second";
    ASSERT_TRUE(acquire(row));
  }
  const std::vector<std::string> expected = {"agent-1", "agent-4", "agent-7"};
  EXPECT_EQ(*LeaseRepository(*db).online(ids, now), expected);
  ids.resize(2);
  EXPECT_EQ(*LeaseRepository(*db).online(ids, now), std::vector<std::string>{"agent-1"});
  EXPECT_TRUE(LeaseRepository(*db).online({}, now)->empty());
  ids.assign(LeaseRepository::ids_max, "agent-1");
  EXPECT_EQ(LeaseRepository(*db).online(ids, now)->size(), 1U);
  ids.push_back("agent-2");
  EXPECT_EQ(LeaseRepository(*db).online(ids, now).error().code, TMESH_E_TOO_LARGE);
}

TEST_P(Presence, TotalsAreByServer) {
  LeaseRecord row = lease("c1");
  row.active_streams = 3;
  ASSERT_TRUE(acquire(row));
  row = lease("c2");
  row.active_streams = 4;
  row.health_score = 10;
  ASSERT_TRUE(acquire(row));
  row = lease("c3", 1, "server-b");
  row.expires_at = now;
  ASSERT_TRUE(acquire(row));
  const std::vector<std::string> ids = {"server-a", "server-b", "server-c"};
  const auto totals = *LeaseRepository(*db).totals(ids, now);
  ASSERT_EQ(totals.size(), 1U);
  EXPECT_EQ(totals[0].server_node_id, "server-a");
  EXPECT_EQ(totals[0].connections_count, 2);
  EXPECT_EQ(totals[0].streams_count, 7);
  EXPECT_EQ(totals[0].health_score, 10);
}

TEST_P(Presence, ExpiredLeasesAreRemovedInBoundedBatches) {
  for (int i = 0; i < 7; ++i) {
    LeaseRecord row = lease("c" + std::to_string(i));
    row.expires_at = i < 5 ? now : later;
    ASSERT_TRUE(acquire(row));
  }
  const auto remove = [&](int limit) {
    return write([&](Transaction& tx) { return LeaseRepository::remove_expired(tx, soon, limit); });
  };
  EXPECT_EQ(remove(3), 3U);
  EXPECT_EQ(remove(3), 2U);
  EXPECT_EQ(remove(3), 0U);
  EXPECT_EQ(leases().size(), 2U);
}

TEST_P(Presence, AnEarlierLifeOfAServerLeavesNothing) {
  for (int i = 0; i < 5; ++i) {
    LeaseRecord row = lease("c" + std::to_string(i), 1, i == 4 ? "server-b" : "server-a");
    row.epoch = i == 3 ? 3 : 2;
    ASSERT_TRUE(acquire(row));
  }
  const auto remove = [&] {
    return write([&](Transaction& tx) { return LeaseRepository::remove_of_node(tx, "server-a", 3, 2); });
  };
  EXPECT_EQ(remove(), 2U);
  EXPECT_EQ(remove(), 1U);
  EXPECT_EQ(remove(), 0U);
  EXPECT_EQ(leases().size(), 2U);
}

TEST_P(Presence, AReportKeepsItsValuesAndEpochsOf64Bits) {
  MetadataRecord said = report(above_40_bits, highest, "2027-01-15T07:59:59.123456789Z");
  said.metadata = R"({"items":[{"name":"größe"}],"errors":[],"capabilities":[]})";
  ASSERT_TRUE(upsert(said));
  ASSERT_EQ(reports().size(), 1U);
  const MetadataRecord row = reports().front();
  EXPECT_EQ(row.epoch, above_40_bits);
  EXPECT_EQ(row.revision, highest);
  EXPECT_EQ(row.node_id, "node-1");
  EXPECT_EQ(row.metadata, said.metadata);
  EXPECT_EQ(row.reported_at, said.reported_at);
  EXPECT_EQ(row.last_seen_at, now);
  EXPECT_EQ(row.expires_at, soon);
  EXPECT_FALSE(row.is_stale);
  EXPECT_EQ(row.updated_at, now);
}

TEST_P(Presence, AnOlderReportNeverReplacesANewerOne) {
  ASSERT_TRUE(upsert(report(above_31_bits, 5)));
  EXPECT_FALSE(upsert(report(above_31_bits, 4)));
  EXPECT_FALSE(upsert(report(above_31_bits - 1, 9)));
  EXPECT_EQ(reports().front().revision, 5);
  EXPECT_TRUE(upsert(report(above_31_bits, 5))) << "said again";
  EXPECT_TRUE(upsert(report(above_31_bits, 6)));
  EXPECT_TRUE(upsert(report(above_31_bits + 1, 1)));
  EXPECT_EQ(reports().front().epoch, above_31_bits + 1);
  // A process that starts again counts from one again; its report is later all the same,
  // within the second too.
  EXPECT_TRUE(upsert(report(1, 1, "2027-01-15T08:00:00.5Z")));
  EXPECT_FALSE(upsert(report(1, 0, now)));
}

TEST_P(Presence, AReportThatIsStaleOrExpiredIsReplacedByAny) {
  ASSERT_TRUE(upsert(report(7, 7)));
  EXPECT_TRUE(write([](Transaction& tx) { return MetadataRepository::mark_stale(tx, key(7, 7), now); }));
  EXPECT_TRUE(reports().front().is_stale);
  EXPECT_TRUE(upsert(report(1, 1)));
  EXPECT_FALSE(reports().front().is_stale);
  ASSERT_TRUE(upsert(report(7, 7)));
  EXPECT_FALSE(upsert(report(1, 1), "2027-01-15T08:00:29Z"));
  EXPECT_TRUE(upsert(report(1, 1), soon));
}

TEST_P(Presence, ATouchIsFencedAndRevives) {
  ASSERT_TRUE(upsert(report(2, above_40_bits)));
  EXPECT_TRUE(
      write([](Transaction& tx) { return MetadataRepository::mark_stale(tx, key(2, above_40_bits), now); }));
  const auto touch = [&](const MetadataKey& which) {
    return write(
        [&](Transaction& tx) { return MetadataRepository::touch(tx, std::span(&which, 1), later, soon); });
  };
  EXPECT_EQ(touch(key(2, above_40_bits - 1)), 0U);
  EXPECT_EQ(touch(key(1, above_40_bits)), 0U);
  EXPECT_TRUE(reports().front().is_stale);
  EXPECT_EQ(touch(key(2, above_40_bits)), 1U);
  EXPECT_EQ(touch(key(2, above_40_bits)), 1U);
  EXPECT_FALSE(reports().front().is_stale);
  EXPECT_EQ(reports().front().last_seen_at, soon);
  EXPECT_EQ(reports().front().expires_at, later);
}

TEST_P(Presence, AReportLeavesOnlyWithItsOwnEpochAndTheLastLease) {
  ASSERT_TRUE(upsert(report(2, 3)));
  const auto mark = [&](const MetadataKey& which) {
    return write([&](Transaction& tx) { return MetadataRepository::mark_stale(tx, which, now); });
  };
  EXPECT_FALSE(mark(key(2, 2)));
  EXPECT_FALSE(mark(key(1, 3)));
  ASSERT_TRUE(acquire(lease("c", 1, "server-b")));
  EXPECT_FALSE(mark(key(2, 3))) << "its process is connected elsewhere";
  EXPECT_FALSE(write([](Transaction& tx) { return MetadataRepository::remove(tx, key(2, 3), now); }));
  EXPECT_TRUE(write([](Transaction& tx) { return MetadataRepository::remove(tx, key(2, 3), soon); }))
      << "that lease has expired";
  EXPECT_TRUE(reports().empty());
}

TEST_P(Presence, TheSweepMarksWhatExpiredAndRemovesWhatIsOld) {
  for (int i = 0; i < 5; ++i) {
    MetadataRecord said = report(1, 1);
    said.instance_id = "instance-" + std::to_string(i);
    said.expires_at = i == 0 ? later : soon;
    ASSERT_TRUE(upsert(said));
  }
  MetadataRecord orphan = report(1, 1);
  orphan.agent_id = "agent-gone";
  ASSERT_TRUE(upsert(orphan));
  const auto sweep = [&](const char* at, const char* kept_since, int limit) {
    return write([&](Transaction& tx) { return MetadataRepository::sweep(tx, at, kept_since, limit); });
  };
  MetadataRepository::Swept swept = sweep(soon, now, 3);
  EXPECT_EQ(swept.marked_count, 3U);
  swept = sweep(soon, now, 3);
  EXPECT_EQ(swept.marked_count, 2U);
  EXPECT_EQ(std::ranges::count(reports(), true, &MetadataRecord::is_stale), 4);
  EXPECT_TRUE(MetadataRepository(*db).of_agent("agent-gone")->empty()) << "its agent does not exist";
  EXPECT_EQ(reports().front().instance_id, "instance-0") << "the fresh one comes first";
  swept = sweep(later, later, 10);
  EXPECT_EQ(swept.removed_count, 4U);
  EXPECT_EQ(sweep(later, "2027-01-15T09:00:01Z", 10).removed_count, 1U);
  EXPECT_TRUE(reports().empty());
}

TEST_P(Presence, AServerKeepsWhatAdministratorsDecidedAndStepsItsEpoch) {
  const auto start = [&](const char* address, const char* at) {
    return write([&](Transaction& tx) { return NodeRepository::start(tx, "server-a", address, later, at); });
  };
  const uint64_t before = revision();
  NodeRecord node = start("host:443", now);
  EXPECT_EQ(node.epoch, 1);
  EXPECT_EQ(node.name, "server-a");
  EXPECT_EQ(node.last_seen_at, now);
  EXPECT_EQ(node.expires_at, later);
  write([](Transaction& tx) { return NodeRepository::rename(tx, "server-a", "Berlin", soon); });
  EXPECT_EQ(revision(), before) << "none of these changes rights";
  node = start("other:443", soon);
  EXPECT_EQ(node.epoch, 2);
  EXPECT_EQ(node.name, "Berlin");
  EXPECT_EQ(node.address, "other:443");
  const std::optional<NodeRecord> row = *NodeRepository(*db).find("server-a");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->epoch, 2);
  EXPECT_EQ(row->name, "Berlin");
  EXPECT_EQ(row->created_at, now);
  EXPECT_EQ(row->last_seen_at, soon);
}

TEST_P(Presence, AServersEpochHas64Bits) {
  NodeRecord node{"server-a", "a", "h:1", above_40_bits, "{}", true, "", now, soon, now, now};
  write([&](Transaction& tx) { return NodeRepository::restore_row(tx, node); });
  node = write([&](Transaction& tx) { return NodeRepository::start(tx, "server-a", "h:1", soon, now); });
  EXPECT_EQ(node.epoch, above_40_bits + 1);
  const auto beat = [&](int64_t epoch) {
    return write(
        [&](Transaction& tx) { return NodeRepository::heartbeat(tx, "server-a", epoch, later, now); });
  };
  EXPECT_FALSE(beat(above_40_bits));
  EXPECT_TRUE(beat(above_40_bits + 1));
  EXPECT_TRUE(beat(above_40_bits + 1));
  EXPECT_EQ((*NodeRepository(*db).find("server-a"))->expires_at, later);
}

TEST_P(Presence, DisablingAndDeletingAServerChangesRights) {
  write([](Transaction& tx) { return NodeRepository::start(tx, "server-a", "h:1", soon, now); });
  const uint64_t before = revision();
  write([](Transaction& tx) { return NodeRepository::set_enabled(tx, "server-a", false, later); });
  EXPECT_EQ(revision(), before + 1);
  NodeRecord node =
      write([](Transaction& tx) { return NodeRepository::start(tx, "server-a", "h:2", later, later); });
  EXPECT_FALSE(node.is_enabled);
  EXPECT_EQ(node.last_seen_at, now) << "it may not serve, so it was not seen";
  write([](Transaction& tx) { return NodeRepository::mark_deleted(tx, "server-a", later); });
  write([](Transaction& tx) { return NodeRepository::restore(tx, "server-a", later); });
  write([](Transaction& tx) { return NodeRepository::set_enabled(tx, "server-a", true, later); });
  EXPECT_EQ(revision(), before + 4);
  Result<Transaction> tx = Transaction::write(*db);
  EXPECT_EQ(NodeRepository::restore(*tx, "server-a", later).error().code, TMESH_E_STATE);
  EXPECT_EQ(NodeRepository::mark_deleted(*tx, "server-b", later).error().code, TMESH_E_STATE);
}

TEST_P(Presence, ServersAreListedInPagesWithDeletedOnes) {
  for (const char* id : {"server-a", "server-b", "server-c"}) {
    write([&](Transaction& tx) { return NodeRepository::start(tx, id, "h:1", soon, now); });
  }
  write([](Transaction& tx) { return NodeRepository::mark_deleted(tx, "server-b", later); });
  const Page<NodeRecord> first = *NodeRepository(*db).list({"", 2});
  ASSERT_EQ(first.items.size(), 2U);
  EXPECT_TRUE(first.has_more);
  EXPECT_EQ(first.items[1].deleted_at, later);
  EXPECT_EQ(NodeRepository(*db).list({"server-b", 2})->items.front().id, "server-c");
}

TEST_P(Presence, TheSummaryCountsUnderOneFilter_R17) {
  write([](Transaction& tx) {
    return UserRepository::create(tx, {"user-bob", "bob", "user", "h", true, "", now, now});
  });
  write([](Transaction& tx) {
    return AgentRepository::create(tx, {"agent-other", "other", "user-bob", "[]", false, now, now});
  });
  LeaseRecord row = lease("c1");
  row.active_streams = 5;
  ASSERT_TRUE(acquire(row));
  ASSERT_TRUE(acquire(lease("c2")));
  row = lease("c3");
  row.agent_id = "agent-other";
  ASSERT_TRUE(acquire(row));
  row = lease("c4");
  row.expires_at = now;
  ASSERT_TRUE(acquire(row));
  TokenRecord token{"stok_a", "client", "user-alice", "", "", "p", "h1", "{}", "", "", "", now, now};
  write([&](Transaction& tx) { return TokenRepository::create(tx, token); });
  token.id = "stok_b";
  token.token_hash = "h2";
  token.expires_at = now;
  write([&](Transaction& tx) { return TokenRepository::create(tx, token); });
  write([](Transaction& tx) { return NodeRepository::start(tx, "server-a", "h:1", soon, now); });

  const Summary all = *read_summary(*db, "", now);
  EXPECT_EQ(all.agents_count, 2);
  EXPECT_EQ(all.agents_enabled_count, 1);
  EXPECT_EQ(all.agents_online_count, 2);
  EXPECT_EQ(all.connections_count, 3);
  EXPECT_EQ(all.streams_count, 5);
  EXPECT_EQ(all.tokens_count, 2);
  EXPECT_EQ(all.tokens_live_count, 1);
  EXPECT_EQ(all.users_count, 2);
  EXPECT_EQ(all.users_disabled_count, 1);
  EXPECT_EQ(all.nodes_count, 1);
  EXPECT_EQ(all.nodes_online_count, 1);
  const Summary bobs = *read_summary(*db, "user-bob", now);
  EXPECT_EQ(bobs.agents_count, 1);
  EXPECT_EQ(bobs.agents_online_count, 1);
  EXPECT_EQ(bobs.connections_count, 1);
  EXPECT_EQ(bobs.streams_count, 0);
  EXPECT_EQ(bobs.tokens_count, 0);
  EXPECT_EQ(bobs.users_count, 0);
  EXPECT_EQ(bobs.nodes_count, 0);
}

TMESH_BOTH_ENGINES(Presence);

}  // namespace
}  // namespace tmesh::storage
