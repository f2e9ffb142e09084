// Reports of agents, server nodes and the summary over them, on both engines.
#include "cpp/storage/summary_repository.hpp"
#include "cpp/storage/token_repository.hpp"
#include "tests/contract/presence_rows.hpp"

namespace tmesh::storage::presence_test {
namespace {

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
}  // namespace tmesh::storage::presence_test
