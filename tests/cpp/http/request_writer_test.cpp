#include "cpp/http/request_writer.hpp"

#include <gtest/gtest.h>

namespace tmesh::http {
namespace {

const Url kUrl{false, "auth.example.com", 8080, "/check?a=b"};

TEST(RequestWriterTest, WritesLineHostFieldsLengthAndBody) {
  EXPECT_EQ(serialize_request(Method::post, kUrl, {{"Content-Type", "application/json"}}, "{}"),
            "POST /check?a=b HTTP/1.1\r\nHost: auth.example.com:8080\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\n\r\n{}");
}

TEST(RequestWriterTest, TheHostIsAsTheUrlWritesIt) {
  EXPECT_EQ(serialize_request(Method::get, {true, "a", 443, "/"}, {}, ""),
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(serialize_request(Method::get, {false, "::1", 8080, "/"}, {}, ""),
            "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n");
}

// RFC 9110 section 8.6: a method that anticipates content says that there is none.
TEST(RequestWriterTest, AnEmptyBodyHasALengthWhereOneIsExpected) {
  for (const Method method : {Method::post, Method::put, Method::patch}) {
    EXPECT_NE(serialize_request(method, kUrl, {}, "")->find("\r\nContent-Length: 0\r\n"), std::string::npos);
  }
  for (const Method method : {Method::get, Method::head, Method::del, Method::options}) {
    EXPECT_EQ(serialize_request(method, kUrl, {}, "")->find("Content-Length"), std::string::npos);
  }
}

TEST(RequestWriterTest, RefusesWhatCouldBreakTheMessage) {
  for (const Header& bad :
       {Header{"X", "a\r\nHost: b"}, Header{"X", std::string("a\0b", 3)}, Header{"X", "\x7f"},
        Header{"X Y", "a"}, Header{"", "a"}, Header{"X:", "a"}, Header{"Content-length", "3"},
        Header{"transfer-encoding", "chunked"}, Header{"connection", "close"}, Header{"HOST", "x"}}) {
    EXPECT_FALSE(serialize_request(Method::get, kUrl, {bad}, "").has_value()) << bad.name;
  }
  for (const char* path : {"", "x", "/a b", "/\r\nX: y", "/\xff"}) {
    EXPECT_FALSE(serialize_request(Method::get, {false, "a", 80, path}, {}, "").has_value()) << path;
  }
  EXPECT_FALSE(serialize_request(Method::get, {false, "a\r\nb", 80, "/"}, {}, "").has_value());
}

// Whoever wipes the result leaves no copy of a password behind.
TEST(RequestWriterTest, IsMadeInOneAllocation) {
  const std::string body(100'000, 'x');
  const auto bytes = serialize_request(Method::post, kUrl, {{"A", std::string(1000, 'y')}}, body);
  EXPECT_LE(bytes->capacity(), body.size() + 1000 + 256);
}

}  // namespace
}  // namespace tmesh::http
