// An entry that speaks HTTP, with messages as text.
#pragma once

#include <string>
#include <string_view>

#include "tests/cpp/client/entry_fixture.hpp"

namespace tmesh::client {

// Line ends may be written as "\n".
inline std::string wire(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '\n' ? "\r\n" : std::string(1, c));
  return out;
}

class HttpEntryTest : public EntryTest {
 protected:
  HttpEntryTest() { tunnel.protocol = config::Tunnel::Protocol::http_proxy; }

  static std::string get(std::string_view host, std::string_view path = "/") {
    return wire("GET http://" + std::string(host) + std::string(path) +
                " HTTP/1.1\nHost: " + std::string(host) + "\n\n");
  }
  static std::string forwarded(std::string_view host, std::string_view path = "/") {
    return wire("GET " + std::string(path) + " HTTP/1.1\nHost: " + std::string(host) + "\n\n");
  }
  static std::string answer(std::string_view body) {
    return wire("HTTP/1.1 200 OK\nContent-Length: " + std::to_string(body.size()) + "\n\n") +
           std::string(body);
  }
  // The stream `s` got this and nothing else.
  void expect_received(PeerStream& s, std::string_view text) {
    EXPECT_TRUE(run_until([&] { return s.received.size() >= text.size(); }));
    EXPECT_EQ(s.received, text);
  }
  // The client got this and nothing else, and is still connected.
  void expect_got(RawClient& client, std::string_view text) {
    EXPECT_TRUE(run_until([&] { return client.pump().received.size() >= text.size(); }));
    EXPECT_EQ(client.received, text);
    EXPECT_FALSE(client.is_over());
    client.received.clear();
  }
  // An answer of the entry's own; returns its head.
  std::string own_answer(RawClient& client, int status) {
    EXPECT_TRUE(run_until([&] { return client.pump().received.find("\r\n\r\n") != std::string::npos; }));
    EXPECT_TRUE(client.received.starts_with("HTTP/1.1 " + std::to_string(status) + " ")) << client.received;
    const std::string head = client.received.substr(0, client.received.find("\r\n\r\n") + 2);
    client.received.clear();
    return head;
  }
  RawClient started(std::string_view host = "a") {
    RawClient client = connect_with(get(host));
    far().answer(tmesh_open_accept());
    expect_received(far(), forwarded(host));
    return client;
  }
  uint64_t data_bytes_at_the_server() { return server.last().link.mux()->stats.data_bytes_in; }
  std::size_t streams_count() { return server.last().streams.size(); }
};

}  // namespace tmesh::client
