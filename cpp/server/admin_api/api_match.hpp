// Which route a request's path and query mean. Pure functions over the tables; no I/O.
//
// Fixed parts of a path compare byte by byte as sent; the {…} parts and the query are
// percent-decoded strictly (RFC 3986): two hex digits behind every '%', UTF-8, no control
// characters, at most kApiValueBytesMax bytes. Nothing is decoded twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpp/server/admin_api/api.hpp"

namespace tmesh::server {

// Where the tables' paths begin.
inline constexpr std::string_view kApiBase = "/api/v1";
// Ids are at most 255 bytes and cursors of two of them are base64.
inline constexpr std::size_t kApiValueBytesMax = 1024;
// The lists with most filters know eight.
inline constexpr std::size_t kApiQueryCountMax = 32;

// nullopt: not what the rules above say. In queries '+' is a space (form encoding).
std::optional<std::string> percent_decode(std::string_view text, bool is_query);

using ApiQuery = std::vector<std::pair<std::string, std::string>>;
// "a=1&b=2" as sent. 400: malformed, a name twice, too many.
ApiFound<ApiQuery> parse_query(std::string_view text);

// "<what> \"<name>\" is not known; did you mean …", for a 400. The name is cut.
ApiError unknown_name(std::string_view what, std::string_view name,
                      std::span<const std::string_view> candidates);

struct ApiMatch {
  const ApiRoute* route = nullptr;  // null: the path has other methods
  std::vector<std::string> values;  // of the {…} parts, in order
  std::string allow;                // the path's methods, as an Allow field lists them
};

// The union of some tables, which outlive it.
class ApiRoutes {
 public:
  // Asserted: no two rows of a table union have the same method and a path that the same
  // request could mean; a row that reads has no body, no password and no `after`.
  explicit ApiRoutes(std::initializer_list<std::span<const ApiRoute>> tables);
  ApiRoutes(std::span<const ApiRoute> first, std::initializer_list<std::span<const ApiRoute>> others);

  // `path` as sent, without the query. HEAD finds what GET finds. 404: no such path. 400: a
  // value in it is malformed.
  ApiFound<ApiMatch> find(http::Method method, std::string_view path) const;

  // Every row, in the order of the tables.
  std::span<const ApiRoute* const> all() const { return rows_; }

 private:
  struct Parsed {
    std::vector<std::string_view> parts;  // "{…}" stay as they are
  };
  void add(std::span<const ApiRoute> table);

  std::vector<const ApiRoute*> rows_;
  std::vector<Parsed> parsed_;  // beside rows_
};

// Every query name that the route does not know, or that it knows as a list only. 400.
ApiFound<void> check_query(const ApiRoute& route, const ApiQuery& query);

}  // namespace tmesh::server
