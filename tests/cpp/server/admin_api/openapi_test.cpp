// docs/api/openapi.yaml says what the tables of the API say, both ways: operations, who may
// call them, members of bodies and query parameters. (Bodies of answers: tests/e2e/test_openapi.py.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cpp/base/parse.hpp"
#include "cpp/config/yaml.hpp"
#include "cpp/server/admin_api/api_handler.hpp"

namespace tmesh::server {
namespace {

using Names = std::set<std::string>;

struct Operation {
  std::string who;
  Names members;  // in lower case, as read_yaml gives keys
  Names query;
  bool is_list = false;

  bool operator==(const Operation&) const = default;
};
using Operations = std::map<std::string, Operation>;  // by "GET /api/v1/agents"

void PrintTo(const Operation& operation, std::ostream* out) {
  *out << "who " << operation.who << (operation.is_list ? ", list" : "") << ", members";
  for (const std::string& name : operation.members) *out << ' ' << name;
  *out << ", query";
  for (const std::string& name : operation.query) *out << ' ' << name;
}

struct Document {
  std::vector<config::YamlNode> nodes;

  static Document read() {
    std::ifstream file(TMESH_OPENAPI);
    std::ostringstream text;
    text << file.rdbuf();
    config::Problems problems;
    Document document{config::read_yaml(text.str(), "openapi.yaml", problems)};
    EXPECT_FALSE(document.nodes.empty()) << TMESH_OPENAPI;
    return document;
  }
  std::string value(const std::string& path) const {
    const auto found = std::ranges::find(nodes, path, &config::YamlNode::path);
    return found == nodes.end() ? "" : found->value;
  }
  // The names of what is directly below.
  Names below(const std::string& path) const {
    Names names;
    for (const config::YamlNode& node : nodes) {
      if (!node.path.starts_with(path + ".")) continue;
      names.insert(node.path.substr(path.size() + 1, node.path.find('.', path.size() + 1) - path.size() - 1));
    }
    return names;
  }
  // "#/components/schemas/NewUser" -> "components.schemas.newuser"
  static std::string target(const std::string& reference) {
    std::string path = ascii_lower(reference.substr(std::min<std::size_t>(reference.size(), 2)));
    std::ranges::replace(path, '/', '.');
    return path;
  }
  Operation operation(const std::string& path) const {
    Operation found;
    found.who = value(path + ".x-who");
    const std::string body = value(path + ".requestbody.content.application/json.schema.$ref");
    if (!body.empty()) found.members = below(target(body) + ".properties");
    Names list_names;
    for (std::size_t i = 0;; ++i) {
      const std::string reference = value(path + ".parameters[" + std::to_string(i) + "].$ref");
      if (reference.empty()) break;
      if (value(target(reference) + ".in") != "query") continue;
      const std::string name = value(target(reference) + ".name");
      (name == "cursor" || name == "limit" ? list_names : found.query).insert(name);
    }
    found.is_list = list_names.size() == 2;
    return found;
  }
  Operations operations() const {
    Operations found;
    for (const std::string& path : below("paths")) {
      if (!path.starts_with(kApiBase)) continue;  // health has no table
      for (const std::string& method : below("paths." + path)) {
        found[ascii_upper(method) + " " + path] = operation("paths." + path + "." + method);
      }
    }
    return found;
  }
};

Operations of_tables() {
  Operations found;
  const ApiRoutes routes(login_routes(),
                         {auth_routes(), people_routes(), access_routes(), presence_routes()});
  constexpr std::array kWho = {"anyone", "user", "admin"};
  for (const ApiRoute* row : routes.all()) {
    Operation operation;
    operation.who = kWho[static_cast<std::size_t>(row->who)];
    for (const char* name : row->body_members) operation.members.insert(ascii_lower(name));
    operation.query = Names(row->query_names.begin(), row->query_names.end());
    operation.is_list = row->is_list;
    found[std::string(http::method_name(row->method)) + " " + std::string(kApiBase) + row->path] = operation;
  }
  return found;
}

TEST(OpenApi, DescribesEveryRouteAndNoOther) {
  const Operations documented = Document::read().operations();
  const Operations served = of_tables();
  for (const auto& [name, operation] : served) {
    const auto found = documented.find(name);
    if (found == documented.end()) {
      ADD_FAILURE() << name << " is not documented";
    } else {
      EXPECT_EQ(found->second, operation) << name;
    }
  }
  for (const auto& [name, operation] : documented) {
    EXPECT_TRUE(served.contains(name)) << name << " is documented and not served";
  }
}

TEST(OpenApi, ComparesWhatItReads) {
  const Document document = Document::read();
  EXPECT_EQ(document.operation("paths./api/v1/users.get").query, Names{"status"});
  EXPECT_TRUE(document.operation("paths./api/v1/users.get").is_list);
  EXPECT_EQ(document.operation("paths./api/v1/users.post").members, Names{"username"});
  EXPECT_EQ(document.operation("paths./api/v1/users.post").who, "admin");
}

}  // namespace
}  // namespace tmesh::server
