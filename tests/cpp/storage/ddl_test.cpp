// The limits of MySQL 5.6 with utf8mb4, checked on the text of the DDL, so that they
// hold even where no MySQL is at hand (LESSONS R19).
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <regex>
#include <string>

#include "cpp/storage/scripts.hpp"
#include "cpp/storage/sql_splitter.hpp"

namespace tmesh::storage {
namespace {

constexpr int key_bytes_max = 767;
constexpr int row_bytes_max = 8126;
constexpr int longest_inline_bytes = 768;  // what a long VARCHAR keeps in the row
constexpr int text_inline_bytes = 40;      // what a TEXT keeps there when the row needs room

struct Column {
  std::string type;
  int bytes = 0;
};
using Table = std::map<std::string, Column>;

int width(const std::string& type) {
  std::smatch match;
  if (std::regex_match(type, match, std::regex(R"(VARBINARY\((\d+)\))"))) return std::stoi(match[1]);
  if (std::regex_match(type, match, std::regex(R"(VARCHAR\((\d+)\))"))) return 4 * std::stoi(match[1]);
  if (type == "INTEGER") return 4;
  if (type == "BIGINT") return 8;
  return -1;  // TEXT
}

struct Schema {
  std::map<std::string, Table> tables;
  std::vector<std::pair<std::string, std::string>> keys;  // table, column
};

void add_keys(Schema& schema, const std::string& table, const std::string& list) {
  const std::regex name(R"(\w+)");
  for (auto at = std::sregex_iterator(list.begin(), list.end(), name); at != std::sregex_iterator(); ++at) {
    schema.keys.emplace_back(table, at->str());
  }
}

Schema read_ddl() {
  Schema schema;
  const Result<std::vector<std::string_view>> statements = split_sql(ddl_sql, Driver::mysql);
  for (const std::string_view view : *statements) {
    const std::string text = std::regex_replace(std::string(view), std::regex("--[^\n]*"), "");
    std::smatch match;
    if (std::regex_search(text, match, std::regex(R"(CREATE INDEX \w+ ON (\w+) \(([^)]*)\))"))) {
      add_keys(schema, match[1], match[2]);
    } else if (std::regex_search(text, match, std::regex(R"(CREATE TABLE IF NOT EXISTS (\w+) \()"))) {
      const std::string table = match[1];
      const std::string body = match.suffix();
      const std::regex line(
          R"((?:^|\n)\s+(?:(PRIMARY KEY|UNIQUE) \(([^)]*)\)|(\w+) ([A-Z]+(?:\(\d+\))?)([^\n]*)))");
      for (auto at = std::sregex_iterator(body.begin(), body.end(), line); at != std::sregex_iterator();
           ++at) {
        if ((*at)[1].matched) {
          add_keys(schema, table, (*at)[2]);
          continue;
        }
        schema.tables[table][(*at)[3]] = {(*at)[4], width((*at)[4])};
        const std::string rest = (*at)[5];
        if (rest.find("PRIMARY KEY") != std::string::npos || rest.find("UNIQUE") != std::string::npos) {
          schema.keys.emplace_back(table, (*at)[3]);
        }
      }
    }
  }
  return schema;
}

TEST(Ddl, EveryIndexedColumnFitsAMysql56Key) {
  const Schema schema = read_ddl();
  ASSERT_EQ(schema.tables.size(), 16U);
  ASSERT_GT(schema.keys.size(), 40U);
  for (const auto& [table, column] : schema.keys) {
    ASSERT_TRUE(schema.tables.at(table).contains(column)) << table << '.' << column;
    const int bytes = schema.tables.at(table).at(column).bytes;
    EXPECT_GT(bytes, 0) << table << '.' << column << " has no bound";
    EXPECT_LE(bytes, key_bytes_max) << table << '.' << column;
  }
}

TEST(Ddl, EveryRowFitsAMysql56Page) {
  for (const auto& [table, columns] : read_ddl().tables) {
    int bytes = 0;
    for (const auto& [name, column] : columns) {
      bytes += column.bytes < 0 ? text_inline_bytes : std::min(column.bytes, longest_inline_bytes);
    }
    EXPECT_LE(bytes, row_bytes_max) << table;
  }
}

// A server's own defaults may be an engine without transactions and a comparison that does not
// tell upper from lower case.
TEST(Ddl, EveryTableOnMysqlHasTransactionsAndBinaryText) {
  int tables = 0;
  const Result<std::vector<std::string_view>> statements = split_sql(ddl_sql, Driver::mysql);
  for (const std::string_view statement : *statements) {
    if (statement.find("CREATE TABLE") == std::string_view::npos) continue;
    ++tables;
    EXPECT_TRUE(statement.ends_with(") /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */"))
        << statement;
  }
  EXPECT_EQ(tables, 16);
}

TEST(Ddl, TextHasNoDefault) {
  EXPECT_FALSE(std::regex_search(std::string(ddl_sql), std::regex(R"(TEXT NOT NULL DEFAULT)")));
}

}  // namespace
}  // namespace tmesh::storage
