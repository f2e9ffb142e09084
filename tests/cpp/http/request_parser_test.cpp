#include "cpp/http/request_parser.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace tmesh::http {
namespace {

using State = RequestParser::State;

std::span<const uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// In pieces of `step` bytes, as far as the parser goes; the bytes it used.
std::size_t feed_in_steps(RequestParser& parser, std::string_view text, std::size_t step) {
  std::size_t at = 0;
  while (at < text.size() && parser.state() != State::ready && parser.state() != State::failed) {
    std::size_t n = std::min(step, text.size() - at);
    std::size_t used = parser.feed(bytes(text.substr(at, n)));
    at += used;
    if (used == 0) break;
  }
  return at;
}

struct BadRequest {
  const char* name;
  int status;
  std::string text;
};

std::vector<BadRequest> bad_requests() {
  const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n";
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  return {
      {"te_and_cl", 400, post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"cl_and_te", 400, post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
      {"duplicate_cl", 400, post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
      {"differing_cl", 400, post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
      {"cl_list", 400, post + "Content-Length: 3, 3\r\n\r\nabc"},
      {"cl_sign", 400, post + "Content-Length: +3\r\n\r\nabc"},
      {"cl_hex", 400, post + "Content-Length: 0x3\r\n\r\nabc"},
      {"cl_empty", 400, post + "Content-Length: \r\n\r\n"},
      {"cl_overflow", 400, post + "Content-Length: 99999999999999999999999\r\n\r\n"},
      {"cl_wraps", 400, post + "Content-Length: 18446744073709551619\r\n\r\nabc"},
      {"te_twice", 400, post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"te_not_last", 400, post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"},
      {"te_gzip", 501, post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
      {"te_misspelt", 501, post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
      {"te_vertical_tab", 400,
       post + "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n0\r\n\r\n"},
      {"te_folded", 400, post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
      {"te_on_1_0", 400, "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"chunk_size_0x", 400, post + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"},
      {"chunk_size_space", 400, post + "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n"},
      {"chunk_size_negative", 400, post + "Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n"},
      {"chunk_size_overflow", 400, post + "Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n"},
      {"chunk_bare_lf", 400, post + "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n"},
      {"chunk_too_long", 400, post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"},
      {"folded_field", 400, get + "X: a\r\n b\r\n\r\n"},
      {"folded_first_field", 400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
      {"space_before_colon", 400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"},
      {"space_in_name", 400, get + "A B: v\r\n\r\n"},
      {"empty_name", 400, get + ": v\r\n\r\n"},
      {"no_colon", 400, get + "A\r\n\r\n"},
      {"cr_in_value", 400, get + "X: a\rb\r\n\r\n"},
      {"control_in_value", 400,
       get + "X: a\x01"
             "b\r\n\r\n"},
      {"nul_in_value", 400, get + std::string("X: a\0b\r\n\r\n", 10)},
      {"nul_in_name", 400, get + std::string("X\0: b\r\n\r\n", 9)},
      {"bare_lf_in_fields", 400, get + "X: a\nY: b\r\n\r\n"},
      {"no_host", 400, "GET / HTTP/1.1\r\n\r\n"},
      {"two_hosts", 400, get + "Host: a\r\n\r\n"},
      {"two_different_hosts", 400, get + "host: b\r\n\r\n"},
      {"empty_host", 400, "GET / HTTP/1.1\r\nHost: \r\n\r\n"},
      {"host_with_user", 400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"},
      {"host_with_path", 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
      {"host_list", 400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"},
      {"absolute_target", 400, "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"non_ascii_target", 400, "GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"fragment", 400, "GET /x#y HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"asterisk_get", 400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"leading_space", 400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"unknown_method", 400, "FOO / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"http2_preface", 400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {"connect", 501, "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"trace", 501, "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"version_2_0", 505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"},
      {"version_1_2", 505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
      {"version_0_9", 505, "GET / HTTP/0.9\r\nHost: a\r\n\r\n"},
      {"no_version", 505, "GET /\r\n\r\n"},
      {"space_behind_version", 505, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"},
      {"bare_lf_behind_version", 505, "GET / HTTP/1.1\nHost: a\n\n"},
      {"expect_other", 417, post + "Expect: fire\r\nContent-Length: 3\r\n\r\n"},
      {"body_too_large", 413, post + "Content-Length: 1048577\r\n\r\n"},
  };
}

TEST(RequestParserTest, RefusesWhatHasTwoReadings) {
  for (const BadRequest& bad : bad_requests()) {
    for (std::size_t step : {std::size_t{100'000}, std::size_t{7}, std::size_t{1}}) {
      RequestParser parser({});
      feed_in_steps(parser, bad.text, step);
      EXPECT_EQ(parser.state(), State::failed) << bad.name << " step " << step;
      EXPECT_EQ(parser.error_status(), bad.status) << bad.name << " step " << step;
    }
  }
}

TEST(RequestParserTest, SplitsTargetAtTheFirstQuestionMark) {
  RequestParser parser({});
  parser.feed(bytes("GET /a/b?x=1?y HTTP/1.1\r\nHost: a:80\r\n\r\n"));
  ASSERT_EQ(parser.state(), State::ready);
  EXPECT_EQ(parser.request().path, "/a/b");
  EXPECT_EQ(parser.request().query, "x=1?y");
  EXPECT_TRUE(parser.request().has_query);
  EXPECT_EQ(parser.request().host(), "a:80");
}

TEST(RequestParserTest, KeepsFieldsInOrderAndTrimsValues) {
  RequestParser parser({});
  feed_in_steps(parser, "GET / HTTP/1.1\r\nHost: a\r\nX-One:  1 \t\r\nx-one: 2\r\nEmpty:\r\n\r\n", 1);
  ASSERT_EQ(parser.state(), State::ready);
  const Headers& headers = parser.request().headers;
  ASSERT_EQ(headers.size(), 4u);
  EXPECT_EQ(headers.count("X-ONE"), 2u);
  EXPECT_EQ(*headers.find("x-one"), "1");
  EXPECT_EQ(*headers.find("empty"), "");
  EXPECT_EQ(headers.find("absent"), nullptr);
}

TEST(RequestParserTest, StopsBehindEachRequestInAnySplit) {
  const std::string text =
      "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
      "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: "
      "v\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"/1", "abc"}, {"/2", "abcde"}, {"/3", ""}};
  for (std::size_t step = 1; step <= text.size(); ++step) {
    RequestParser parser({});
    std::string_view rest = text;
    for (const auto& [path, body] : expected) {
      rest.remove_prefix(feed_in_steps(parser, rest, step));
      ASSERT_EQ(parser.state(), State::ready) << "step " << step;
      EXPECT_EQ(parser.request().path, path);
      EXPECT_EQ(parser.request().body, body);
      EXPECT_TRUE(parser.keeps_alive());
      parser.next();
    }
    EXPECT_TRUE(rest.empty());
    EXPECT_EQ(parser.state(), State::idle);
  }
}

TEST(RequestParserTest, LeavesBytesBehindAnUpgradeAlone) {
  const std::string head =
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
  const std::string text = head + std::string("\x82\x00\r\n", 4);
  for (std::size_t step = 1; step <= text.size(); ++step) {
    RequestParser parser({});
    EXPECT_EQ(feed_in_steps(parser, text, step), head.size()) << "step " << step;
    ASSERT_EQ(parser.state(), State::ready);
    EXPECT_TRUE(parser.request().is_upgrade);
  }
}

TEST(RequestParserTest, UpgradeNeedsBothFields) {
  RequestParser parser({});
  parser.feed(bytes("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n"));
  ASSERT_EQ(parser.state(), State::ready);
  EXPECT_FALSE(parser.request().is_upgrade);
}

TEST(RequestParserTest, ClosesAfterHttp10AndConnectionClose) {
  RequestParser old({});
  old.feed(bytes("GET / HTTP/1.0\r\n\r\n"));
  ASSERT_EQ(old.state(), State::ready);
  EXPECT_FALSE(old.keeps_alive());
  EXPECT_EQ(old.request().host(), "");
  RequestParser closing({});
  closing.feed(bytes("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n"));
  ASSERT_EQ(closing.state(), State::ready);
  EXPECT_FALSE(closing.keeps_alive());
}

TEST(RequestParserTest, WantsContinueUntilTheBodyComes) {
  RequestParser parser({});
  parser.feed(bytes("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n"));
  ASSERT_EQ(parser.state(), State::body);
  EXPECT_TRUE(parser.wants_continue());
  parser.feed(bytes("a"));
  EXPECT_FALSE(parser.wants_continue());
}

TEST(RequestParserTest, BoundsHeaderBytes) {
  ParserLimits limits;
  limits.max_header_bytes = 4096;
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (std::size_t step : {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}}) {
    RequestParser one_field(limits);
    feed_in_steps(one_field, head + "X: " + std::string(5000, 'x') + "\r\n\r\n", step);
    EXPECT_EQ(one_field.error_status(), 431) << step;
    RequestParser one_name(limits);
    feed_in_steps(one_name, head + std::string(5000, 'x') + ": \r\n\r\n", step);
    EXPECT_EQ(one_name.error_status(), 431) << step;
    RequestParser fits(limits);
    feed_in_steps(fits, head + "X: " + std::string(3900, 'x') + "\r\n\r\n", step);
    EXPECT_EQ(fits.state(), State::ready) << step;
  }
  RequestParser blank(limits);
  feed_in_steps(blank, std::string(5000, '\n'), 100);
  EXPECT_EQ(blank.error_status(), 431) << "line ends before a request count";
  RequestParser padded(limits);
  feed_in_steps(padded, head + "X:" + std::string(5000, ' '), 100);
  EXPECT_EQ(padded.error_status(), 431) << "white space before a value counts";
}

TEST(RequestParserTest, BoundsHeaderCountAndTarget) {
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 99; ++i) many += "X: 1\r\n";
  RequestParser hundred({});
  hundred.feed(bytes(many + "\r\n"));
  EXPECT_EQ(hundred.state(), State::ready);
  RequestParser more({});
  more.feed(bytes(many + "X: 1\r\n\r\n"));
  EXPECT_EQ(more.error_status(), 431);
  RequestParser target({});
  target.feed(bytes("GET /" + std::string(8192, 'a') + " HTTP/1.1\r\n"));
  EXPECT_EQ(target.error_status(), 414);
}

TEST(RequestParserTest, BoundsTrailers) {
  ParserLimits limits;
  limits.max_header_bytes = 4096;
  std::string text = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 1000; ++i) text += "Trailer-" + std::to_string(i) + ": x\r\n";
  RequestParser parser(limits);
  parser.feed(bytes(text));
  EXPECT_EQ(parser.error_status(), 431);
}

TEST(RequestParserTest, BoundsBodyBytes) {
  ParserLimits limits;
  limits.max_body_bytes = 10;
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  RequestParser exact(limits);
  exact.feed(bytes(head + "Content-Length: 10\r\n\r\n0123456789"));
  EXPECT_EQ(exact.state(), State::ready);
  RequestParser announced(limits);
  announced.feed(bytes(head + "Content-Length: 11\r\n\r\n"));
  EXPECT_EQ(announced.error_status(), 413);
  RequestParser chunked(limits);
  chunked.feed(bytes(head + "Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\nabcde\r\n0\r\n\r\n"));
  EXPECT_EQ(chunked.error_status(), 413);
}

TEST(RequestParserTest, BoundsChunkExtensions) {
  ParserLimits limits;
  limits.max_body_bytes = 10;
  RequestParser parser(limits);
  feed_in_steps(parser, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", 1000);
  feed_in_steps(parser, std::string(200'000, 'y'), 1000);
  EXPECT_EQ(parser.error_status(), 413);
}

TEST(RequestParserTest, TheLimitsAreOfOneRequest) {
  ParserLimits limits;
  limits.max_header_bytes = 1000;
  limits.max_body_bytes = 1000;
  RequestParser parser(limits);
  const std::string text =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: " + std::string(500, 'x') +
      "\r\n\r\n1;" + std::string(1000, 'e') + "\r\na\r\n0\r\n\r\n";
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(feed_in_steps(parser, text, 100), text.size()) << i;
    ASSERT_EQ(parser.state(), State::ready) << i;
    parser.next();
  }
}

TEST(RequestParserTest, CountsHeldBytes) {
  RequestParser parser({});
  EXPECT_EQ(parser.held_bytes(), 0u);
  parser.feed(bytes("POST /12345 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
  ASSERT_EQ(parser.state(), State::ready);
  EXPECT_GE(parser.held_bytes(), 6u + 5u + 15u + 3u);
  parser.next();
  EXPECT_EQ(parser.held_bytes(), 0u);
}

TEST(HeadersTest, HasTokenLooksAtWholeItemsOfEveryField) {
  Headers headers = {{"Connection", "keep-alive"}, {"connection", "foo , UPGRADE"}};
  EXPECT_TRUE(headers.has_token("Connection", "upgrade"));
  EXPECT_TRUE(headers.has_token("CONNECTION", "Keep-Alive"));
  EXPECT_FALSE(headers.has_token("connection", "grade"));
  EXPECT_FALSE(headers.has_token("upgrade", "foo"));
}

}  // namespace
}  // namespace tmesh::http
