// Fuzzing of what the administration API does with a request before anybody is known: path,
// query, cursor, and body to a route and its values. A path finds a row or none, never two
// readings; what is decoded is UTF-8 without control characters, and encoding it again finds
// the same row with the same values; a query has no name twice and none the row does not know;
// a cursor that is taken is the one that its id gives; and a body that is taken is one object
// with members the row has. Refusals are statuses of the list, with a text that is JSON.
//
// Input: method, then path, query, body, and headers' values, each behind a line feed.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/utf8.hpp"
#include "cpp/server/admin_api/api_handler.hpp"
#include "cpp/server/admin_api/api_reply.hpp"
#include "cpp/server/admin_api/api_request.hpp"
#include "fuzz/fuzz.h"

namespace {

namespace http = tmesh::http;
namespace json = tmesh::json;
using tmesh::server::ApiError;
using tmesh::server::ApiMatch;
using tmesh::server::ApiQuery;
using tmesh::server::ApiRoute;
using tmesh::server::ApiRoutes;

// For calls that ask no database.
class NoDatabase final : public tmesh::storage::Db {
 public:
  using Params = tmesh::storage::Params;
  using Names = tmesh::Result<std::vector<std::string>>;
  tmesh::storage::Driver driver() const override { return tmesh::storage::Driver::sqlite; }
  tmesh::Result<uint64_t> execute(std::string_view, Params) override { return none(); }
  tmesh::Result<void> query(std::string_view, Params,
                            tmesh::Delegate<bool(const tmesh::storage::Row&)>) override {
    return none();
  }
  Names tables() override { return none(); }
  Names columns(std::string_view) override { return none(); }
  tmesh::Result<bool> has_index(std::string_view) override { return none(); }
  tmesh::Result<uint64_t> foreign_commits() override { return none(); }
  std::string_view lock_suffix() const override { return {}; }

 private:
  static std::unexpected<tmesh::Error> none() { return tmesh::fail(TMESH_E_IO, "there is no database"); }
  tmesh::Result<void> begin(bool) override { return none(); }
  tmesh::Result<void> commit() override { return none(); }
  void rollback() override {}
};

bool is_clean(std::string_view text) {
  return tmesh::utf8_valid(text) &&
         std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; });
}

void check_refusal(const ApiError& error) {
  const std::array known = {400, 401, 404, 413, 415, 421, 503};
  FUZZ_CHECK(std::ranges::find(known, error.status) != known.end());
  FUZZ_CHECK(error.text.size() < 300);
  const http::Response response = tmesh::server::api_response(error);
  const auto parsed = json::parse(response.body);
  FUZZ_CHECK(parsed.has_value());
  FUZZ_CHECK(parsed->root().get("code").as_int() == error.status);
  FUZZ_CHECK(parsed->root().get("data").get("error").as_string().has_value());
}

std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    out += '%';
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

