#include "cpp/server/admin_api/api_match.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tmesh::server {
namespace {

ApiResult nothing(ApiCall&) {
  return ApiReply{};
}

constexpr std::array kFilters = {"status"};
constexpr ApiRoute kTable[] = {
    {.method = http::Method::get,
     .path = "/agents",
     .run = nothing,
     .query_names = kFilters,
     .is_list = true},
    {.method = http::Method::post, .path = "/agents", .run = nothing},
    {.method = http::Method::get, .path = "/agents/{id}", .run = nothing},
    {.method = http::Method::del, .path = "/agents/{id}/connections/{cid}", .run = nothing},
};
constexpr ApiRoute kOther[] = {{.method = http::Method::put, .path = "/auth/password", .run = nothing}};

struct MatchTest : testing::Test {
  ApiRoutes routes{kTable, kOther};
  ApiMatch found(http::Method method, std::string_view path) {
    auto match = routes.find(method, path);
    EXPECT_TRUE(match) << path << ": " << (match ? "" : match.error().text);
    return match ? *match : ApiMatch{};
  }
  int status(http::Method method, std::string_view path) {
    const auto match = routes.find(method, path);
    return match ? 200 : match.error().status;
  }
};

TEST_F(MatchTest, RowsOfEveryTableAreFound) {
  EXPECT_EQ(found(http::Method::get, "/api/v1/agents").route, &kTable[0]);
  EXPECT_EQ(found(http::Method::post, "/api/v1/agents").route, &kTable[1]);
  EXPECT_EQ(found(http::Method::put, "/api/v1/auth/password").route, &kOther[0]);
  EXPECT_EQ(routes.all().size(), 5u);
}

TEST_F(MatchTest, ValuesOfThePathAreDecodedOnce) {
  const ApiMatch match = found(http::Method::del, "/api/v1/agents/a%2Fb%25/connections/%c3%A4+");
  EXPECT_EQ(match.route, &kTable[3]);
  EXPECT_EQ(match.values, (std::vector<std::string>{"a/b%", "\xc3\xa4+"}));
}

TEST_F(MatchTest, HeadFindsWhatGetFinds) {
  EXPECT_EQ(found(http::Method::head, "/api/v1/agents/x").route, &kTable[2]);
  EXPECT_EQ(found(http::Method::head, "/api/v1/auth/password").route, nullptr);
}

TEST_F(MatchTest, APathWithOtherMethodsSaysWhich) {
  const ApiMatch match = found(http::Method::patch, "/api/v1/agents");
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(found(http::Method::get, "/api/v1/auth/password").allow, "PUT, OPTIONS");
}

TEST_F(MatchTest, OtherPathsAreNotFound) {
  for (const char* path :
       {"/api/", "/api/v1", "/api/v1/", "/api/v2/agents", "/api/v1agents", "/api/v1/agents/",
        "/api/v1//agents", "/api/v1/Agents", "/api/v1/%61gents", "/api/v1/agents/x/y",
        "/api/v1/agents//connections/c", "/api/v1/a/b/c/d/e/f/g/h/i"}) {
    EXPECT_EQ(status(http::Method::get, path), 404) << path;
  }
}

TEST_F(MatchTest, MalformedValuesAreRefused) {
  const std::string start = "/api/v1/agents/";
  for (const char* value : {"%", "%4", "%zz", "%00", "%0a", "%7f", "%ff", "%c0%af", "a%"}) {
    EXPECT_EQ(status(http::Method::get, start + value), 400) << value;
  }
  EXPECT_EQ(status(http::Method::get, start + std::string(kApiValueBytesMax, 'a')), 200);
  EXPECT_EQ(status(http::Method::get, start + std::string(kApiValueBytesMax + 1, 'a')), 400);
}

TEST_F(MatchTest, QueriesAreDecodedLikeForms) {
  const auto query = parse_query("a=1&b=x+y%26&&c&d=");
  ASSERT_TRUE(query);
  EXPECT_EQ(*query, (ApiQuery{{"a", "1"}, {"b", "x y&"}, {"c", ""}, {"d", ""}}));
  EXPECT_TRUE(parse_query("")->empty());
}

TEST_F(MatchTest, MalformedQueriesAreRefused) {
  for (const char* text : {"a=%", "%zz=1", "a=1&a=2", "a=1&%61=2", "a=%00", "a=%ff"}) {
    const auto query = parse_query(text);
    ASSERT_FALSE(query) << text;
    EXPECT_EQ(query.error().status, 400);
  }
  std::string many;
  for (std::size_t i = 0; i < kApiQueryCountMax; ++i) many += "a" + std::to_string(i) + "=&";
  EXPECT_TRUE(parse_query(many));
  EXPECT_FALSE(parse_query(many + "b="));
}

TEST_F(MatchTest, UnknownQueryNamesAreNamedWithTheNearest) {
  EXPECT_TRUE(check_query(kTable[0], {{"status", "all"}, {"limit", "5"}, {"cursor", ""}}));
  EXPECT_EQ(check_query(kTable[0], {{"limits", "5"}}).error().text,
            "the query parameter \"limits\" is not known; did you mean \"limit\"?");
  EXPECT_EQ(check_query(kTable[0], {{"zzzzzzzz", "5"}}).error().text,
            "the query parameter \"zzzzzzzz\" is not known");
  // What is no list takes neither cursor nor limit.
  EXPECT_EQ(check_query(kTable[2], {{"limit", "5"}}).error().status, 400);
  EXPECT_LT(check_query(kTable[2], {{std::string(1000, 'q'), ""}}).error().text.size(), 120u);
}

using MatchDeathTest = MatchTest;
TEST_F(MatchDeathTest, TwoRowsForOneRequestAreAFault) {
  static constexpr ApiRoute kTwice[] = {
      {.method = http::Method::get, .path = "/agents/{name}", .run = nothing}};
  EXPECT_DEATH((ApiRoutes{kTable, kTwice}), "");
  static constexpr ApiRoute kFixed[] = {{.method = http::Method::get, .path = "/agents/new", .run = nothing}};
  EXPECT_DEATH((ApiRoutes{kTable, kFixed}), "");
}

}  // namespace
}  // namespace tmesh::server
