#include "cpp/http/proxy/message_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tmesh::http {
namespace {

using Kind = MessageReader::Kind;
using State = MessageReader::State;

std::span<const uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct Read {
  std::size_t head_bytes = 0;
  std::size_t body_bytes = 0;
  State state = State::idle;
};

// One message out of text, in pieces of `step` bytes.
Read read(MessageReader& reader, std::string_view text, std::size_t step) {
  Read out;
  std::size_t at = 0;
  std::size_t arrived = 0;
  while (arrived < text.size()) {
    arrived = std::min(text.size(), arrived + step);
    while (at < arrived && reader.state() != State::complete && reader.state() != State::failed) {
      const bool is_body = reader.state() == State::body;
      const std::size_t used = reader.feed(bytes(text.substr(at, arrived - at)));
      EXPECT_LE(used, arrived - at);
      at += used;
      (is_body ? out.body_bytes : out.head_bytes) += used;
    }
  }
  out.state = reader.state();
  return out;
}

struct Message {
  const char* name;
  Kind kind;
  std::string head, body;
};

const std::vector<Message>& messages() {
  static const std::vector<Message> kAll = {
      {"get", Kind::request, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
      {"blank_lines", Kind::request, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
      {"post", Kind::request, "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "12345"},
      {"post_of_nothing", Kind::request, "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", ""},
      {"chunks", Kind::request, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
       "5\r\n12345\r\n1;a=b\r\n!\r\n0\r\n\r\n"},
      {"trailers", Kind::request, "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n",
       "1\r\nx\r\n0\r\nX-Sum: 1\r\nX-More: two\r\n\r\n"},
      {"connect", Kind::request, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", ""},
      {"upgrade", Kind::request, "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", ""},
      {"upgrade_with_body", Kind::request,
       "POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\n", "ab"},
      {"http_1_0", Kind::request, "GET http://a/ HTTP/1.0\r\n\r\n", ""},
      {"answer", Kind::response, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "abc"},
      {"answer_without_reason", Kind::response, "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n", "abc"},
      {"answer_chunks", Kind::response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
       "a\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n"},
      {"no_content", Kind::response, "HTTP/1.1 204 No Content\r\n\r\n", ""},
      {"not_modified", Kind::response, "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", ""},
      {"continue", Kind::response, "HTTP/1.1 100 Continue\r\n\r\n", ""},
      {"hints", Kind::response, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", ""},
      {"switching", Kind::response, "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\n", ""},
      {"upgrade_required", Kind::response,
       "HTTP/1.1 426 x\r\nConnection: upgrade\r\nUpgrade: y\r\nContent-Length: 1\r\n\r\n", "z"},
  };
  return kAll;
}

TEST(MessageReader, StopsBehindTheHeadAndBehindTheMessageInAnyPieces) {
  for (const Message& m : messages()) {
    const std::string text = m.head + m.body + "GET /next HTTP/1.1\r\n";
    for (std::size_t step = 1; step <= text.size(); step++) {
      MessageReader reader(m.kind);
      const Read got = read(reader, text, step);
      ASSERT_EQ(got.state, State::complete) << m.name << " in pieces of " << step;
      ASSERT_EQ(got.head_bytes, m.head.size()) << m.name << " in pieces of " << step;
      ASSERT_EQ(got.body_bytes, m.body.size()) << m.name << " in pieces of " << step;
    }
  }
}

TEST(MessageReader, NextGoesOnFromAnyState) {
  MessageReader reader(Kind::request);
  EXPECT_EQ(read(reader, "nonsense\r\n\r\n", 100).state, State::failed);
  for (const Message& m : messages()) {
    if (m.kind != Kind::request) continue;
    reader.next();
    ASSERT_EQ(reader.state(), State::idle);
    ASSERT_EQ(read(reader, m.head + m.body, 7).state, State::complete) << m.name;
  }
}

TEST(MessageReader, TellsWhatTheHeadSays) {
  MessageReader request(Kind::request);
  read(request, "PUT http://a/b?c HTTP/1.0\r\nHost:  a \r\nX: y\r\nContent-Length: 9\r\n\r\n", 5);
  EXPECT_EQ(request.state(), State::body);
  EXPECT_EQ(request.head().method, "PUT");
  EXPECT_EQ(request.head().target, "http://a/b?c");
  EXPECT_EQ(request.head().minor_version, 0);
  EXPECT_EQ(request.head().framing, Framing::length);
  EXPECT_EQ(request.head().content_length_bytes, 9u);
  EXPECT_EQ(request.rest_bytes(), 9u);
  EXPECT_EQ(*request.head().fields.find("host"), "a");
  EXPECT_EQ(request.head().fields.size(), 3u);
  MessageReader response(Kind::response);
  read(response, "HTTP/1.1 404 Not  Here\r\nTransfer-Encoding: chunked\r\n\r\n", 3);
  EXPECT_EQ(response.head().status, 404);
  EXPECT_EQ(response.head().reason, "Not  Here");
  EXPECT_EQ(response.head().framing, Framing::chunked);
}

TEST(MessageReader, AnAnswerToHeadHasNoBody) {
  for (const char* field : {"Content-Length: 5", "Transfer-Encoding: chunked", "X: y"}) {
    MessageReader reader(Kind::response);
    reader.next(true);
    EXPECT_EQ(read(reader, std::string("HTTP/1.1 200 OK\r\n") + field + "\r\n\r\nxx", 100).state,
              State::complete);
    reader.next();
    EXPECT_NE(read(reader, std::string("HTTP/1.1 200 OK\r\n") + field + "\r\n\r\n", 100).state,
              State::complete);
  }
}

TEST(MessageReader, TheEndOfTheConnectionEndsABodyWithoutLengthOnly) {
  MessageReader reader(Kind::response);
  EXPECT_EQ(read(reader, "HTTP/1.1 200 OK\r\n\r\nas long as it goes", 3).state, State::body);
  EXPECT_TRUE(reader.is_until_end());
  reader.finish();
  EXPECT_EQ(reader.state(), State::complete);
  for (const char* cut :
       {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\n\r", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"}) {
    reader.next();
    read(reader, cut, 4);
    reader.finish();
    EXPECT_EQ(reader.state(), State::failed) << cut;
  }
}

TEST(MessageReader, NextHeadGoesOnBehindAnInterimAnswerUpToTheSameLimit) {
  MessageReader reader(Kind::response);
  const std::string hint = "HTTP/1.1 103 Early Hints\r\nLink: " + std::string(1000, 'x') + "\r\n\r\n";
  std::size_t count = 0;
  while (reader.state() != State::failed && count < 1000) {
    read(reader, hint, hint.size());
    if (reader.state() == State::failed) break;
    ASSERT_EQ(reader.state(), State::complete);
    reader.next_head();
    count++;
  }
  EXPECT_GT(count, 50u);
  EXPECT_LT(count, 64u);
}

// LESSONS P-J7: whatever could be read in two ways is not read.
TEST(MessageReader, SmugglingShapesOfRequestsFail) {
  const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n";
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  const std::vector<std::pair<const char*, std::string>> shapes = {
      {"te_and_cl", post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"cl_and_te", post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"},
      {"duplicate_cl", post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"},
      {"differing_cl", post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n"},
      {"cl_list", post + "Content-Length: 3, 3\r\n\r\n"},
      {"cl_sign", post + "Content-Length: +3\r\n\r\n"},
      {"cl_negative", post + "Content-Length: -3\r\n\r\n"},
      {"cl_hex", post + "Content-Length: 0x3\r\n\r\n"},
      {"cl_empty", post + "Content-Length: \r\n\r\n"},
      {"cl_space", post + "Content-Length: 1 0\r\n\r\n"},
      {"cl_wraps", post + "Content-Length: 18446744073709551619\r\n\r\n"},
      {"te_twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"te_list", post + "Transfer-Encoding: gzip, chunked\r\n\r\n"},
      {"te_not_last", post + "Transfer-Encoding: chunked, identity\r\n\r\n"},
      {"te_misspelt", post + "Transfer-Encoding: xchunked\r\n\r\n"},
      {"te_quoted", post + "Transfer-Encoding: \"chunked\"\r\n\r\n"},
      {"te_folded", post + "Transfer-Encoding:\r\n chunked\r\n\r\n"},
      {"te_vertical_tab", post + "Transfer-Encoding: \x0b"
                                 "chunked\r\n\r\n"},
      {"te_on_1_0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"space_before_colon", get + "Content-Length : 3\r\n\r\n"},
      {"tab_before_colon", get + "Content-Length\t: 3\r\n\r\n"},
      {"space_before_name", get + " X: y\r\n\r\n"},
      {"fold", get + "X: y\r\n z\r\n\r\n"},
      {"fold_tab", get + "X: y\r\n\tz\r\n\r\n"},
      {"empty_name", get + ": y\r\n\r\n"},
      {"no_colon", get + "Xy\r\n\r\n"},
      {"bare_lf", "GET / HTTP/1.1\nHost: a\n\n"},
      {"bare_lf_in_fields", get + "X: y\nZ: z\r\n\r\n"},
      {"bare_lf_at_the_end", get + "\n"},
      {"bare_cr", get + "X: y\rZ: z\r\n\r\n"},
      {"nul", get + std::string("X: y\0z\r\n\r\n", 10)},
      {"control", get + "X: y\x01z\r\n\r\n"},
      {"name_of_8_bits", get + "X\xe4: y\r\n\r\n"},
      {"no_target", "GET HTTP/1.1\r\n\r\n"},
      {"lower_method", "get / HTTP/1.1\r\n\r\n"},
      {"unknown_method", "FETCH / HTTP/1.1\r\n\r\n"},
      {"source", "SOURCE / ICE/1.0\r\n\r\n"},
      {"rtsp", "DESCRIBE rtsp://a/ RTSP/1.0\r\n\r\n"},
      {"tls", "\x16\x03\x01\x02"},
      {"chunk_0x", chunked + "0x3\r\nabc\r\n"},
      {"chunk_space", chunked + "3 \r\nabc\r\n"},
      {"chunk_sign", chunked + "+3\r\nabc\r\n"},
      {"chunk_bare_lf", chunked + "3\nabc\r\n"},
      {"chunk_data_bare_lf", chunked + "3\r\nabc\n0\r\n\r\n"},
      {"chunk_too_long", chunked + "3\r\nabcd\r\n0\r\n\r\n"},
      {"chunk_wraps", chunked + "10000000000000003\r\nabc\r\n"},
      {"chunk_extension_bare_lf", chunked + "3;a\nabc\r\n"},
      {"chunk_extension_bare_cr", chunked + "3;a\rX\r\nabc\r\n"},
      {"chunk_without_size", chunked + "\r\nabc\r\n"},
      {"trailer_fold", chunked + "0\r\nX: y\r\n z\r\n\r\n"},
      {"trailer_bare_lf", chunked + "0\r\nX: y\n\r\n"},
      {"trailer_cl", chunked + "0\r\nContent-Length: 3\r\n\r\n"},
      {"trailer_te", chunked + "0\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"trailer_host", chunked + "0\r\nhost: b\r\n\r\n"},
      {"trailer_connection", chunked + "0\r\nConnection: close\r\n\r\n"},
      {"trailer_credentials", chunked + "0\r\nPROXY-Authorization: Basic eA==\r\n\r\n"},
  };
  for (const auto& [name, text] : shapes) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{3}, text.size()}) {
      MessageReader reader(Kind::request);
      read(reader, text, step);
      EXPECT_EQ(reader.state(), State::failed) << name << " in pieces of " << step;
      EXPECT_EQ(reader.error_status(), 400) << name << " in pieces of " << step;
    }
  }
}

TEST(MessageReader, SmugglingShapesOfAnswersFail) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string chunked = ok + "Transfer-Encoding: chunked\r\n\r\n";
  const std::vector<std::pair<const char*, std::string>> shapes = {
      {"te_and_cl", ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"duplicate_cl", ok + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"},
      {"cl_list", ok + "Content-Length: 3, 4\r\n\r\n"},
      {"te_list", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n"},
      {"te_other", ok + "Transfer-Encoding: identity\r\n\r\n"},
      {"te_on_1_0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"space_before_colon", ok + "X : y\r\n\r\n"},
      {"fold", ok + "X: y\r\n z\r\n\r\n"},
      {"bare_lf", "HTTP/1.1 200 OK\nX: y\n\n"},
      {"bare_cr", ok + "X: y\rSet-Cookie: z\r\n\r\n"},
      {"status_99", "HTTP/1.1 099 OK\r\n\r\n"},
      {"status_600", "HTTP/1.1 600 OK\r\n\r\n"},
      {"status_word", "HTTP/1.1 OK 200\r\n\r\n"},
      {"not_http", "SSH-2.0-OpenSSH_9.2p1\r\n"},
      {"http_0_9", "<html>hello</html>"},
      {"ice", "ICY 200 OK\r\n\r\n"},
      {"chunk_bare_lf", chunked + "3\nabc\r\n"},
      {"chunk_too_long", chunked + "3\r\nabcd\r\n"},
      {"trailer_te", chunked + "0\r\nTransfer-Encoding: chunked\r\n\r\n"},
  };
  for (const auto& [name, text] : shapes) {
    for (const std::size_t step : {std::size_t{1}, text.size()}) {
      MessageReader reader(Kind::response);
      read(reader, text, step);
      EXPECT_EQ(reader.state(), State::failed) << name << " in pieces of " << step;
    }
  }
}

TEST(MessageReader, OtherVersionsAre505) {
  for (const char* text : {"GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.2\r\n\r\n", "GET / HTTP/0.9\r\n\r\n",
                           "GET /\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    MessageReader reader(Kind::request);
    read(reader, text, 100);
    EXPECT_EQ(reader.state(), State::failed) << text;
    EXPECT_EQ(reader.error_status(), 505) << text;
  }
}

TEST(MessageReader, TheLimitIsOfOneMessage) {
  MessageReader reader(Kind::request);
  const std::string get = "GET / HTTP/1.1\r\nX: " + std::string(1000, 'x') + "\r\n\r\n";
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(read(reader, get, get.size()).state, State::complete) << i;
    reader.next();
  }
}

TEST(MessageReader, HoldsTheHeadUntilItIsForgotten) {
  MessageReader reader(Kind::request);
  EXPECT_EQ(reader.held_bytes(), 0u);
  read(reader, "POST /target HTTP/1.1\r\nX: ", 3);
  EXPECT_EQ(reader.held_bytes(), std::string_view("/target"
                                                  "X")
                                         .size() +
                                     sizeof(Header));
  read(reader, "value\r\nTransfer-Encoding: chunked\r\n\r\n", 3);
  EXPECT_EQ(reader.held_bytes(), std::string_view("/target"
                                                  "X"
                                                  "value"
                                                  "Transfer-Encoding"
                                                  "chunked")
                                         .size() +
                                     2 * sizeof(Header));
  reader.forget_head();
  EXPECT_EQ(reader.held_bytes(), 0u);
  EXPECT_EQ(reader.head().method, "POST") << "what the rest of the message is read by stays";
  read(reader, "1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n", 3);
  EXPECT_EQ(reader.state(), State::complete);
  EXPECT_EQ(reader.held_bytes(), 0u);
  reader.next();
  read(reader, "GET /a HTTP/1.1\r\n", 3);
  EXPECT_EQ(reader.held_bytes(), 2u);
  MessageReader response(Kind::response);
  read(response, "HTTP/1.1 200 Fine\r\n", 3);
  EXPECT_EQ(response.held_bytes(), 4u);
}

TEST(MessageReader, HeadsAndTrailersAreBounded) {
  const std::string line = "X: " + std::string(1000, 'y') + "\r\n";
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 70; i++) many += line;
  std::string small = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 201; i++) small += "X: y\r\n";
  std::string trailers = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 70; i++) trailers += line;
  for (const std::string& text :
       {many + "\r\n", small + "\r\n", "GET /" + std::string(70'000, 'x') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nX:" + std::string(70'000, ' ') + "y\r\n\r\n", trailers + "\r\n"}) {
    for (const std::size_t step : {std::size_t{100}, text.size()}) {
      MessageReader reader(Kind::request);
      read(reader, text, step);
      EXPECT_EQ(reader.state(), State::failed);
      EXPECT_EQ(reader.error_status(), 431);
    }
  }
  std::string fits = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 199; i++) fits += "X: y\r\n";
  MessageReader reader(Kind::request);
  EXPECT_EQ(read(reader, fits + "\r\n", 10).state, State::complete);
}

}  // namespace
}  // namespace tmesh::http
