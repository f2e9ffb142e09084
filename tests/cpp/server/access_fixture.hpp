// ServiceFixture with what tests of changes look at: refusals, the revision, the audit log.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::test {

struct AccessFixture : ServiceFixture {
  uint64_t revision() { return *storage::read_revision(*db); }
  std::string audited() { return test::scalar(*db, "SELECT COUNT(*) FROM audit_logs"); }
  // Entries of one moment have no order but that of their writing.
  std::string last_action() {
    return test::scalar(*db, "SELECT action FROM audit_logs ORDER BY rowid DESC LIMIT 1");
  }

  // Runs a change that must be refused; nothing of it may be in the database.
  template <class Change>
  void expect_refused(Change change_rows, tmesh_code code, const char* text) {
    const uint64_t before = revision();
    const std::string entries = audited();
    {
      Result<storage::Transaction> tx = storage::Transaction::write(*db);
      ASSERT_TRUE(tx);
      const server::ChangeScope scope(*tx, time.now_us, "");
      const auto made = change_rows(scope);
      ASSERT_FALSE(made) << "not refused: " << text;
      EXPECT_EQ(made.error().code, code) << made.error().text;
      EXPECT_STREQ(made.error().text, text);
    }
    EXPECT_EQ(revision(), before);
    EXPECT_EQ(audited(), entries);
  }
  // How many steps of the revision a change made.
  template <class Change>
  uint64_t steps(Change change_rows) {
    const uint64_t before = revision();
    change(change_rows);
    return revision() - before;
  }
  Result<server::Grant> ask(const server::CreatedToken& token, const std::string& host = "www.example.com",
                            uint16_t port = 443) {
    return server::Authorizer(*db, time.clock()).authorize({token.token.id, home.id, "tcp", host, port});
  }
};

// Texts that no field may take: broken UTF-8, control characters, C1, spaces at an end.
inline const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> texts = {
      "\xff\xfe", "\xc0\xaf",  "\xed\xa0\x80", "a\xc3", std::string("a\0b", 3),
      "a\nb",     "a\tb",      "\x1b[2J",      "a\x7f", "a\xc2\x9b",
      " leading", "trailing ", "\r\nx: y",
  };
  return texts;
}
// Texts that are data and nothing else.
inline const std::vector<std::string>& injections() {
  static const std::vector<std::string> texts = {
      "'; DROP TABLE users; --",
      "\" OR \"\"=\"",
      "' OR 1=1 --",
      "x' UNION SELECT password_hash FROM users --",
      "\\'; DELETE FROM agents; --",
      "%",
      "_",
      "?",
      "$1",
      ":id",
      "/* */",
      "`agents`",
  };
  return texts;
}

}  // namespace tmesh::test
