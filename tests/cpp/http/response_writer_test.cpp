#include "cpp/http/response_writer.hpp"

#include <gtest/gtest.h>

namespace tmesh::http {
namespace {

constexpr std::string_view kDate = "Sun, 06 Nov 1994 08:49:37 GMT";

TEST(ResponseWriterTest, FormatsTheDateOfRfc9110) {
  EXPECT_EQ(http_date(784111777), kDate);
  EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(http_date(951782400), "Tue, 29 Feb 2000 00:00:00 GMT");
}

TEST(ResponseWriterTest, WritesStatusFieldsLengthAndBody) {
  Response response = Response::json(201, "{}");
  EXPECT_EQ(serialize(response, false, false, kDate),
            "HTTP/1.1 201 Created\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
}

TEST(ResponseWriterTest, SaysCloseWhenItCloses) {
  EXPECT_NE(serialize(Response::plain(200), false, true, kDate).find("\r\nConnection: close\r\n"),
            std::string::npos);
}

TEST(ResponseWriterTest, HeadKeepsTheLengthAndLeavesTheBodyOut) {
  std::string text = serialize(Response::plain(200, "hello"), true, false, kDate);
  EXPECT_NE(text.find("Content-Length: 6\r\n\r\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
}

TEST(ResponseWriterTest, NoContentHasNeitherLengthNorBody) {
  for (int status : {204, 304}) {
    Response response;
    response.status = status;
    response.body = "lost";
    std::string text = serialize(response, false, false, kDate);
    EXPECT_EQ(text.find("Content-Length"), std::string::npos);
    EXPECT_TRUE(text.ends_with("\r\n\r\n"));
  }
}

TEST(ResponseWriterTest, AFieldThatCouldBreakTheMessageBecomesAnEmpty500) {
  for (const Header& bad :
       {Header{"X", "a\r\nSet-Cookie: x"}, Header{"X", std::string("a\0b", 3)}, Header{"X", "\x7f"},
        Header{"X Y", "a"}, Header{"", "a"}, Header{"X:", "a"}, Header{"Content-length", "3"},
        Header{"transfer-encoding", "chunked"}, Header{"connection", "close"}, Header{"DATE", "x"}}) {
    Response response = Response::plain(200);
    response.headers.add(bad.name, bad.value);
    EXPECT_TRUE(
        serialize(response, false, false, kDate).starts_with("HTTP/1.1 500 Internal Server Error\r\n"))
        << bad.name;
  }
}

TEST(ResponseWriterTest, SwitchingHasNoLength) {
  EXPECT_EQ(serialize_switching({{"Upgrade", "websocket"}}, kDate),
            "HTTP/1.1 101 Switching Protocols\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
}

TEST(ResponseWriterTest, PlainWithoutTextSaysTheReason) {
  EXPECT_EQ(Response::plain(404).body, "Not Found\n");
  EXPECT_EQ(Response::plain(404, "gone").body, "gone\n");
}

}  // namespace
}  // namespace tmesh::http
