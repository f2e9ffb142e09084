// HTTP/1.1 responses out of bytes (llhttp, strict), one at a time: what a client reads.
//
// Sans-I/O and without a clock, like request_parser.hpp, and as strict: HTTP/1.0 and 1.1
// only, statuses 100 to 599, no Transfer-Encoding but "chunked", none on 1.0, never beside
// Content-Length, one Content-Length, no line folding (RFC 9112 sections 2.2, 4, 6). Interim
// answers (1xx) are read over; 101 is refused, since nobody asked for another protocol.
//
// Of a body that is longer than the limit the beginning is kept, and the message counts as
// ready there: its status says what it says, but the connection is of no use any more.
//
// Owns the response it builds: at most max_header_bytes and max_body_bytes, plus some
// 64 bytes per field. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cpp/http/message.hpp"

namespace tmesh::http {

struct ResponseLimits {
  std::size_t max_header_bytes = 64u << 10;  // status lines, fields and trailers, interim ones included
  std::size_t max_header_count = 100;        // of one head; as for requests
  std::size_t max_body_bytes = 64u << 10;    // kept; framing of chunks may take eight times as much
};

class ResponseParser {
 public:
  enum class State : uint8_t {
    idle,    // no byte of a response yet
    head,    // in a status line or the fields, or behind an interim answer
    body,    // the head of the final answer is complete
    ready,   // response() is complete; next() goes on
    failed,  // malformed, refused or cut off; nothing is parsed any more
  };

  explicit ResponseParser(const ResponseLimits& limits);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  // Parses from the front of data and returns how much of it was used: all of it unless the
  // state became ready or failed. Must not be called in those two states.
  std::size_t feed(std::span<const uint8_t> data);
  // The connection has ended: ready if that is what ends the body, else failed.
  void finish();
  State state() const { return state_; }

  // Complete in ready; its head is complete in body. is_last is not used.
  Response& response();
  // In ready: whether another response may follow on this connection.
  bool keeps_alive() const;
  // In ready: the body was longer than the limit.
  bool is_cut() const;
  // From idle or ready to idle. is_head: what comes answers a HEAD, so it has no body.
  void next(bool is_head = false);

  // Bytes of the response kept in memory.
  std::size_t held_bytes() const;

 private:
  struct Impl;
  friend struct ResponseParserGlue;

  std::unique_ptr<Impl> impl_;
  State state_ = State::idle;
};

}  // namespace tmesh::http
