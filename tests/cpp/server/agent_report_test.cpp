#include "cpp/server/agent_report.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>

namespace tmesh::server {
namespace {

std::unique_ptr<tmesh_agent_metadata> metadata() {
  auto made = std::make_unique<tmesh_agent_metadata>();
  std::memset(made.get(), 0, sizeof *made);
  made->agent_id = "agent-1";
  made->node_id = "node";
  made->epoch = int64_t{1} << 40;
  made->revision = 3;
  made->reported_at = {1'800'000'000, 500'000'000};
  return made;
}

std::string shown(std::string_view document) {
  std::string text;
  json::Writer out(text);
  out.begin_object();
  append_report_lists(document, out);
  out.end_object();
  return text;
}

TEST(AgentReport, EmptyListsAreListsAndNeverNull_R17) {
  const AgentReport report = make_agent_report(*metadata());
  EXPECT_EQ(report.row.metadata, R"({"items":[],"errors":[],"capabilities":[]})");
  EXPECT_TRUE(report.is_unreported);
  EXPECT_EQ(shown(report.row.metadata), report.row.metadata);
  for (const char* stored : {"", "null", "{", "[]", R"({"items":null,"errors":null,"capabilities":null})"}) {
    EXPECT_EQ(shown(stored), R"({"items":[],"errors":[],"capabilities":[]})") << stored;
  }
}

TEST(AgentReport, KeepsIdsEpochsAndTheTimeOfTheReport) {
  auto said = metadata();
  AgentReport report = make_agent_report(*said);
  EXPECT_EQ(report.row.agent_id, "agent-1");
  EXPECT_EQ(report.row.node_id, "node");
  EXPECT_EQ(report.row.instance_id, "node") << "of an agent that does not say its process";
  EXPECT_EQ(report.row.epoch, int64_t{1} << 40);
  EXPECT_EQ(report.row.revision, 3);
  EXPECT_EQ(report.row.reported_at, "2027-01-15T08:00:00.5Z");
  said->instance_id = "instance";
  said->revision = std::numeric_limits<uint64_t>::max();
  report = make_agent_report(*said);
  EXPECT_EQ(report.row.instance_id, "instance");
  EXPECT_EQ(report.row.revision, std::numeric_limits<int64_t>::max());
}

TEST(AgentReport, ItemsErrorsAndCapabilitiesAreKept) {
  auto said = metadata();
  said->items[said->item_count++] = {"region", "env", "eu \"1\"", false};
  said->errors[said->error_count++] = {"disk", "collection_error", "cannot be read"};
  said->capabilities = TMESH_CAP_OPEN_RESULT;
  const AgentReport report = make_agent_report(*said);
  EXPECT_FALSE(report.is_unreported);
  EXPECT_EQ(report.row.metadata,
            R"({"items":[{"name":"region","source":"env","value":"eu \"1\""}],)"
            R"("errors":[{"name":"disk","code":"collection_error","message":"cannot be read"}],)"
            R"("capabilities":["stream_open_result.v1"]})");
  EXPECT_EQ(shown(report.row.metadata),
            R"({"items":[{"name":"region","source":"env","value":"eu \"1\"","redacted":false}],)"
            R"("errors":[{"name":"disk","code":"collection_error","message":"cannot be read"}],)"
            R"("capabilities":["stream_open_result.v1"]})");
}

TEST(AgentReport, SecretsAreNeitherKeptNorShown) {
  auto said = metadata();
  said->items[said->item_count++] = {"upstream", "env", "https://user:hunter2@host/x", false};
  const AgentReport report = make_agent_report(*said);
  EXPECT_EQ(report.row.metadata.find("hunter2"), std::string::npos);
  EXPECT_EQ(
      shown(report.row.metadata),
      R"({"items":[{"name":"upstream","source":"env","redacted":true}],"errors":[],"capabilities":[]})");
  // A row that another program wrote.
  const std::string foreign = R"({"items":[{"name":"db_password","source":"env","value":"hunter2"}]})";
  EXPECT_EQ(shown(foreign).find("hunter2"), std::string::npos);
}

TEST(AgentReport, KnowsSecretsByNameAndForm) {
  for (const char* value :
       {"postgres://a:b@db/x", "Bearer abc", "basic YTpi", "eyJhbGciOiJIUzI1NiJ9.e30.c2ln",
        "-----BEGIN EC PRIVATE KEY-----\nMHc", "http://h/?next=http://x:y@z/"}) {
    EXPECT_TRUE(is_secret_item("item", value)) << value;
  }
  for (const char* value :
       {"", "eu-west", "https://host/a:b@c", "https://user@host/", "mail a:b@c", "eyJ", "1.2.3"}) {
    EXPECT_FALSE(is_secret_item("item", value)) << value;
  }
  EXPECT_TRUE(is_secret_item("API_TOKEN", "x"));
}

}  // namespace
}  // namespace tmesh::server
