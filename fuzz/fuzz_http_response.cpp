// Fuzzing of the HTTP client's response parser. Responses in any pieces must be read like
// the same bytes at once, or refused like them; what is ready has one reading (a final
// status, one way to tell the body's length) and a body of just that length; nothing grows
// past its limit. Two things may depend on the pieces: where a message that is over a limit
// is refused, and, since white space is counted per piece, whether a head of just the
// largest size is still taken.
//
// Input: one byte of piece size (its high bit: the answers are to HEAD), then what a server
// sends on one connection before it closes it.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "cpp/http/response_parser.hpp"
#include "fuzz/fuzz.h"

namespace {

using tmesh::http::Response;
using tmesh::http::ResponseLimits;
using tmesh::http::ResponseParser;
using State = ResponseParser::State;

// Small, so that a small input reaches them.
constexpr ResponseLimits kLimits{.max_header_bytes = 512, .max_header_count = 12, .max_body_bytes = 200};

// Bytes per field that are not the message's own (see response_parser.hpp).
constexpr size_t kFieldOverheadBytes = 64;

void check_ready(ResponseParser& parser, bool is_head) {
  const Response& r = parser.response();
  FUZZ_CHECK(r.status >= 200 && r.status <= 599);
  const size_t lengths = r.headers.count("content-length");
  const size_t encodings = r.headers.count("transfer-encoding");
  FUZZ_CHECK(lengths + encodings <= 1);
  FUZZ_CHECK(r.headers.size() <= kLimits.max_header_count);
  for (const auto& field : r.headers) {
    FUZZ_CHECK(!field.name.empty());
    for (const unsigned char c : field.name) FUZZ_CHECK(c > 0x20 && c < 0x7f && c != ':');
    for (const unsigned char c : field.value) FUZZ_CHECK(c == '\t' || (c >= 0x20 && c != 0x7f));
  }
  FUZZ_CHECK(r.body.size() <= kLimits.max_body_bytes);
  if (is_head || r.status == 204 || r.status == 304) {
    FUZZ_CHECK(r.body.empty());
  } else if (parser.is_cut()) {
    FUZZ_CHECK(r.body.size() == kLimits.max_body_bytes && !parser.keeps_alive());
  } else if (lengths == 1) {
    FUZZ_CHECK(r.body.size() == std::strtoull(r.headers.find("content-length")->c_str(), nullptr, 10));
  } else if (encodings == 0) {
    FUZZ_CHECK(!parser.keeps_alive());
  }
}

// Everything that can be seen of a response, as text.
std::string shown(ResponseParser& parser) {
  const Response& r = parser.response();
  std::string out = std::to_string(r.status) + (parser.keeps_alive() ? " keep" : " close") +
                    (parser.is_cut() ? " cut" : "") + "\n";
  for (const auto& field : r.headers) out += field.name + "=" + field.value + "\n";
  return out + "[" + r.body + "]\n";
}

struct Outcome {
  std::string said;
  State state;
  size_t used;
};

Outcome run(const uint8_t* data, size_t size, size_t piece, bool is_head) {
  ResponseParser parser(kLimits);
  parser.next(is_head);
  Outcome out{};
  size_t arrived = 0;
  bool goes_on = true;
  while (goes_on && arrived < size) {
    arrived = std::min(size, arrived + piece);
    while (goes_on && out.used < arrived) {
      // A copy of exactly what arrived, so that reading beyond it is seen.
      const size_t n = arrived - out.used;
      const auto copy = std::make_unique<uint8_t[]>(n);
      std::memcpy(copy.get(), data + out.used, n);
      const size_t used = parser.feed({copy.get(), n});
      FUZZ_CHECK(used <= n);
      out.used += used;
      FUZZ_CHECK(parser.held_bytes() <= kLimits.max_header_bytes + kLimits.max_body_bytes +
                                            (kLimits.max_header_count + 2) * kFieldOverheadBytes);
      if (parser.state() == State::failed) {
        goes_on = false;
      } else if (parser.state() == State::ready) {
        check_ready(parser, is_head);
        out.said += shown(parser);
        goes_on = parser.keeps_alive();
        if (goes_on) parser.next(is_head);
      } else {
        FUZZ_CHECK(out.used == arrived);
      }
    }
  }
  if (goes_on) {
    parser.finish();
    FUZZ_CHECK(parser.state() == State::failed || parser.state() == State::ready);
    if (parser.state() == State::ready) {
      check_ready(parser, is_head);
      out.said += shown(parser);
      FUZZ_CHECK(!parser.keeps_alive());
    }
  }
  out.state = parser.state();
  if (out.state == State::failed || parser.is_cut()) out.used = 0;  // may depend on the pieces
  return out;
}

bool is_prefix(const std::string& a, const std::string& b) {
  return a.compare(0, std::string::npos, b, 0, a.size()) == 0;
}

bool is_same(const Outcome& a, const Outcome& b, size_t size) {
  // No limit can be passed with fewer bytes than the smallest one.
  const bool may_pass_limit = size > kLimits.max_header_bytes;
  if (may_pass_limit && (a.state == State::failed || b.state == State::failed)) {
    return is_prefix(a.said, b.said) || is_prefix(b.said, a.said);
  }
  return a.said == b.said && a.state == b.state && a.used == b.used;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = 1 + data[0] % 64;
  const bool is_head = (data[0] & 0x80) != 0;
  data++;
  size--;
  const Outcome whole = run(data, size, std::max<size_t>(size, 1), is_head);
  FUZZ_CHECK(is_same(run(data, size, piece, is_head), whole, size));
  FUZZ_CHECK(is_same(run(data, size, 1, is_head), whole, size));
  return 0;
}
