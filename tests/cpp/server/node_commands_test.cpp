// The commands node ...; admin_commands_test.cpp has what all commands share.
#include <gtest/gtest.h>

#include "cpp/server/presence_batch.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "tests/cpp/server/commands_fixture.hpp"

namespace tmesh::server {
namespace {

struct NodeCommands : test::Commands {
  void SetUp() override {
    Commands::SetUp();
    ASSERT_TRUE(announce_node(*db, "server-a", "host:443", time.now_us));
  }
  std::string status() { return member(json("node", "show", {"server-a"}).out, "status"); }
};

TEST_F(NodeCommands, AListShowsWhatEachServerCarries) {
  Result<storage::Transaction> tx = storage::Transaction::write(*db);
  const std::string now = storage::format_timestamp(time.now_us);
  const std::string later = storage::format_timestamp(time.now_us + kLeaseLife_us);
  const storage::LeaseRecord lease{home.id, "c", "n", "i", "server-a", 1, 1, 4, 100, now, later, now};
  ASSERT_TRUE(storage::LeaseRepository::acquire(*tx, lease, now));
  ASSERT_TRUE(tx->commit());
  const test::Ran ran = run("node", "list");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(
      ran.out,
      "id        name      address   status  epoch  activeConnections  activeStreams  "
      "lastSeenAt            expiresAt             enabled  deletedAt  createdAt             updatedAt\n"
      "server-a  server-a  host:443  online  1      1                  4              "
      "2027-01-15T08:00:00Z  2027-01-15T08:01:30Z  yes      -          2027-01-15T08:00:00Z  "
      "2027-01-15T08:00:00Z\n");
  const auto document = json::parse(json("node", "list").out);
  ASSERT_TRUE(document);
  ASSERT_EQ(document->root().size(), 1U);
  EXPECT_EQ((*document->root().begin()).get("activeStreams").as_int(), 4);
}

TEST_F(NodeCommands, AServerIsRenamedDisabledDeletedAndRestored) {
  const size_t rows = audit_rows();
  EXPECT_EQ(member(json("node", "update", {"server-a"}, {{"name", "Berlin"}}).out, "name"), "Berlin");
  EXPECT_EQ(member(json("node", "disable", {"server-a"}).out, "status"), "disabled");
  EXPECT_EQ(member(json("node", "enable", {"server-a"}).out, "status"), "online");
  EXPECT_EQ(member(json("node", "delete", {"server-a"}).out, "status"), "deleted");
  EXPECT_EQ(status(), "deleted");
  EXPECT_EQ(member(json("node", "restore", {"server-a"}).out, "status"), "online");
  EXPECT_EQ(audit_rows(), rows + 5);
  EXPECT_EQ(json("node", "enable", {"server-a"}).exit_code, 0);
  EXPECT_EQ(audit_rows(), rows + 5) << "nothing changed";
}

TEST_F(NodeCommands, WhatCannotBeDoneIsSaid) {
  for (const char* verb : {"show", "disable", "enable", "delete", "restore"}) {
    expect_failure(run("node", verb, {"server-x"}),
                   ("node " + std::string(verb) + ": there is no such server\n").c_str());
  }
  expect_failure(run("node", "restore", {"server-a"}), "node restore: the server is not deleted\n");
  expect_usage(run("node", "update", {"server-a"}), "node update: --name NAME is missing\n");
  expect_usage(run("node", "update", {"server-a"}, {{"name", " x"}}),
               "node update: a server name has 1 to 255 printable bytes, and no space at an end\n");
  expect_usage(run("node", "lst"), "node lst: unknown command; did you mean node list?\n");
}

}  // namespace
}  // namespace tmesh::server
