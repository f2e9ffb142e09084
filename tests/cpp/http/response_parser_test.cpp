#include "cpp/http/response_parser.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace tmesh::http {
namespace {

using State = ResponseParser::State;

std::span<const uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// In pieces of `step` bytes, as far as the parser goes; the bytes it used.
std::size_t feed_in_steps(ResponseParser& parser, std::string_view text, std::size_t step = 100'000) {
  std::size_t at = 0;
  while (at < text.size() && parser.state() != State::ready && parser.state() != State::failed) {
    const std::size_t n = std::min(step, text.size() - at);
    at += parser.feed(bytes(text.substr(at, n)));
  }
  return at;
}

struct BadResponse {
  const char* name;
  std::string text;
};

std::vector<BadResponse> bad_responses() {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  return {
      {"te_and_cl", ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"cl_and_te", ok + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
      {"duplicate_cl", ok + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
      {"differing_cl", ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
      {"cl_list", ok + "Content-Length: 3, 3\r\n\r\nabc"},
      {"cl_sign", ok + "Content-Length: +3\r\n\r\nabc"},
      {"cl_empty", ok + "Content-Length: \r\n\r\n"},
      {"cl_overflow", ok + "Content-Length: 99999999999999999999999\r\n\r\n"},
      {"te_twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"te_not_last", ok + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"},
      {"te_gzip", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
      {"te_identity", ok + "Transfer-Encoding: identity\r\n\r\n"},
      {"te_on_1_0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"chunk_size_0x", ok + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"},
      {"chunk_bare_lf", ok + "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n"},
      {"chunk_too_long", ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"},
      {"folded_field", ok + "X: a\r\n b\r\n\r\n"},
      {"space_before_colon", ok + "X : a\r\n\r\n"},
      {"nul_in_value", ok + std::string("X: a\0b\r\n\r\n", 10)},
      {"bare_lf", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
      {"version_2_0", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"},
      {"version_0_9", "HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n"},
      {"version_1_2", "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n"},
      {"no_status", "HTTP/1.1 \r\n\r\n"},
      {"status_20", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"},
      {"status_2000", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"},
      {"status_099", "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n"},
      {"status_600", "HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n"},
      {"status_negative", "HTTP/1.1 -20 X\r\nContent-Length: 0\r\n\r\n"},
      {"switching", "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
      {"request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"rubbish", "SSH-2.0-OpenSSH_9.2\r\n"},
      {"tls_alert", std::string("\x15\x03\x01\x00\x02\x02\x46", 7)},
  };
}

TEST(ResponseParserTest, RefusesWhatHasTwoReadings) {
  for (const BadResponse& bad : bad_responses()) {
    for (const std::size_t step : {std::size_t{100'000}, std::size_t{7}, std::size_t{1}}) {
      ResponseParser parser({});
      feed_in_steps(parser, bad.text, step);
      EXPECT_EQ(parser.state(), State::failed) << bad.name << " step " << step;
    }
  }
}

TEST(ResponseParserTest, ReadsStatusFieldsAndBody) {
  for (const std::size_t step : {std::size_t{100'000}, std::size_t{1}}) {
    ResponseParser parser({});
    feed_in_steps(parser, "HTTP/1.1 403 No Way\r\nX-One:  1 \t\r\nContent-Length: 5\r\n\r\nhello", step);
    ASSERT_EQ(parser.state(), State::ready);
    EXPECT_EQ(parser.response().status, 403);
    EXPECT_EQ(*parser.response().headers.find("x-one"), "1");
    EXPECT_EQ(parser.response().body, "hello");
    EXPECT_TRUE(parser.keeps_alive());
    EXPECT_FALSE(parser.is_cut());
  }
}

TEST(ResponseParserTest, StopsBehindEachResponseInAnySplit) {
  const std::string text =
      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
      "HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
      "HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n"
      "HTTP/1.1 204 Nothing\r\n\r\nHTTP/1.1 304 Same\r\nContent-Length: 77\r\n\r\n"
      "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n";
  const std::vector<std::pair<int, std::string>> expected = {
      {200, "abc"}, {201, "abcde"}, {204, ""}, {304, ""}, {503, ""}};
  for (std::size_t step = 1; step <= text.size(); ++step) {
    ResponseParser parser({});
    std::string_view rest = text;
    for (const auto& [status, body] : expected) {
      rest.remove_prefix(feed_in_steps(parser, rest, step));
      ASSERT_EQ(parser.state(), State::ready) << "step " << step << " status " << status;
      EXPECT_EQ(parser.response().status, status);
      EXPECT_EQ(parser.response().body, body);
      EXPECT_EQ(parser.response().headers.find("link"), nullptr) << "of an interim answer";
      EXPECT_TRUE(parser.keeps_alive());
      parser.next();
    }
    EXPECT_TRUE(rest.empty());
    EXPECT_EQ(parser.state(), State::idle);
  }
}

// An interim answer says nothing about the connection or the body of the final one.
TEST(ResponseParserTest, FieldsOfInterimAnswersDoNotCount) {
  ResponseParser parser({});
  feed_in_steps(parser,
                "HTTP/1.1 102 X\r\nConnection: close\r\nContent-Length: 9\r\n\r\n"
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  ASSERT_EQ(parser.state(), State::ready);
  EXPECT_EQ(parser.response().body, "ok");
  EXPECT_TRUE(parser.keeps_alive());
}

TEST(ResponseParserTest, AnAnswerToHeadHasNoBody) {
  ResponseParser parser({});
  parser.next(true);
  feed_in_steps(parser, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  ASSERT_EQ(parser.state(), State::ready);
  EXPECT_TRUE(parser.keeps_alive());
  parser.next();
  feed_in_steps(parser, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(parser.state(), State::body) << "only of that one";
}

TEST(ResponseParserTest, TheEndOfTheConnectionEndsABodyWithoutLength) {
  ResponseParser parser({});
  feed_in_steps(parser, "HTTP/1.1 200 OK\r\n\r\nall of");
  ASSERT_EQ(parser.state(), State::body);
  feed_in_steps(parser, " it");
  parser.finish();
  ASSERT_EQ(parser.state(), State::ready);
  EXPECT_EQ(parser.response().body, "all of it");
  EXPECT_FALSE(parser.keeps_alive());
}

TEST(ResponseParserTest, AnEndBeforeTheEndIsAFailure) {
  for (const char* text :
       {"", "HTT", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "HTTP/1.1 100 Continue\r\n\r\n"}) {
    ResponseParser parser({});
    feed_in_steps(parser, text);
    parser.finish();
    EXPECT_EQ(parser.state(), State::failed) << text;
  }
}

TEST(ResponseParserTest, ClosesAfterHttp10AndConnectionClose) {
  for (const char* text : {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
                           "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 0\r\n\r\n"}) {
    ResponseParser parser({});
    feed_in_steps(parser, text);
    ASSERT_EQ(parser.state(), State::ready) << text;
    EXPECT_FALSE(parser.keeps_alive()) << text;
  }
}

TEST(ResponseParserTest, BoundsHeaderBytesOfAllHeadsTogether) {
  ResponseLimits limits;
  limits.max_header_bytes = 4096;
  const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
  std::string interim;
  for (int i = 0; i < 100; i++) interim += "HTTP/1.1 103 Early\r\nLink: " + std::string(50, 'x') + "\r\n\r\n";
  std::string bare;
  for (int i = 0; i < 400; i++) bare += "HTTP/1.1 100\r\n\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}}) {
    for (const std::string& text :
         {ok + "X: " + std::string(5000, 'x') + "\r\n\r\n", ok + std::string(5000, 'x') + ": \r\n\r\n",
          "HTTP/1.1 200 " + std::string(5000, 'x') + "\r\n\r\n", interim + ok + "\r\n", bare + ok + "\r\n"}) {
      ResponseParser parser(limits);
      feed_in_steps(parser, text, step);
      EXPECT_EQ(parser.state(), State::failed) << text.substr(0, 60) << " step " << step;
    }
    ResponseParser fits(limits);
    feed_in_steps(fits, ok + "X: " + std::string(3900, 'x') + "\r\n\r\n", step);
    EXPECT_EQ(fits.state(), State::ready) << step;
  }
  ResponseParser blank(limits);
  feed_in_steps(blank, std::string(5000, '\n'), 100);
  EXPECT_EQ(blank.state(), State::failed) << "line ends before a response count";
}

TEST(ResponseParserTest, BoundsHeaderCountAndTrailers) {
  std::string many = "HTTP/1.1 204 X\r\n";
  for (int i = 0; i < 100; ++i) many += "X: 1\r\n";
  ResponseParser hundred({});
  feed_in_steps(hundred, many + "\r\n");
  EXPECT_EQ(hundred.state(), State::ready);
  ResponseParser more({});
  feed_in_steps(more, many + "X: 1\r\n\r\n");
  EXPECT_EQ(more.state(), State::failed);
  std::string trailers = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 5000; ++i) trailers += "Trailer-" + std::to_string(i) + ": x\r\n";
  ResponseParser trailing({});
  feed_in_steps(trailing, trailers);
  EXPECT_EQ(trailing.state(), State::failed);
}

TEST(ResponseParserTest, CutsALongBodyAndKeepsItsStatus) {
  ResponseLimits limits;
  limits.max_body_bytes = 10;
  const std::string head = "HTTP/1.1 200 OK\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{100'000}}) {
    for (const std::string& text :
         {head + "Content-Length: 1000000000\r\n\r\n0123456789ab", head + "\r\n0123456789ab",
          head + "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n5\r\n6789a\r\n"}) {
      ResponseParser parser(limits);
      feed_in_steps(parser, text, step);
      ASSERT_EQ(parser.state(), State::ready) << text << " step " << step;
      EXPECT_TRUE(parser.is_cut());
      EXPECT_FALSE(parser.keeps_alive());
      EXPECT_EQ(parser.response().body, "0123456789");
      EXPECT_EQ(parser.response().status, 200);
    }
    ResponseParser exact(limits);
    feed_in_steps(exact, head + "Content-Length: 10\r\n\r\n0123456789", step);
    EXPECT_TRUE(exact.state() == State::ready && !exact.is_cut() && exact.keeps_alive());
  }
}

TEST(ResponseParserTest, TheLimitsAreOfOneResponse) {
  ResponseLimits limits;
  limits.max_header_bytes = 1000;
  limits.max_body_bytes = 1000;
  ResponseParser parser(limits);
  const std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: " + std::string(500, 'x') +
                           "\r\n\r\n1;" + std::string(1000, 'e') + "\r\na\r\n0\r\n\r\n";
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(feed_in_steps(parser, text, 100), text.size()) << i;
    ASSERT_EQ(parser.state(), State::ready) << i;
    parser.next();
  }
}

TEST(ResponseParserTest, BoundsChunkExtensions) {
  ResponseLimits limits;
  limits.max_body_bytes = 10;
  ResponseParser parser(limits);
  feed_in_steps(parser, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", 1000);
  feed_in_steps(parser, std::string(200'000, 'y'), 1000);
  EXPECT_EQ(parser.state(), State::failed);
}

TEST(ResponseParserTest, CountsHeldBytes) {
  ResponseParser parser({});
  EXPECT_EQ(parser.held_bytes(), 0u);
  feed_in_steps(parser, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_GE(parser.held_bytes(), 15u + 3u);
  parser.next();
  EXPECT_EQ(parser.held_bytes(), 0u);
}

}  // namespace
}  // namespace tmesh::http
