// Runs administration commands over the rows of ServiceFixture.
#pragma once

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "cpp/base/json.hpp"
#include "cpp/server/admin_commands.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "tests/cpp/server/admin_fixture.hpp"
#include "tests/cpp/server/capture.hpp"

namespace tmesh::test {

struct Ran {
  int exit_code;
  std::string out;
  std::string err;
};

// Random parts by what they are, so that the rest can be compared as it is.
inline std::string golden(std::string text) {
  const std::pair<const char*, const char*> random[] = {
      {"user-[A-Za-z0-9_-]{16}", "<user>"},     {"agent-[0-9a-f]{24}", "<agent>"},
      {"policy-[A-Za-z0-9_-]{16}", "<policy>"}, {"stok_[A-Za-z0-9_-]{22}", "<token>"},
      {"[A-Za-z0-9_-]{43}", "<secret>"},        {"[A-Za-z0-9_-]{32}", "<password>"}};
  for (const auto& [pattern, name] : random) text = std::regex_replace(text, std::regex(pattern), name);
  return text;
}

struct Commands : ServiceFixture {
  Ran run(const std::string& resource, const std::string& verb, std::vector<std::string> arguments = {},
          std::vector<server::AdminOption> options = {}, bool is_json = false) {
    Capture out;
    Capture err;
    server::AdminRequest request{
        resource, verb,         std::move(arguments), std::move(options), is_json,   sqlite_settings(path),
        true,     time.clock(), out.file(),           err.file(),         secret_box};
    const int code = server::run_admin(request);
    return {code, out.text(), err.text()};
  }
  Ran json(const std::string& resource, const std::string& verb, std::vector<std::string> arguments = {},
           std::vector<server::AdminOption> options = {}) {
    return run(resource, verb, std::move(arguments), std::move(options), true);
  }
  static std::string member(const std::string& text, std::string_view key) {
    const Result<json::Document> document = json::parse(text);
    EXPECT_TRUE(document) << text;
    return std::string(document->root().get(key).as_string().value_or("(not there)"));
  }
  void expect_usage(const Ran& ran, const char* err) {
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(ran.err, err);
  }
  void expect_failure(const Ran& ran, const char* err) {
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(ran.err, err);
  }
  const server::SecretBox* secret_box = nullptr;
  size_t audit_rows() { return storage::AuditRepository(*db).newest(500)->size(); }
};

}  // namespace tmesh::test
