// Rows of who is connected, on both engines.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/metadata_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::storage::presence_test {

inline constexpr const char* now = "2027-01-15T08:00:00Z";
inline constexpr const char* soon = "2027-01-15T08:00:30Z";
inline constexpr const char* later = "2027-01-15T09:00:00Z";
inline constexpr int64_t above_31_bits = (int64_t{1} << 31) + 5;
inline constexpr int64_t above_40_bits = (int64_t{1} << 40) + 7;
inline constexpr int64_t highest = std::numeric_limits<int64_t>::max();

inline LeaseRecord lease(const std::string& connection, int64_t connection_epoch = 1,
                         const std::string& server = "server-a") {
  return {"agent-home",     connection, "node-1", "instance-1", server, 1,
          connection_epoch, 0,          100,      now,          soon,   now};
}
inline MetadataRecord report(int64_t epoch, int64_t revision, const std::string& reported_at = now) {
  return {"agent-home", "instance-1", "node-1", epoch, revision, R"({"items":[]})",
          reported_at,  "",           soon,     false, ""};
}
inline MetadataKey key(int64_t epoch, int64_t revision) {
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

}  // namespace tmesh::storage::presence_test
