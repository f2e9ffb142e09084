#include "cpp/server/admin_api/api.hpp"

#include <gtest/gtest.h>

#include "cpp/base/encoding.hpp"
#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::server {
namespace {

struct ApiTest : testing::Test {
  test::TempDir dir;
  std::unique_ptr<storage::Db> db = test::open_db(dir.file("x.db"));
  json::Document document;

  ApiCall with_body(std::string_view text) {
    auto parsed = json::parse(text);
    EXPECT_TRUE(parsed);
    document = std::move(*parsed);
    ApiCall call{*db};
    call.body = document.root();
    return call;
  }
  ApiCall with_query(std::vector<std::pair<std::string, std::string>> query) {
    ApiCall call{*db};
    call.query = std::move(query);
    return call;
  }
};

template <class T>
std::string refusal(const ApiFound<T>& found) {
  return found ? "accepted" : std::to_string(found.error().status) + " " + found.error().text;
}

TEST_F(ApiTest, AMemberThatIsAbsentIsNotAnError) {
  const ApiCall call = with_body("{}");
  EXPECT_EQ(body_text(call, "a").value(), std::nullopt);
  EXPECT_EQ(body_bool(call, "a").value(), std::nullopt);
  EXPECT_EQ(body_int(call, "a").value(), std::nullopt);
  EXPECT_EQ(body_texts(call, "a").value(), std::nullopt);
  EXPECT_EQ(body_ints(call, "a").value(), std::nullopt);
  EXPECT_EQ(refusal(required_text(call, "a")), "400 a: is required");
  ApiCall without{*db};
  EXPECT_EQ(body_text(without, "a").value(), std::nullopt);
}

TEST_F(ApiTest, MembersAreRead) {
  const ApiCall call = with_body(R"({"t":"x","e":"","b":false,"i":-7,"ts":["a","b"],"is":[1,2],"none":[]})");
  EXPECT_EQ(body_text(call, "t").value(), "x");
  EXPECT_EQ(required_text(call, "t").value(), "x");
  EXPECT_EQ(required_text(call, "e").value(), "");
  EXPECT_EQ(body_bool(call, "b").value(), false);
  EXPECT_EQ(body_int(call, "i").value(), -7);
  EXPECT_EQ(body_texts(call, "ts").value(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(body_ints(call, "is").value(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(body_texts(call, "none").value(), std::vector<std::string>());
  EXPECT_EQ(body_ints(call, "none").value(), std::vector<int64_t>());
}

TEST_F(ApiTest, AnotherTypeIsA400ThatNamesTheMember) {
  const ApiCall call = with_body(R"({"n":null,"t":"1","i":1,"f":1.5,"big":1e300,"mixed":["a",1],"o":{}})");
  EXPECT_EQ(refusal(body_text(call, "i")), "400 i: a text is expected");
  EXPECT_EQ(refusal(body_text(call, "n")), "400 n: a text is expected");
  EXPECT_EQ(refusal(required_text(call, "n")), "400 n: a text is expected");
  EXPECT_EQ(refusal(body_bool(call, "i")), "400 i: true or false is expected");
  EXPECT_EQ(refusal(body_int(call, "t")), "400 t: a whole number is expected");
  EXPECT_EQ(refusal(body_int(call, "f")), "400 f: a whole number is expected");
  EXPECT_EQ(refusal(body_int(call, "big")), "400 big: a whole number is expected");
  EXPECT_EQ(refusal(body_texts(call, "mixed")), "400 mixed: a list of texts is expected");
  EXPECT_EQ(refusal(body_ints(call, "mixed")), "400 mixed: a list of whole numbers is expected");
  EXPECT_EQ(refusal(body_texts(call, "o")), "400 o: a list of texts is expected");
  EXPECT_EQ(refusal(body_ints(call, "n")), "400 n: a list of whole numbers is expected");
}

TEST_F(ApiTest, PagesHaveDefaultsAndBounds) {
  const auto plain = page_request(with_query({}));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->limit, 50);
  EXPECT_EQ(plain->after_id, "");
  EXPECT_EQ(page_request(with_query({{"limit", "1"}}))->limit, 1);
  EXPECT_EQ(page_request(with_query({{"limit", "500"}}))->limit, 500);
  for (const char* limit : {"0", "501", "", "-1", "+1", "1.0", " 1", "18446744073709551617"}) {
    EXPECT_EQ(refusal(page_request(with_query({{"limit", limit}}))),
              "400 limit: a number from 1 to 500 is expected")
        << limit;
  }
}

TEST_F(ApiTest, ACursorIsTheIdBehindWhichTheListGoesOn) {
  EXPECT_EQ(page_request(with_query({{"cursor", cursor_of("agent-1")}}))->after_id, "agent-1");
  // What lists answer on their last page.
  EXPECT_EQ(page_request(with_query({{"cursor", ""}}))->after_id, "");
}

TEST_F(ApiTest, MalformedAndForeignCursorsAreRefused) {
  const std::string audit_cursor =
      base64url_encode(as_bytes(std::string_view("2027-01-15T08:00:00Z\0audit-1", 28)));
  for (const std::string& cursor : {std::string("!"), std::string("YQ=="), std::string("a"), cursor_of("\n"),
                                    cursor_of("\xff"), cursor_of(std::string(256, 'a')), audit_cursor}) {
    EXPECT_EQ(refusal(page_request(with_query({{"cursor", cursor}}))),
              "400 cursor: not one that this list gave")
        << cursor;
  }
}

TEST_F(ApiTest, APageSaysWhereItGoesOn) {
  struct Item {
    std::string id;
  };
  const auto write = [](json::Writer& out, const Item& item) { out.string(item.id); };
  EXPECT_EQ(page_json(storage::Page<Item>{{{"a"}, {"b"}}, true}, write),
            R"({"items":["a","b"],"nextCursor":")" + cursor_of("b") + R"(","hasMore":true})");
  EXPECT_EQ(page_json(storage::Page<Item>{}, write), R"({"items":[],"nextCursor":"","hasMore":false})");
}

TEST_F(ApiTest, ErrorsBecomeStatusesByTheirCode) {
  const auto status = [](tmesh_code code) {
    return api_error(Error{code, TMESH_SCOPE_STREAM, "cause"}).error();
  };
  for (const auto& [code, expected] : std::initializer_list<std::pair<tmesh_code, int>>{
           {TMESH_E_INVALID, 400}, {TMESH_E_POLICY, 403}, {TMESH_E_STATE, 409}, {TMESH_E_TOO_LARGE, 413}}) {
    EXPECT_EQ(status(code).status, expected);
    EXPECT_EQ(status(code).text, "cause");
    EXPECT_FALSE(status(code).is_lock_lost);
  }
  // What the database or the system had to say is not for the caller.
  for (const tmesh_code code : {TMESH_E_LIMIT, TMESH_E_NO_MEMORY, TMESH_E_TIMEOUT, TMESH_E_IO}) {
    EXPECT_EQ(status(code).status, code == TMESH_E_IO ? 500 : 503);
    EXPECT_EQ(status(code).text.find("cause"), std::string::npos);
    EXPECT_EQ(status(code).is_lock_lost, code == TMESH_E_TIMEOUT);
  }
}

TEST_F(ApiTest, WhatTheRequestHasNoPartInIsNeverItsFault) {
  for (const tmesh_code code :
       {TMESH_E_INVALID, TMESH_E_POLICY, TMESH_E_STATE, TMESH_E_TOO_LARGE, TMESH_E_IO}) {
    const ApiError error = api_database_error({code, TMESH_SCOPE_STREAM, "cause"}).error();
    EXPECT_EQ(error.status, 500);
    EXPECT_STREQ(error.cause, "cause");
  }
  EXPECT_TRUE(api_database_error({TMESH_E_TIMEOUT, TMESH_SCOPE_STREAM, ""}).error().is_lock_lost);
}

TEST_F(ApiTest, QueryValuesAreFoundByTheirWholeName) {
  const ApiCall call = with_query({{"status", "all"}, {"limit", ""}});
  EXPECT_EQ(call.query_value("status"), "all");
  EXPECT_EQ(call.query_value("limit"), "");
  EXPECT_EQ(call.query_value("stat"), std::nullopt);
}

}  // namespace
}  // namespace tmesh::server
