// Where HTTP/1.1 messages begin and end in a stream of bytes, for an intermediary: heads are
// read whole, bodies are only measured (llhttp, strict).
//
// Sans-I/O and without a clock. What feed() used while the state was `body` belongs to the
// message as it stands, chunk framing and trailers included, and may be passed on; what it
// used before is the head, which is in head(). Framing must have exactly one reading
// (framing_of in field_reader.hpp, RFC 9112 section 6). Trailers may not hold fields that
// decide on framing, routing or the connection, or that are meant for a proxy (RFC 9110
// section 6.5.1).
//
// Owns the head it builds, until it is forgotten: kMaxHeadBytes and some 64 bytes per field. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cpp/http/field_reader.hpp"
#include "cpp/http/message.hpp"

namespace tmesh::http {

struct MessageHead {
  std::string method;  // requests: "GET"
  std::string target;  // requests: as sent
  int status = 0;      // responses
  std::string reason;  // responses: as sent, may be empty
  uint8_t minor_version = 1;
  Headers fields;
  Framing framing = Framing::none;    // of what the fields say; never malformed or unknown
  uint64_t content_length_bytes = 0;  // with Framing::length
};

class MessageReader {
 public:
  enum class Kind : uint8_t { request, response };
  enum class State : uint8_t {
    idle,      // no byte of a message yet
    head,      // in the start line or the fields
    body,      // the head is complete; more follows
    complete,  // the message ends here; after an interim answer (1xx) next_head() goes on
    failed,    // malformed, refused or cut off; nothing is read any more
  };

  // Start line, fields and trailers: twice what common browsers and servers send at most.
  static constexpr std::size_t kMaxHeadBytes = 64u << 10;
  static constexpr std::size_t kMaxFieldsCount = 200;

  explicit MessageReader(Kind kind);
  ~MessageReader();
  MessageReader(const MessageReader&) = delete;
  MessageReader& operator=(const MessageReader&) = delete;

  // Reads from the front of data; returns how much of it was used: it stops behind a head and
  // behind a message. 0 when failed. Not to be called when complete or failed.
  std::size_t feed(std::span<const uint8_t> data);
  // No byte follows: complete if that ends the body, else failed. In idle, head and body.
  void finish();
  State state() const { return state_; }
  // Once failed, for a request: 400, 431 or 505.
  int error_status() const { return error_status_; }

  // In body and complete.
  const MessageHead& head() const { return head_; }
  // Frees fields, target and reason; method, status and framing stay.
  void forget_head();
  // Memory that the head takes.
  std::size_t held_bytes() const;
  // Whether only the end of the connection ends the body.
  bool is_until_end() const { return is_until_end_; }
  // Of a body with a length, what is still to come.
  uint64_t rest_bytes() const { return rest_bytes_; }

  // To idle, from any state. is_answer_to_head: what comes answers a HEAD, so it has no body.
  void next(bool is_answer_to_head = false);
  // Behind an interim answer: another head of the same answer; the limit counts on.
  void next_head();

 private:
  struct Parser;
  friend struct MessageReaderGlue;
  void fail(int status);
  std::size_t feed_head(std::span<const uint8_t> data);
  std::size_t feed_chunks(std::span<const uint8_t> data);
  // 0, or the status to refuse a request with.
  int check_head();
  bool is_trailer_allowed() const;

  const Kind kind_;
  State state_ = State::idle;
  int error_status_ = 0;
  bool is_answer_to_head_ = false;
  bool is_until_end_ = false;
  uint64_t rest_bytes_ = 0;
  std::size_t head_wire_bytes_ = 0;
  MessageHead head_;
  std::string trailer_name_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tmesh::http
