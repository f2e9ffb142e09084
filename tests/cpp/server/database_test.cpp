// The two lanes of the database, over SQLite on its threads.
#include "cpp/server/database.hpp"

#include <future>
#include <set>
#include <string>
#include <vector>

#include "cpp/storage/revision_bump.hpp"
#include "tests/cpp/server/ws_fixture.hpp"

namespace tmesh::server {
namespace {

template <class T>
struct Answer {
  void take(T got) { value.emplace(std::move(got)); }
  Delegate<void(T)> done() { return Delegate<void(T)>::template bind<&Answer::take>(this); }
  std::optional<T> value;
  Ticket ticket;
};

struct DatabaseTest : test::WsFixture {
  // Keeps that lane busy until release_database().
  void stop_writes() { blockers[1] = std::move(*database->write(waits(), ignored())); }
  void stop_reads() { blockers[0] = std::move(*database->read(waits(), ignored())); }
  Identity identity(const std::string& token_id) {
    Identity made;
    made.token_id = token_id;
    return made;
  }
  std::string last_used(const std::string& token_id) {
    return (*storage::TokenRepository(*rows.db).find(token_id))->last_used_at;
  }
};

TEST_F(DatabaseTest, WhatIsReadDoesNotWaitForWhatIsWritten) {
  stop_writes();
  Answer<Result<Identity>> token;
  Answer<Result<Grant>> stream;
  Answer<Result<uint64_t>> revision;
  token.ticket = std::move(*database->authenticate(rows.client.secret, TokenType::client, token.done()));
  stream.ticket = std::move(*database->authorize(
      {rows.client.token.id, rows.home.id, "tcp", "db.example.com", 443}, stream.done()));
  revision.ticket = std::move(*database->read_revision(revision.done()));
  ASSERT_TRUE(run_until([&] { return token.value && stream.value && revision.value; }));
  EXPECT_TRUE(*token.value);
  EXPECT_TRUE(*stream.value);
  EXPECT_EQ(**revision.value, *storage::read_revision(*rows.db));
}

TEST_F(DatabaseTest, PollsWaitForNoBatchOfDecisions) {
  stop_reads();
  Answer<Result<uint64_t>> revision;
  Answer<Result<std::optional<bool>>> commits;
  Answer<bool> ping;
  revision.ticket = std::move(*database->read_revision(revision.done()));
  commits.ticket = std::move(*database->has_foreign_commits(commits.done()));
  ping.ticket = std::move(*database->ping(ping.done()));
  ASSERT_TRUE(run_until([&] { return revision.value && commits.value && ping.value; }));
  EXPECT_EQ(**revision.value, *storage::read_revision(*rows.db));
  EXPECT_TRUE(*ping.value);
}

TEST_F(DatabaseTest, WhatIsReadDoesNotWaitForAnotherProgramsChange) {
  const Result<storage::Transaction> change = storage::Transaction::write(*rows.db);
  ASSERT_TRUE(change);
  test::run_sql(*rows.db, "UPDATE users SET role = role");
  Answer<Result<Identity>> token;
  token.ticket = std::move(*database->authenticate(rows.client.secret, TokenType::client, token.done()));
  ASSERT_TRUE(run_until([&] { return token.value.has_value(); }));
  EXPECT_TRUE(*token.value);
}

TEST_F(DatabaseTest, WorkGetsAConnectionAndItsResultComesOnTheLoop) {
  Answer<std::string> read;
  Answer<Result<uint64_t>> written;
  read.ticket = std::move(*database->read(
      [](storage::Db& db) { return test::scalar(db, "SELECT username FROM users WHERE username = 'alice'"); },
      read.done()));
  EXPECT_FALSE(read.value) << "never inside the call";
  written.ticket = std::move(*database->write(
      [](storage::Db& db) { return db.execute("UPDATE users SET role = role", {}); }, written.done()));
  ASSERT_TRUE(run_until([&] { return read.value && written.value; }));
  EXPECT_EQ(*read.value, "alice");
  EXPECT_EQ(**written.value, 2U);
}

TEST_F(DatabaseTest, ForeignCommitsAreSeenOnce) {
  const auto ask = [this] {
    Answer<Result<std::optional<bool>>> answer;
    answer.ticket = std::move(*database->has_foreign_commits(answer.done()));
    EXPECT_TRUE(run_until([&] { return answer.value.has_value(); }));
    return **answer.value;
  };
  ask();
  EXPECT_EQ(ask(), std::optional(false));
  test::run_sql(*rows.db, "UPDATE users SET role = role");
  EXPECT_EQ(ask(), std::optional(true));
  EXPECT_EQ(ask(), std::optional(false));
}

TEST_F(DatabaseTest, ALinksTokenIsJudgedAlone) {
  const auto ask = [this](const std::string& id) {
    Answer<Result<Grant>> answer;
    answer.ticket = std::move(*database->recheck(id, answer.done()));
    EXPECT_TRUE(run_until([&] { return answer.value.has_value(); }));
    return std::move(*answer.value);
  };
  EXPECT_EQ(ask(rows.agent_token.token.id)->token_id, rows.agent_token.token.id);
  EXPECT_EQ(ask("none").error().code, TMESH_E_POLICY);
  rows.change([&](TokenService s) { return s.revoke(rows.agent_token.token); });
  EXPECT_EQ(ask(rows.agent_token.token.id).error().code, TMESH_E_POLICY);
}

TEST_F(DatabaseTest, UseIsNotedBehindTheAnswer) {
  stop_writes();
  Answer<Result<Identity>> token;
  token.ticket = std::move(*database->authenticate(rows.client.secret, TokenType::client, token.done()));
  ASSERT_TRUE(run_until([&] { return token.value.has_value(); }));
  database->note_use(**token.value);
  EXPECT_EQ(last_used(rows.client.token.id), "");
  release_database();
  EXPECT_TRUE(run_until([&] { return !last_used(rows.client.token.id).empty(); }));
}

TEST_F(DatabaseTest, ANoteAMomentAgoIsEnough) {
  Identity noted = identity(rows.client.token.id);
  noted.is_use_noted = true;
  stop_writes();
  database->note_use(noted);
  database->note_use(noted);
  EXPECT_EQ(database->use_notes().waiting_count(), 0U);
}

TEST_F(DatabaseTest, WaitingNotesAreBoundedAndATokenWaitsOnce) {
  stop_writes();
  database->note_use(identity("first"));  // its write is under way
  for (std::size_t i = 0; i < UseNotes::kWaitingMax + 10; i++) {
    for (int again = 0; again < 3; again++) database->note_use(identity("token" + std::to_string(i)));
  }
  EXPECT_EQ(database->use_notes().waiting_count(), UseNotes::kWaitingMax);
  EXPECT_EQ(database->use_notes().dropped_count(), 30U);
}

TEST_F(DatabaseTest, NotesThatWaitAreOneChange) {
  stop_writes();
  database->note_use(identity("first"));
  database->note_use(identity(rows.client.token.id));
  database->note_use(identity(rows.agent_token.token.id));
  (void)rows.db->foreign_commits();
  release_database();
  ASSERT_TRUE(run_until([&] { return !last_used(rows.client.token.id).empty(); }));
  EXPECT_FALSE(last_used(rows.agent_token.token.id).empty());
}

TEST_F(DatabaseTest, NotesThatCannotBeWrittenAreDroppedAndCounted) {
  test::run_sql(*rows.db, "ALTER TABLE service_tokens RENAME TO gone");
  database->note_use(identity(rows.client.token.id));
  EXPECT_TRUE(run_until([&] { return database->use_notes().dropped_count() == 1; }));
  test::run_sql(*rows.db, "ALTER TABLE gone RENAME TO service_tokens");
  database->note_use(identity(rows.client.token.id));
  EXPECT_TRUE(run_until([&] { return !last_used(rows.client.token.id).empty(); }));
}

// Each of them holds its connection until all have come.
TEST_F(DatabaseTest, ALaneRunsAsManyCallsAsItHasConnections) {
  std::vector<std::unique_ptr<storage::Db>> dbs;
  for (int i = 0; i < 3; i++) dbs.push_back(test::open_db(rows.path));
  auto lane = std::move(*DatabaseLane::create(loop(), std::move(dbs), 8));
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::promise<storage::Db*> entered[3];
  Answer<bool> answers[3];
  for (int i = 0; i < 3; i++) {
    answers[i].ticket = std::move(*lane->submit(
        [opened, in = &entered[i]](storage::Db& db) {
          in->set_value(&db);
          opened.wait();
          return true;
        },
        answers[i].done()));
  }
  std::set<storage::Db*> used;
  for (auto& in : entered) used.insert(in.get_future().get());
  EXPECT_EQ(used.size(), 3U);
  open.set_value();
  EXPECT_TRUE(run_until([&] { return answers[0].value && answers[1].value && answers[2].value; }));
}

TEST_F(DatabaseTest, OneConnectionPerLaneForSqlite) {
  const auto connections = Database::connect({.driver = storage::Driver::sqlite, .sqlite_path = rows.path});
  ASSERT_TRUE(connections);
  EXPECT_EQ(connections->reads.size(), 1U);
  EXPECT_EQ(connections->writes.size(), 1U);
  const auto missing = Database::connect({.sqlite_path = rows.path + ".none"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().text.find(rows.path), std::string::npos);
}

}  // namespace
}  // namespace tmesh::server
