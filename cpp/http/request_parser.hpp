// HTTP/1.1 requests out of bytes (llhttp, strict), one at a time.
//
// Sans-I/O and without a clock: bytes in, a verdict out. The rules that llhttp leaves
// to its user are applied here (RFC 9112 sections 2.2, 3, 6; LESSONS P-J7): exactly one
// Host, HTTP/1.0 and 1.1 only, no Transfer-Encoding on 1.0, none but "chunked", never
// together with Content-Length, one Content-Length, no line folding, origin-form
// targets ("*" for OPTIONS) of visible ASCII. Absolute-form is refused: an origin
// server that reads two hosts in one request can be made to serve the wrong one.
//
// Owns the request it builds: at most max_header_bytes and max_body_bytes, plus some
// 64 bytes per field. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cpp/http/message.hpp"

namespace tmesh::http {

struct ParserLimits {
  std::size_t max_header_bytes = 1u << 20;  // request line, fields and trailers
  std::size_t max_header_count = 100;       // what common servers accept; real requests have under 40
  std::size_t max_target_bytes = 8192;      // RFC 9112 section 3 asks for at least 8,000
  std::size_t max_body_bytes = 1u << 20;    // the administration API's requests are far smaller
};

class RequestParser {
 public:
  enum class State : uint8_t {
    idle,    // no byte of a request yet
    head,    // in the request line or the fields
    body,    // head complete, more of the body to come
    ready,   // a whole request waits in request(); next() goes on
    failed,  // error_status() says with what to answer; nothing is parsed any more
  };

  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Parses from the front of data and returns how much of it was used: all of it
  // unless the state became ready (the rest is the next request or, after an upgrade,
  // the other protocol) or failed. Must not be called in those two states.
  std::size_t feed(std::span<const uint8_t> data);
  State state() const { return state_; }
  // 400, 413, 414, 417, 431, 501 or 505 once failed.
  int error_status() const { return error_status_; }

  // Complete in ready; its head is complete in body.
  Request& request();
  // Whether another request may follow on this connection.
  bool keeps_alive() const;
  // In body: the client waits for "100 Continue" before it sends the body.
  bool wants_continue() const;
  // From ready to idle.
  void next();

  // Bytes of the request kept in memory.
  std::size_t held_bytes() const;

 private:
  struct Impl;
  friend struct ParserGlue;
  void reject(int status);

  std::unique_ptr<Impl> impl_;
  State state_ = State::idle;
  int error_status_ = 0;
};

}  // namespace tmesh::http
