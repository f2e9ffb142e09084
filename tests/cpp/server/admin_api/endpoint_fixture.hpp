// Calls endpoints as functions, over the rows of ServiceFixture: what ApiHandler does
// before and after them that belongs to the contract (route, query, body, transaction), and
// nothing else.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cpp/server/admin_api/api_match.hpp"
#include "cpp/server/admin_api/api_request.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::test {

struct EndpointFixture : ServiceFixture {
  explicit EndpointFixture(std::span<const server::ApiRoute> table) : routes{table} {}

  // "GET /users?status=all". The caller is alice, an administrator, unless set otherwise;
  // nobody else than the row's `who` lets through may call.
  server::ApiResult call(std::string_view request, std::string_view body = {}) {
    const size_t space = request.find(' ');
    const size_t mark = request.find('?');
    const auto method = method_of(request.substr(0, space));
    const auto match =
        routes.find(method, "/api/v1" + std::string(request.substr(space + 1, mark - space - 1)));
    if (!match) return std::unexpected(match.error());
    if (match->route == nullptr) return server::api_error(405, match->allow);
    last_route = match->route;
    if (match->route->who == server::ApiWho::admin && caller().role != "admin") {
      return server::api_error(403, "for administrators only");
    }
    auto query = server::parse_query(mark == std::string_view::npos ? "" : request.substr(mark + 1));
    if (!query) return std::unexpected(query.error());
    if (auto good = server::check_query(*match->route, *query); !good) return std::unexpected(good.error());
    auto document = server::parse_body(match->route->body_members, body);
    if (!document) return std::unexpected(document.error());
    return run(*match->route, match->values, std::move(*query), document->root());
  }
  // As text: the data, or "status: refusal".
  std::string ask(std::string_view request, std::string_view body = {}) {
    const server::ApiResult result = call(request, body);
    if (!result) return std::to_string(result.error().status) + ": " + result.error().text;
    last = *result;
    EXPECT_TRUE(json::parse(last.data)) << last.data;
    EXPECT_TRUE(last.replay.empty() || json::parse(last.replay)) << last.replay;
    return last.data;
  }
  // A member of the data.
  std::string member(std::string_view text, std::string_view name) {
    const auto document = json::parse(text);
    if (!document) return std::string(text);
    const json::Value value = document->root().get(name);
    if (const auto found = value.as_string()) return std::string(*found);
    if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
    if (const auto number = value.as_int()) return std::to_string(*number);
    return value.is_null() ? "null" : value ? "(other)" : "(none)";
  }

  const storage::UserRecord& caller() const { return who ? *who : alice; }

  server::ApiRoutes routes;
  std::optional<storage::UserRecord> who;
  server::PreparedPassword password{Secret("new password in full"), "new hash", "hash"};
  std::span<const server::LiveAgentLink> live;
  std::string_view node_id;  // of this server
  http::Headers headers;
  const server::SecretBox* secret_box = nullptr;
  const server::ApiRoute* last_route = nullptr;
  server::ApiReply last;

 private:
  static http::Method method_of(std::string_view name) {
    for (size_t i = 0; i < http::kMethodCount; ++i) {
      if (http::method_name(static_cast<http::Method>(i)) == name) return static_cast<http::Method>(i);
    }
    ADD_FAILURE() << name;
    return http::Method::options;
  }
  server::ApiResult run(const server::ApiRoute& route, std::vector<std::string> values,
                        server::ApiQuery query, json::Value body) {
    server::ApiCall call{.db = *db, .caller = caller()};
    call.now_us = time.now_us;
    call.session_id = "session-of-caller";
    call.path = std::move(values);
    call.query = std::move(query);
    call.body = body;
    call.headers = &headers;
    call.secret_box = secret_box;
    if (route.makes_password || route.changes_password) call.password = &password;
    call.live = live;
    call.node_id = node_id;
    const bool is_read = route.method == http::Method::get;
    Result<storage::Transaction> tx =
        is_read ? storage::Transaction::read(*db) : storage::Transaction::write(*db);
    EXPECT_TRUE(tx);
    const server::ChangeScope scope(*tx, time.now_us, caller().id);
    if (!is_read) call.change = &scope;
    server::ApiResult result = route.run(call);
    if (result && !is_read) {
      EXPECT_TRUE(tx->commit());
    }
    return result;
  }
};

}  // namespace tmesh::test
