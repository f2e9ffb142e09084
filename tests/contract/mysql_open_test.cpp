// Opening a MySQL database: what is refused, in which words, and TLS.
#include <fstream>

#include "cpp/storage/mysql_dsn.hpp"
#include "tests/contract/cut_proxy.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::storage {
namespace {

bool keep_second(void* out, const Row& row) {
  *static_cast<std::string*>(out) = row.text(1);
  return true;
}
// "" without TLS.
std::string cipher_of(Db& db) {
  std::string value = "(no row)";
  const Result<void> done = db.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'", {},
                                     Delegate<bool(const Row&)>::free<&keep_second>(&value));
  EXPECT_TRUE(done) << (done ? "" : done.error().text);
  return value;
}

class MysqlOpen : public test::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    Opened<MysqlDsn> parsed = parse_mysql_dsn(server_dsn);
    ASSERT_TRUE(parsed) << parsed.error().text;
    dsn = std::move(*parsed);
    ASSERT_FALSE(dsn.host.empty()) << "these tests need TCP";
    where = dsn.host + ':' + std::to_string(dsn.port);
  }

  std::string dsn_text(std::string_view host, uint16_t port, std::string_view name,
                       std::string_view more = {}) {
    return dsn.user + ':' + std::string(dsn.password.reveal()) + "@tcp(" + std::string(host) + ':' +
           std::to_string(port) + ")/" + std::string(name) + std::string(more);
  }
  Opened<std::unique_ptr<Db>> try_open(const std::string& text) {
    settings.mysql_dsn = Secret(text);
    return open_database(settings, {});
  }
  std::string problem(const std::string& text) {
    const auto opened = try_open(text);
    EXPECT_FALSE(opened);
    if (opened) return {};
    EXPECT_EQ(opened.error().code, TMESH_E_IO);
    EXPECT_EQ(opened.error().text.find(dsn.user), std::string::npos) << opened.error().text;
    EXPECT_EQ(opened.error().text.find(dsn.password.reveal()), std::string::npos) << opened.error().text;
    return opened.error().text;
  }

  MysqlDsn dsn;
  std::string where;
};

TEST_P(MysqlOpen, AProblemNamesHostAndDatabaseAndNeverUserOrPassword) {
  const std::string at = "MySQL at " + where;
  EXPECT_EQ(problem(dsn_text(dsn.host, dsn.port, "tm_none")),
            at + "/tm_none: there is no database of this name");
  EXPECT_EQ(problem(dsn.user + ":wrong@tcp(" + where + ")/" + database),
            at + '/' + database + ": user or password is not accepted");
  EXPECT_EQ(problem(dsn_text("127.0.0.1", 1, "x")),
            "MySQL at 127.0.0.1:1/x: no database server answers there");
  EXPECT_EQ(problem(dsn_text("no-such-host.invalid", 3306, "x")),
            "MySQL at no-such-host.invalid:3306/x: the name of the host is not known");
  EXPECT_EQ(problem(dsn.user + ":p@unix(" + dir.file("none") + ")/x"),
            "MySQL at " + dir.file("none") + "/x: no database server answers there");
}

TEST_P(MysqlOpen, TheSessionIsStrictAndUnicodeWhateverTheServersDefaults) {
  const auto db = open();
  EXPECT_EQ(test::scalar(*db, "SELECT @@session.sql_mode"), "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION");
  EXPECT_EQ(test::scalar(*db, "SELECT @@session.character_set_client"), "utf8mb4");
  EXPECT_EQ(test::scalar(*db, "SELECT @@session.character_set_results"), "utf8mb4");
  EXPECT_EQ(test::scalar(*db, "SELECT @@session.innodb_lock_wait_timeout"), "2");
  EXPECT_EQ(test::scalar(*db, "SELECT @@session.lock_wait_timeout"), "2");
}

TEST_P(MysqlOpen, AServerCannotReadFilesOfThisMachine) {
  const auto db = open();
  test::run_sql(*db, "CREATE TABLE t (v VARCHAR(100))");
  const std::string file = dir.file("private");
  std::ofstream(file) << "secret\n";
  EXPECT_FALSE(db->execute("LOAD DATA LOCAL INFILE '" + file + "' INTO TABLE t", {}));
  EXPECT_EQ(test::scalar(*open(), "SELECT COUNT(*) FROM t"), "0");
}

