// Fuzzing of the server's HTTP request parser. Requests in any pieces, pipelined or not,
// must be read like the same bytes at once, or refused like them; what is ready has one
// reading (one host, an origin-form target, one way to tell the body's length); and
// nothing grows past its limit. Two things may depend on the pieces: which of several
// faults is told, and, since white space is counted per piece, whether a head of just the
// largest size is still taken.
//
// Input: one byte of piece size, then what a peer sends on one connection.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "cpp/http/request_parser.hpp"
#include "fuzz/fuzz.h"

namespace {

using tmesh::http::ParserLimits;
using tmesh::http::Request;
using tmesh::http::RequestParser;
using State = RequestParser::State;

// Small, so that a small input reaches them.
constexpr ParserLimits kLimits{
    .max_header_bytes = 512, .max_header_count = 12, .max_target_bytes = 64, .max_body_bytes = 200};

// Bytes per field that are not the message's own (see request_parser.hpp).
constexpr size_t kFieldOverheadBytes = 64;

void check_ready(RequestParser& parser) {
  const Request& r = parser.request();
  FUZZ_CHECK(!r.path.empty() && (r.path[0] == '/' || (r.path == "*" && !r.has_query)));
  FUZZ_CHECK(r.path.size() + r.query.size() <= kLimits.max_target_bytes);
  for (const char c : r.path + r.query) FUZZ_CHECK(c > 0x20 && c < 0x7f && c != '#');
  FUZZ_CHECK(r.path.find('?') == std::string::npos);
  FUZZ_CHECK(r.has_query || r.query.empty());
  FUZZ_CHECK(r.minor_version <= 1);
  FUZZ_CHECK(r.headers.count("host") == 1 || (r.minor_version == 0 && r.headers.count("host") == 0));
  FUZZ_CHECK(r.headers.count("content-length") + r.headers.count("transfer-encoding") <= 1);
  FUZZ_CHECK(r.minor_version == 1 || r.headers.count("transfer-encoding") == 0);
  FUZZ_CHECK(r.headers.size() <= kLimits.max_header_count);
  for (const auto& field : r.headers) {
    FUZZ_CHECK(!field.name.empty());
    for (const unsigned char c : field.name) FUZZ_CHECK(c > 0x20 && c < 0x7f && c != ':');
    for (const unsigned char c : field.value) FUZZ_CHECK(c == '\t' || (c >= 0x20 && c != 0x7f));
  }
  FUZZ_CHECK(r.body.size() <= kLimits.max_body_bytes);
  if (const std::string* length = r.headers.find("content-length"); length != nullptr) {
    FUZZ_CHECK(r.body.size() == std::strtoull(length->c_str(), nullptr, 10));
  } else if (r.headers.count("transfer-encoding") == 0) {
    FUZZ_CHECK(r.body.empty());
  }
}

// Everything that can be seen of a request, as text.
std::string shown(RequestParser& parser) {
  const Request& r = parser.request();
  std::string out = std::string(method_name(r.method)) + " " + r.path + (r.has_query ? "?" : "") + r.query +
                    " " + std::to_string(r.minor_version) + (r.is_upgrade ? " upgrade" : "") +
                    (parser.keeps_alive() ? " keep" : " close") + "\n";
  for (const auto& field : r.headers) out += field.name + "=" + field.value + "\n";
  return out + "[" + r.body + "]\n";
}

struct Outcome {
  std::string said;
  State state;
  size_t used;
  bool is_over_limit;
};

bool is_prefix(const std::string& a, const std::string& b) {
  return a.compare(0, std::string::npos, b, 0, a.size()) == 0;
}

bool is_same(const Outcome& a, const Outcome& b) {
  if (a.is_over_limit || b.is_over_limit) return is_prefix(a.said, b.said) || is_prefix(b.said, a.said);
  return a.said == b.said && a.state == b.state && a.used == b.used;
}

Outcome run(const uint8_t* data, size_t size, size_t piece) {
  RequestParser parser(kLimits);
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
        check_ready(parser);
        out.said += shown(parser);
        goes_on = parser.keeps_alive() && !parser.request().is_upgrade;
        if (goes_on) parser.next();
      } else {
        FUZZ_CHECK(out.used == arrived);
      }
    }
  }
  out.state = parser.state();
  if (out.state == State::failed) {
    out.used = 0;  // how far it was read may depend on the pieces, too
    const int s = parser.error_status();
    out.is_over_limit = s == 413 || s == 414 || s == 431;
    FUZZ_CHECK(s == 400 || s == 413 || s == 414 || s == 417 || s == 431 || s == 501 || s == 505);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = 1 + data[0] % 64;
  data++;
  size--;
  const Outcome whole = run(data, size, std::max<size_t>(size, 1));
  FUZZ_CHECK(is_same(run(data, size, piece), whole));
  FUZZ_CHECK(is_same(run(data, size, 1), whole));
  return 0;
}
