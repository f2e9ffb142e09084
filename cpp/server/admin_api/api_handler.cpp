#include "cpp/server/admin_api/api_handler.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/check.h"
#include "cpp/base/log.hpp"
#include "cpp/server/admin_api/api_flow.hpp"
#include "cpp/server/admin_api/api_reply.hpp"
#include "cpp/server/admin_api/api_request.hpp"
#include "cpp/server/admin_api/login_flow.hpp"

namespace tmesh::server {
namespace {

// A name and a password, and room for an odd client's white space.
constexpr std::size_t login_body_bytes_max = 4096;
// Endpoints look at small fields; an unusually long one is not worth its copy.
constexpr std::size_t header_value_bytes_max = 1024;

constexpr std::array login_members = {"username", "password"};

ApiResult login_is_a_flow(ApiCall&) {
  return api_error(500, "a login is no endpoint");
}
constexpr ApiRoute login_table[] = {{.method = http::Method::post,
                                     .path = "/auth/login",
                                     .who = ApiWho::anyone,
                                     .run = login_is_a_flow,
                                     .body_members = login_members}};

http::Headers headers_for_endpoint(const http::Headers& sent) {
  http::Headers kept;
  for (const http::Header& field : sent) {
    if (http::equals_ignoring_case(field.name, "Authorization")) continue;
    if (field.value.size() <= header_value_bytes_max) kept.add(field.name, field.value);
  }
  return kept;
}

}  // namespace

std::span<const ApiRoute> login_routes() {
  return login_table;
}

ApiHandler::ApiHandler(Parts parts, std::unique_ptr<PasswordPool> passwords,
                       std::initializer_list<std::span<const ApiRoute>> routes, ApiSettings settings)
    : timers_(parts.timers),
      lane_(parts.lane),
      live_(parts.live),
      events_(parts.events),
      settings_(std::move(settings)),
      routes_(login_routes(), routes),
      passwords_(std::move(passwords)),
      throttle_(settings_.login_throttle),
      requests_(settings_.requests),
      login_admission_(settings_.logins) {}

ApiHandler::~ApiHandler() {
  requests_.stop();
  login_admission_.stop();
}

void ApiHandler::on_request(http::Exchange& exchange) {
  auto request = judge(exchange);
  if (!request) return exchange.respond(request.error());
  if (request->route == login_table) return start_login(exchange, *request);
  flows_.push_back(std::make_unique<ApiFlow>(*this, std::move(*request), address_of(exchange)));
  ApiFlow& flow = *flows_.back();
  flow.place = std::prev(flows_.end());
  flow.start(exchange);
}

std::expected<ApiRequest, http::Response> ApiHandler::judge(http::Exchange& exchange) const {
  const http::Request& sent = exchange.request();
  const auto refuse = [](const ApiError& error) { return std::unexpected(api_response(error)); };
  if (!is_served_host(sent.host())) return refuse({.status = 421, .text = "this host is not served here"});
  auto match = routes_.find(sent.method, sent.path);
  if (!match) return refuse(match.error());
  if (match->route == nullptr) {
    const bool is_question = sent.method == http::Method::options;
    http::Response answer;
    if (is_question) {
      answer.status = 204;
    } else {
      answer = api_response(ApiError{.status = 405, .text = "this path has other methods"});
    }
    answer.headers.add("Allow", match->allow);
    return std::unexpected(std::move(answer));
  }
  ApiRequest request;
  request.route = match->route;
  request.values = std::move(match->values);
  request.method = sent.method;
  if (request.route->who != ApiWho::anyone) {
    auto bearer = bearer_of(sent.headers);
    if (!bearer) return refuse(bearer.error());
    request.bearer = std::move(*bearer);
  }
  if (auto content = check_content(sent); !content) return refuse(content.error());
  auto query = parse_query(sent.query);
  if (!query) return refuse(query.error());
  if (auto known = check_query(*request.route, *query); !known) return refuse(known.error());
  auto key = idempotency_key_of(sent.headers);
  if (!key) return refuse(key.error());
  request.query = std::move(*query);
  request.idempotency_key = std::move(*key);
  request.target = sent.path + (sent.has_query ? "?" : "") + sent.query;
  request.headers = headers_for_endpoint(sent.headers);
  request.node_id = settings_.node_id;
  request.secret_box = settings_.secret_box;
  return request;
}

bool ApiHandler::is_served_host(std::string_view host) const {
  return settings_.allowed_hosts.empty() ||
         std::ranges::any_of(settings_.allowed_hosts, [&](const std::string& allowed) {
           return http::equals_ignoring_case(allowed, host);
         });
}

IpAddress ApiHandler::address_of(http::Exchange& exchange) const {
  return client_address(exchange.peer().ip, exchange.request().headers, settings_.trusted_proxies);
}

void ApiHandler::start_login(http::Exchange& exchange, const ApiRequest& request) {
  const std::string& body = exchange.request().body;
  const auto refuse = [&](const ApiError& error) { exchange.respond(api_response(error)); };
  if (body.size() > login_body_bytes_max)
    return refuse({.status = 413, .text = "a login is shorter than this"});
  auto document = parse_body(request.route->body_members, body);
  if (!document) return refuse(document.error());
  const auto username = document->root().get("username").as_string();
  const auto password = document->root().get("password").as_string();
  if (!username) return refuse({.status = 400, .text = "username: a text is required"});
  if (!password) return refuse({.status = 400, .text = "password: a text is required"});
  logins_.push_back(
      std::make_unique<LoginFlow>(*this, std::string(*username), Secret(*password), address_of(exchange)));
  LoginFlow& flow = *logins_.back();
  flow.place = std::prev(logins_.end());
  flow.start(exchange);
}

void ApiHandler::remove(ApiFlow& flow) {
  // Out of the list first: its end may start others, which may end at once.
  std::list<std::unique_ptr<ApiFlow>> gone;
  gone.splice(gone.end(), flows_, flow.place);
}

void ApiHandler::remove(LoginFlow& flow) {
  std::list<std::unique_ptr<LoginFlow>> gone;
  gone.splice(gone.end(), logins_, flow.place);
}

void ApiHandler::log_error(const ApiError& error) {
  if (error.cause == nullptr || !error_log_.admits(timers_.now_us())) return;
  if (const uint64_t dropped = error_log_.take_dropped(); dropped > 0) {
    log::warn("api_errors_not_logged", {{"count", dropped}});
  }
  log::write(error.status == 500 ? log::Level::error : log::Level::warn, "api_failed",
             {{"status", error.status}, {"reason", error.cause}});
}

}  // namespace tmesh::server
