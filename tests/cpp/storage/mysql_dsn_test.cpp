#include "cpp/storage/mysql_dsn.hpp"

#include <gtest/gtest.h>

namespace tmesh::storage {
namespace {

MysqlDsn good(std::string_view text) {
  Opened<MysqlDsn> parsed = parse_mysql_dsn(text);
  EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error().text);
  return parsed ? std::move(*parsed) : MysqlDsn{};
}
std::string problem(std::string_view text) {
  const Opened<MysqlDsn> parsed = parse_mysql_dsn(text);
  EXPECT_FALSE(parsed) << text;
  if (parsed) return {};
  EXPECT_EQ(parsed.error().code, TMESH_E_INVALID);
  EXPECT_TRUE(parsed.error().text.starts_with("storage.mysql.dsn: ")) << parsed.error().text;
  return parsed.error().text.substr(19);
}

TEST(MysqlDsn, HasUserPasswordAddressAndDatabase) {
  const MysqlDsn dsn = good("tm:s3cret@tcp(db.example.com:3307)/tunnelmesh");
  EXPECT_EQ(dsn.user, "tm");
  EXPECT_EQ(dsn.password.reveal(), "s3cret");
  EXPECT_EQ(dsn.host, "db.example.com");
  EXPECT_EQ(dsn.port, 3307);
  EXPECT_EQ(dsn.database, "tunnelmesh");
  EXPECT_EQ(dsn.where(), "db.example.com:3307/tunnelmesh");
  EXPECT_FALSE(dsn.asks_for_tls);
}

TEST(MysqlDsn, LeavesOutWhatHasADefault) {
  EXPECT_EQ(good("u@tcp(h)/d").where(), "h:3306/d");
  EXPECT_EQ(good("u@tcp/d").where(), "127.0.0.1:3306/d");
  EXPECT_EQ(good("u@/d").where(), "127.0.0.1:3306/d");
  EXPECT_EQ(good("u@tcp()/d").where(), "127.0.0.1:3306/d");
  EXPECT_EQ(good("u@tcp([::1])/d").where(), "[::1]:3306/d");
  EXPECT_EQ(good("u@tcp([fd00::5]:33)/d").where(), "[fd00::5]:33/d");
  EXPECT_TRUE(good("u@/d").password.empty());
  EXPECT_TRUE(good("u:@/d").password.empty());
}

TEST(MysqlDsn, MayNameASocket) {
  const MysqlDsn dsn = good("u:p@unix(/run/mysqld/mysqld.sock)/d");
  EXPECT_TRUE(dsn.host.empty());
  EXPECT_EQ(dsn.socket_path, "/run/mysqld/mysqld.sock");
  EXPECT_EQ(dsn.where(), "/run/mysqld/mysqld.sock/d");
  EXPECT_EQ(good("u@unix/d").socket_path, "/tmp/mysql.sock");
}

TEST(MysqlDsn, APasswordMayHoldWhatDividesTheRest) {
  EXPECT_EQ(good("u:p:a/s@s?w&o=r%d(d)@tcp(h:1)/d").password.reveal(), "p:a/s@s?w&o=r%d(d)");
}

TEST(MysqlDsn, TheDatabaseMayBeEscaped) {
  EXPECT_EQ(good("u@/a%2dB%3f%40").database, "a-B?@");
}

TEST(MysqlDsn, TimeoutsAreWholeSecondsWithinLimits) {
  const MysqlDsn none = good("u@/d");
  EXPECT_EQ(none.connect_timeout_s, 5);
  EXPECT_EQ(none.read_timeout_s, 30);
  EXPECT_EQ(none.write_timeout_s, 30);
  const MysqlDsn some = good("u@/d?timeout=1500ms&readTimeout=1m30s&writeTimeout=7s");
  EXPECT_EQ(some.connect_timeout_s, 2);
  EXPECT_EQ(some.read_timeout_s, 90);
  EXPECT_EQ(some.write_timeout_s, 7);
  const MysqlDsn zero = good("u@/d?timeout=0&readTimeout=0s");
  EXPECT_EQ(zero.connect_timeout_s, 5) << "0 is no limit elsewhere, and there always is one here";
  EXPECT_EQ(zero.read_timeout_s, 30);
  const MysqlDsn tiny = good("u@/d?timeout=1us&readTimeout=1us");
  EXPECT_EQ(tiny.connect_timeout_s, 1);
  EXPECT_EQ(tiny.read_timeout_s, 2);
  EXPECT_EQ(good("u@/d?readTimeout=1000h").read_timeout_s, 300);
  EXPECT_EQ(problem("u@/d?readTimeout=fast"), "readTimeout must be a duration such as 5s");
  EXPECT_EQ(problem("u@/d?timeout=-1s"), "timeout must be a duration such as 5s");
}

TEST(MysqlDsn, TellsWhetherItAsksForTls) {
  for (const char* value : {"true", "1", "skip-verify", "preferred", "my-profile"}) {
    EXPECT_TRUE(good(std::string("u@/d?tls=") + value).asks_for_tls) << value;
  }
  for (const char* value : {"false", "0", "FALSE"}) {
    EXPECT_FALSE(good(std::string("u@/d?tls=") + value).asks_for_tls) << value;
  }
  EXPECT_EQ(problem("u@/d?tls="), "tls must be true, false, skip-verify, preferred or the name of a profile");
}

TEST(MysqlDsn, TakesOnlyACharsetThatUnicodeCovers) {
  for (const char* list : {"utf8mb4", "utf8mb4,utf8", "utf8", "utf8mb3"})
    good(std::string("u@/d?charset=") + list);
  EXPECT_EQ(problem("u@/d?charset=latin1"), "charset must be utf8mb4");
  EXPECT_EQ(problem("u@/d?charset="), "charset must be utf8mb4");
}

TEST(MysqlDsn, OtherDriversParametersHaveNoEffect) {
  good("u@/d?parseTime=true&loc=Europe%2FBerlin&multiStatements=true&collation=utf8mb4_bin");
  good("u@/d?time_zone=%27%2B00%3A00%27&transaction_isolation=%27READ-COMMITTED%27&");
  good("u@/d?");
}

TEST(MysqlDsn, ProblemsSayWhatIsWrong) {
  EXPECT_EQ(problem(""), "is empty");
  EXPECT_EQ(problem("u:p@tcp(h)"), "there is no '/' before the name of the database");
  EXPECT_EQ(problem("u:p@tcp(h)/"), "there must be the name of a database behind '/'");
  EXPECT_EQ(problem("u:p@tcp(h)/?tls=true"), "there must be the name of a database behind '/'");
  EXPECT_EQ(problem("u@/a%2Fb"), "there must be the name of a database behind '/'");
  EXPECT_EQ(problem("u@/a%2"), "the database name has a broken %-escape");
  EXPECT_EQ(problem("tcp(h)/d"), "there is no user: user:password@tcp(host:port)/database");
  EXPECT_EQ(problem(":p@tcp(h)/d"), "there is no user name before '@'");
  EXPECT_EQ(problem("u:p@http(h)/d"),
            "the protocol must be tcp or unix: user:password@tcp(host:port)/database");
  EXPECT_EQ(problem("u:p@tcp(h/d"), "the address is not closed by ')' before '/'");
  EXPECT_EQ(problem("u:p@unix(relative)/d"), "the path in unix(...) must be an absolute path of a socket");
  for (const char* address : {"h:0", "h:x", "h:65536", "::1", "a,b", "h:1:2", "a b", ":3306"}) {
    EXPECT_EQ(problem(std::string("u:p@tcp(") + address + ")/d"),
              "the address in tcp(...) must be host, host:port or [IPv6 address]:port")
        << address;
  }
  EXPECT_EQ(problem("u@/d?parseTime"), "a parameter has no value");
  EXPECT_EQ(problem("u@/d?readtimeout=5s"), "it has a parameter that this program does not know");
  EXPECT_EQ(problem("u@/d?tls=%zz"), "the value of a parameter has a broken %-escape");
  EXPECT_EQ(problem("u:\xff@/d"), "user name and password must be UTF-8 without NUL");
}

// Whatever is left out or written twice, no piece of the account shows.
TEST(MysqlDsn, ProblemsHoldNothingOfTheAccount) {
  for (const char* text :
       {"MYUSER:HUNTER2", "MYUSER:HUNTER2@", "MYUSER:HUNTER2@tcp(h)", "MYUSER:a/HUNTER2@tcp(h)",
        "MYUSER:a/b?HUNTER2=x@tcp(h:1)", "MYUSER:a/b?HUNTER2=x", "MYUSER:HUNTER2/d",
        "tcp(MYUSER:HUNTER2@h)/d", "MYUSER:HUNTER2@tcp(MYUSER:HUNTER2)/d", "MYUSER:HUNTER2@HUNTER2(h)/d",
        "@MYUSER:HUNTER2(h)/d", "MYUSER:HUNTER2@tcp(h)/d?HUNTER2=x",
        "MYUSER:HUNTER2@tcp(h)/d?tls=true&HUNTER2"}) {
    const Opened<MysqlDsn> parsed = parse_mysql_dsn(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().text.find("HUNTER2"), std::string::npos) << parsed.error().text;
    EXPECT_EQ(parsed.error().text.find("MYUSER"), std::string::npos) << parsed.error().text;
  }
}

}  // namespace
}  // namespace tmesh::storage
