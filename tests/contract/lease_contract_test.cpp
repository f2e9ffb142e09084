// Leases, on both engines.
#include "tests/contract/presence_rows.hpp"

namespace tmesh::storage::presence_test {
namespace {

using Leases = Presence;

TEST_P(Leases, ALeaseKeepsItsValuesAndEpochsOf64Bits) {
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

TEST_P(Leases, ALeaseIsTakenOverByANewerEpochOnly) {
  ASSERT_TRUE(acquire(lease("c", above_40_bits)));
  EXPECT_FALSE(acquire(lease("c", above_40_bits, "server-b")));
  EXPECT_FALSE(acquire(lease("c", above_40_bits - 1, "server-b")));
  EXPECT_EQ(leases().front().server_node_id, "server-a");
  EXPECT_TRUE(acquire(lease("c", above_40_bits + 1, "server-b")));
  ASSERT_EQ(leases().size(), 1U);
  EXPECT_EQ(leases().front().server_node_id, "server-b");
  EXPECT_EQ(leases().front().connection_epoch, above_40_bits + 1);
}

TEST_P(Leases, ALeaseIsTakenOverFromAnExpiredHolderAndFromAnEarlierLifeOfTheServer) {
  ASSERT_TRUE(acquire(lease("c", 5)));
  EXPECT_TRUE(acquire(lease("c", 1), now)) << "the registry of the same server has decided";
  EXPECT_EQ(leases().front().connection_epoch, 1);
  LeaseRecord other = lease("c", 1, "server-b");
  EXPECT_FALSE(acquire(other, "2027-01-15T08:00:29Z"));
  EXPECT_TRUE(acquire(other, soon)) << "expired at that time";
}

TEST_P(Leases, OnlyTheHolderRenewsAndReleases) {
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

TEST_P(Leases, ManyLeasesAreRenewedByOneStatement) {
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
TEST_P(Leases, IdsThatReadAsNumbersStayTexts) {
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

TEST_P(Leases, OnlineAreThoseWithALeaseThatHasNotExpired_R15) {
  std::vector<std::string> ids;
  for (int i = 0; i < 9; ++i) {
    LeaseRecord row = lease("c");
    row.agent_id = "agent-" + std::to_string(i);
    ids.push_back(row.agent_id);
    if (i % 3 == 0) continue;  // has none
    row.expires_at = i % 3 == 1 ? soon : i == 2 ? now : "2027-01-15T07:59:59Z";
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

TEST_P(Leases, TotalsAreByServer) {
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

TEST_P(Leases, ExpiredLeasesAreRemovedInBoundedBatches) {
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

TEST_P(Leases, AnEarlierLifeOfAServerLeavesNothing) {
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

TMESH_BOTH_ENGINES(Leases);

}  // namespace
}  // namespace tmesh::storage::presence_test
