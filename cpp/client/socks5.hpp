// SOCKS5 handshake of one local connection, server side, sans-I/O (RFC 1928, RFC 1929).
//
// Bytes in, in any pieces; reply bytes out. Only CONNECT is served; BIND and UDP
// ASSOCIATE are answered with 0x07, an unknown address type with 0x08 (requirement A4).
// Holds at most one message (513 bytes); allocates only the host string. No time:
// the owner bounds how long a handshake may take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cpp/base/redact.hpp"
#include "cpp/client/open_error_map.hpp"

namespace tmesh::client {

struct Socks5Login {
  std::string username;
  Secret password;
};

class Socks5Handshake {
 public:
  enum class State : uint8_t {
    greeting,
    login,
    request,
    ready,   // the request is complete: host() and port()
    failed,  // send reply() and close
  };

  // login null: no authentication is offered; otherwise only user name and password.
  explicit Socks5Handshake(const Socks5Login* login) : login_(login) {}

  // Takes what belongs to the handshake and returns how much; bytes after the request
  // are the stream's. Stops early when reply() became non-empty: send it, clear it with
  // reply_sent(), and call again with the rest.
  std::size_t feed(std::span<const uint8_t> data);
  std::span<const uint8_t> reply() const { return {reply_.data(), reply_bytes_}; }
  void reply_sent() { reply_bytes_ = 0; }

  State state() const { return state_; }
  // A literal in canonical text, or a name as the client sent it, at most 253 bytes.
  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }

  // The final answer: ten bytes, with an unspecified bound address (what matters of it
  // is at the agent and not the browser's business).
  static std::array<uint8_t, 10> final_reply(Socks5Reply reply);

 private:
  void fail(std::span<const uint8_t> reply);
  void fail(Socks5Reply reply);
  // How many bytes the current message needs at least, given what is there.
  std::size_t need() const;
  void on_message();
  void on_greeting();
  void on_login();
  void on_request();

  const Socks5Login* login_;
  State state_ = State::greeting;
  std::array<uint8_t, 513> message_{};  // the longest: a login with two 255-byte fields
  std::size_t message_bytes_ = 0;
  std::array<uint8_t, 10> reply_{};
  std::size_t reply_bytes_ = 0;
  std::string host_;
  uint16_t port_ = 0;
};

}  // namespace tmesh::client