// A row's path with these values.
std::string path_of(const ApiRoute& route, const std::vector<std::string>& values) {
  std::string path(tmesh::server::kApiBase);
  std::size_t next = 0;
  for (std::string_view rest = route.path; !rest.empty();) {
    if (rest.front() != '{') {
      path += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    FUZZ_CHECK(next < values.size());
    path += encoded(values[next++]);
    rest.remove_prefix(rest.find('}') + 1);
  }
  FUZZ_CHECK(next == values.size());
  return path;
}

void check_match(const ApiRoutes& routes, http::Method method, const ApiMatch& match) {
  FUZZ_CHECK(!match.allow.empty());
  if (match.route == nullptr) return;
  FUZZ_CHECK(match.route->method == (method == http::Method::head ? http::Method::get : method));
  for (const std::string& value : match.values) {
    FUZZ_CHECK(is_clean(value) && value.size() <= tmesh::server::kApiValueBytesMax);
  }
  const auto again = routes.find(method, path_of(*match.route, match.values));
  FUZZ_CHECK(again && again->route == match.route && again->values == match.values);
}

void check_query(const ApiRoute& route, std::string_view text) {
  const auto query = tmesh::server::parse_query(text);
  if (!query) return check_refusal(query.error());
  FUZZ_CHECK(query->size() <= tmesh::server::kApiQueryCountMax);
  std::string again;
  for (auto it = query->begin(); it != query->end(); ++it) {
    FUZZ_CHECK(is_clean(it->first) && is_clean(it->second));
    FUZZ_CHECK(std::none_of(query->begin(), it, [&](const auto& other) { return other.first == it->first; }));
    again += (again.empty() ? "" : "&") + encoded(it->first) + "=" + encoded(it->second);
  }
  const auto same = tmesh::server::parse_query(again);
  FUZZ_CHECK(same && *same == *query);
  if (const auto known = tmesh::server::check_query(route, *query); !known) check_refusal(known.error());
}

void check_page(std::string_view cursor, std::string_view limit) {
  NoDatabase no_database;
  tmesh::server::ApiCall call{no_database};
  call.query = {{"cursor", std::string(cursor)}, {"limit", std::string(limit.empty() ? "50" : limit)}};
  const auto page = tmesh::server::page_request(call);
  if (!page) return check_refusal(page.error());
  FUZZ_CHECK(page->limit >= 1 && page->limit <= tmesh::storage::PageRequest::limit_max);
  FUZZ_CHECK(is_clean(page->after_id) && page->after_id.size() <= 255);
  FUZZ_CHECK(page->after_id.empty() || tmesh::server::cursor_of(page->after_id) == cursor);
}

void check_body(const ApiRoute& route, const http::Request& request) {
  if (const auto content = tmesh::server::check_content(request); !content) {
    return check_refusal(content.error());
  }
  const auto document = tmesh::server::parse_body(route.body_members, request.body);
  if (!document) return check_refusal(document.error());
  std::size_t count = 0;
  for (const json::Value member : document->root()) {
    const auto is_it = [&](const char* name) { return member.key() == name; };
    FUZZ_CHECK(std::ranges::any_of(route.body_members, is_it));
    ++count;
  }
  FUZZ_CHECK(count <= route.body_members.size());
}

void check_headers(const http::Headers& headers) {
  if (const auto bearer = tmesh::server::bearer_of(headers); !bearer) {
    FUZZ_CHECK(bearer.error().status == 401);
  } else {
    FUZZ_CHECK(!bearer->empty() && bearer->size() <= tmesh::server::kApiBearerBytesMax);
  }
  if (const auto key = tmesh::server::idempotency_key_of(headers); !key) {
    check_refusal(key.error());
  } else if (*key) {
    FUZZ_CHECK(is_clean(**key) && !(*key)->empty() &&
               (*key)->size() <= tmesh::server::kApiIdempotencyKeyBytesMax);
  }
  const tmesh::IpAddress peer = *tmesh::parse_ip("10.0.0.1");
  const std::vector<tmesh::Cidr> trusted = {*tmesh::parse_cidr("10.0.0.0/8")};
  FUZZ_CHECK(tmesh::server::client_address(peer, headers, {}) == peer);
  FUZZ_CHECK(tmesh::server::client_address(peer, headers, trusted).family != 0);
}

std::string_view take_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ApiRoutes routes(tmesh::server::login_routes(),
                                {tmesh::server::auth_routes(), tmesh::server::people_routes(),
                                 tmesh::server::access_routes(), tmesh::server::presence_routes()});
  if (size == 0) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  http::Request request;
  request.method = static_cast<http::Method>(data[0] % http::kMethodCount);
  rest.remove_prefix(1);
  request.path = take_line(rest);
  request.query = take_line(rest);
  const std::string cursor(take_line(rest));
  const std::string limit(take_line(rest));
  for (const char* name : {"Authorization", "Idempotency-Key", "Content-Type", "X-Forwarded-For"}) {
    const std::string_view value = take_line(rest);
    if (!value.empty()) request.headers.add(name, value);
  }
  request.body = rest;

  check_headers(request.headers);
  check_page(cursor, limit);
  const auto match = routes.find(request.method, request.path);
  if (!match) {
    check_refusal(match.error());
    return 0;
  }
  check_match(routes, request.method, *match);
  if (match->route == nullptr) return 0;
  check_query(*match->route, request.query);
  check_body(*match->route, request);
  return 0;
}
