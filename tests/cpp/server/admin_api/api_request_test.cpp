#include "cpp/server/admin_api/api_request.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tmesh::server {
namespace {

constexpr std::array kMembers = {"name", "ownerUserId", "enabled"};

std::string bearer(const http::Headers& headers) {
  const auto secret = bearer_of(headers);
  if (!secret) return std::to_string(secret.error().status);
  return std::string(secret->reveal());
}

std::string body(std::string_view text, std::span<const char* const> members = kMembers) {
  const auto parsed = parse_body(members, text);
  return parsed ? "accepted" : std::to_string(parsed.error().status) + " " + parsed.error().text;
}

TEST(ApiRequest, OneBearerTokenIsRequired) {
  EXPECT_EQ(bearer({{"Authorization", "Bearer abc-._~+/="}}), "abc-._~+/=");
  EXPECT_EQ(bearer({{"authorization", "bEARER abc"}}), "abc");
  for (const http::Headers& headers : std::initializer_list<http::Headers>{
           {},
           {{"Authorization", "Bearer a"}, {"Authorization", "Bearer b"}},
           {{"Authorization", "Bearer"}},
           {{"Authorization", "Bearer "}},
           {{"Authorization", "Basic abc"}},
           {{"Authorization", "Bearer a b"}},
           {{"Authorization", "Bearer \xc3\xa4"}},
           {{"Authorization", "Bearer " + std::string(kApiBearerBytesMax + 1, 'a')}}}) {
    EXPECT_EQ(bearer(headers), "401");
  }
}

TEST(ApiRequest, IdempotencyKeysArePrintableAndBounded) {
  EXPECT_EQ(idempotency_key_of({}).value(), std::nullopt);
  EXPECT_EQ(idempotency_key_of({{"idempotency-key", "a b"}}).value(), "a b");
  EXPECT_TRUE(idempotency_key_of({{"Idempotency-Key", std::string(255, 'k')}}));
  for (const http::Headers& headers :
       std::initializer_list<http::Headers>{{{"Idempotency-Key", ""}},
                                            {{"Idempotency-Key", std::string(256, 'k')}},
                                            {{"Idempotency-Key", "a\tb"}},
                                            {{"Idempotency-Key", "\xc3\xa4"}},
                                            {{"Idempotency-Key", "a"}, {"Idempotency-Key", "a"}}}) {
    EXPECT_EQ(idempotency_key_of(headers).error().status, 400);
  }
}

TEST(ApiRequest, ABodyIsJson) {
  http::Request request;
  request.method = http::Method::post;
  EXPECT_TRUE(check_content(request));
  request.body = "{}";
  EXPECT_EQ(check_content(request).error().status, 415);
  for (const char* type : {"application/json", "Application/JSON", "application/json; charset=utf-8",
                           "application/json;charset=UTF-8 ", "application/json; charset=\"utf-8\""}) {
    request.headers = {{"Content-Type", type}};
    EXPECT_TRUE(check_content(request)) << type;
  }
  for (const char* type : {"", "text/plain", "application/jsonp", "application/json; charset=latin1",
                           "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                           "application/json, text/plain", "application/json;"}) {
    request.headers = {{"Content-Type", type}};
    EXPECT_EQ(check_content(request).error().status, 415) << type;
  }
  request.headers = {{"Content-Type", "application/json"}, {"Content-Type", "application/json"}};
  EXPECT_EQ(check_content(request).error().status, 415);
}

TEST(ApiRequest, WhatReadsHasNoBody) {
  http::Request request;
  request.headers = {{"Content-Type", "application/json"}};
  request.body = "{}";
  for (const http::Method method : {http::Method::get, http::Method::head, http::Method::options}) {
    request.method = method;
    EXPECT_EQ(check_content(request).error().status, 400);
  }
}

TEST(ApiRequest, ABodyIsOneObjectOfKnownMembers) {
  EXPECT_EQ(body(R"({"name":"x","enabled":true})"), "accepted");
  EXPECT_EQ(body("{}"), "accepted");
  EXPECT_EQ(body(""), "400 a JSON object is expected as the body");
  EXPECT_EQ(body("[]"), "400 a JSON object is expected as the body");
  EXPECT_EQ(body("null"), "400 a JSON object is expected as the body");
  EXPECT_EQ(body(R"({"name":"x"} x)").substr(0, 26), "400 the body is not JSON: ");
  EXPECT_EQ(body("{\"name\":\"\xff\"}").substr(0, 26), "400 the body is not JSON: ");
  EXPECT_EQ(body(R"({"name":"\u0000"})").substr(0, 26), "400 the body is not JSON: ");
  EXPECT_EQ(body(R"({"owner":1})"), "400 the member \"owner\" is not known");
  EXPECT_EQ(body(R"({"ownerUserID":1})"),
            "400 the member \"ownerUserID\" is not known; did you mean \"ownerUserId\"?");
  EXPECT_EQ(body(R"({"Name":1})"), "400 the member \"Name\" is not known; did you mean \"name\"?");
  EXPECT_EQ(body(R"({"name":"a","name":"b"})"), "400 name: is given twice");
  EXPECT_EQ(body(std::string(20, '[') + std::string(20, ']')).substr(0, 3), "413");
}

TEST(ApiRequest, WithoutMembersThereIsNoBodyOrAnEmptyObject) {
  EXPECT_EQ(body("", {}), "accepted");
  EXPECT_EQ(body("{}", {}), "accepted");
  EXPECT_EQ(body(R"({"name":1})", {}), "400 the member \"name\" is not known");
  EXPECT_FALSE(parse_body({}, "")->root());
}

TEST(ApiRequest, TheClientIsTheLastThatNoTrustedProxyVouchesFor) {
  const std::vector<Cidr> trusted = {*parse_cidr("10.0.0.0/8"), *parse_cidr("::1")};
  const auto client = [&](const char* peer, const http::Headers& headers) {
    return format_ip(client_address(*parse_ip(peer), headers, trusted));
  };
  // Who is no proxy says nothing about others.
  EXPECT_EQ(client("192.0.2.1", {{"X-Forwarded-For", "198.51.100.7"}}), "192.0.2.1");
  EXPECT_EQ(client("10.0.0.1", {}), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "198.51.100.7"}}), "198.51.100.7");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.2.3.4, 198.51.100.7"}}), "198.51.100.7");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.2.3.4,198.51.100.7, 10.9.9.9"}}), "198.51.100.7");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.2.3.4"}, {"X-Forwarded-For", "198.51.100.7"}}),
            "198.51.100.7");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "10.0.0.3, 10.0.0.2"}}), "10.0.0.3");
  EXPECT_EQ(client("::1", {{"X-Forwarded-For", "2001:db8::5"}}), "2001:db8::5");
  // Malformed: as far as it can be read from behind.
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "unknown"}}), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", ""}}), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.2.3.4, x, 10.0.0.2"}}), "10.0.0.2");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "198.51.100.7,"}}), "10.0.0.1");
}

}  // namespace
}  // namespace tmesh::server