class MysqlTls : public MysqlOpen {
 protected:
  void SetUp() override {
    MysqlOpen::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    settings.mysql_ca_file = test::environment("TUNNELMESH_TEST_MYSQL_CA");
    other_ca = test::environment("TUNNELMESH_TEST_MYSQL_OTHER_CA");
    if (!settings.mysql_ca_file.empty() && !other_ca.empty()) return;
    const bool is_allowed = test::environment("TUNNELMESH_ALLOW_DEFERRED") == "1";
    if (is_allowed) GTEST_SKIP() << "deferred: TUNNELMESH_TEST_MYSQL_CA is not set";
    FAIL() << "deferred: TUNNELMESH_TEST_MYSQL_CA is not set";
  }

  std::string cipher(const std::string& name) {
    auto opened = try_open(name);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    return opened ? cipher_of(**opened) : "(not open)";
  }
  std::string text(std::string_view more = {}) { return dsn_text(dsn.host, dsn.port, database, more); }

  std::string other_ca;
};

TEST_P(MysqlTls, TheSettingOverridesTheDsnInBothDirections) {
  settings.is_mysql_tls = true;
  for (const char* more :
       {"", "?tls=false", "?tls=true", "?tls=skip-verify", "?tls=preferred", "?tls=custom"}) {
    EXPECT_NE(cipher(text(more)), "") << more;
  }
  settings.is_mysql_tls = false;
  for (const char* more :
       {"", "?tls=false", "?tls=true", "?tls=skip-verify", "?tls=preferred", "?tls=custom"}) {
    EXPECT_EQ(cipher(text(more)), "") << more;
  }
}

TEST_P(MysqlTls, ACertificateOfAnotherAuthorityIsRefused) {
  settings.is_mysql_tls = true;
  settings.mysql_ca_file = other_ca;
  EXPECT_NE(problem(text()).find("TLS"), std::string::npos);
  EXPECT_NE(problem(text("?tls=skip-verify")).find("TLS"), std::string::npos) << "the setting says verify";
}

TEST_P(MysqlTls, WithoutAFileTheAuthoritiesOfTheSystemCount) {
  settings.is_mysql_tls = true;
  settings.mysql_ca_file.clear();
  EXPECT_NE(problem(text()).find("TLS"), std::string::npos);
}

TEST_P(MysqlTls, AMissingAuthorityFileIsAProblem) {
  settings.is_mysql_tls = true;
  settings.mysql_ca_file = dir.file("none.pem");
  EXPECT_NE(problem(text()).find("TLS"), std::string::npos);
}

TEST_P(MysqlTls, ACertificateForAnotherNameIsRefused) {
  settings.is_mysql_tls = true;
  EXPECT_NE(problem(dsn_text("localhost", dsn.port, database)).find("TLS"), std::string::npos);
  settings.is_mysql_tls = false;
  EXPECT_TRUE(try_open(dsn_text("localhost", dsn.port, database))) << "only the name was wrong";
}

// Somebody between us and the server takes the server's offer out of its greeting.
TEST_P(MysqlTls, AServerWithoutTlsIsRefused) {
  test::CutProxy proxy({dsn.host, dsn.port});
  proxy.hide_tls();
  settings.is_mysql_tls = true;
  const std::string refused = problem(dsn_text("127.0.0.1", proxy.port(), database));
  EXPECT_NE(refused.find("TLS"), std::string::npos);
  EXPECT_EQ(refused.find("not encrypted"), std::string::npos) << "found only after the login: " << refused;
  settings.is_mysql_tls = false;
  EXPECT_TRUE(try_open(dsn_text("127.0.0.1", proxy.port(), database)));
}

// TLS 1.3 sends records of its own, which are no farewell.
TEST_P(MysqlTls, AConnectionWithTlsStays) {
  settings.is_mysql_tls = true;
  auto opened = try_open(text());
  ASSERT_TRUE(opened);
  const std::string id = test::scalar(**opened, "SELECT CONNECTION_ID()");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE((*opened)->execute("DO 1", {}));
    EXPECT_EQ(test::scalar(**opened, "SELECT CONNECTION_ID()"), id);
  }
}

TEST_P(MysqlTls, ALostConnectionIsMadeAgainWithTls) {
  settings.is_mysql_tls = true;
  auto opened = try_open(text());
  ASSERT_TRUE(opened);
  const std::string id = test::scalar(**opened, "SELECT CONNECTION_ID()");
  settings.is_mysql_tls = false;
  test::run_sql(*open(), "KILL CONNECTION " + id);
  EXPECT_NE(test::scalar(**opened, "SELECT CONNECTION_ID()"), id);
  EXPECT_NE(cipher_of(**opened), "");
}

TMESH_ONLY_MYSQL(MysqlOpen);
TMESH_ONLY_MYSQL(MysqlTls);

}  // namespace
}  // namespace tmesh::storage
