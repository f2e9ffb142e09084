#include "cpp/server/admin_api/api_reply.hpp"

#include <string>

namespace tmesh::server {
namespace {

http::Response envelope(int status, std::string_view data) {
  std::string body;
  json::Writer(body)
      .begin_object()
      .member("code", status)
      .member("msg", http::reason_phrase(status))
      .key("data")
      .raw(data)
      .end_object();
  http::Response response = http::Response::json(status, std::move(body));
  response.headers.add("Cache-Control", "no-store");
  response.headers.add("X-Content-Type-Options", "nosniff");
  return response;
}

}  // namespace

http::Response api_response(const ApiError& error) {
  std::string data;
  json::Writer(data).begin_object().member("error", error.text).end_object();
  http::Response response = envelope(error.status, data);
  if (error.status == 401) response.headers.add("WWW-Authenticate", "Bearer realm=\"tunnelmesh\"");
  if (error.status == 503) response.headers.add("Retry-After", "1");
  return response;
}

http::Response api_response(const ApiResult& result) {
  return result ? envelope(result->status, result->data) : api_response(result.error());
}

http::Response throttled_response(uint64_t retry_after_us) {
  constexpr uint64_t second_us = 1'000'000;
  http::Response response =
      api_response(ApiError{.status = 429, .text = "too many failed attempts; try again later"});
  response.headers.add("Retry-After", std::to_string((retry_after_us + second_us - 1) / second_us));
  return response;
}

}  // namespace tmesh::server
