// Fuzzing of the HTTP proxy and gateway: one client connection, its requests and the answers
// of the origins it leads to. However the bytes are cut, the same comes out at both sides; an
// exchange that fails may have passed on more or less of itself. What an origin gets reads as
// whole requests, no more of them than the client sent, each with one Host and nothing of the
// hop before; what the client gets reads as answers to them.
//
// Input: a byte of options, one of piece size, then what the client sends, and what each
// origin answers, each behind a byte 0xFE. "!" and a byte: the open is refused, with this code.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.h"
#include "tests/support/proxy_world.hpp"

namespace {

using tmesh::http::Framing;
using tmesh::http::MessageReader;
using tmesh::http::ProxyConnection;
using tmesh::http::ProxyRules;
using tmesh::test::OriginEnd;
using tmesh::test::ProxyWorld;
using State = MessageReader::State;
using Verdict = ProxyConnection::Verdict;

constexpr uint8_t kGateway = 1, kLogin = 2, kOriginEnds = 4, kOriginBreaks = 8, kLittleRoom = 16, kStops = 32;

struct Case {
  uint8_t options;
  std::vector<std::string> parts;  // the client's, then those of the origins
};

ProxyRules rules_of(uint8_t options) {
  ProxyRules rules;
  rules.is_gateway = (options & kGateway) != 0;
  rules.has_login = !rules.is_gateway && (options & kLogin) != 0;
  rules.username = "u";
  rules.password = tmesh::Secret("p");
  rules.target = {"t", 81};
  rules.hosts = {"h", "i:9"};
  return rules;
}

struct Outcome {
  std::string client;
  std::vector<OriginEnd> origins;
  Verdict verdict = Verdict::running;
  uint64_t requests_count = 0;
};

// Until nothing changes any more; what an origin says is there as soon as it is connected.
void settle(ProxyWorld& w, const Case& input, std::string& client, std::size_t& filled) {
  for (;;) {
    const std::size_t before = client.size() + w.origins.size();
    w.connection.run();
    if (filled < w.origins.size()) {
      const std::size_t part = std::min(++filled, input.parts.size() - 1);
      const std::string_view said = part > 0 ? std::string_view(input.parts[part]) : std::string_view();
      if (said.size() == 2 && said[0] == '!') {
        const auto code = static_cast<uint8_t>(said[1]);
        w.refuse(static_cast<tmesh_open_stage>(code / TMESH_OPEN_CODE_COUNT % TMESH_STAGE_COUNT),
                 static_cast<tmesh_open_code>(1 + code % (TMESH_OPEN_CODE_COUNT - 1)));
      } else {
        w.origin().waiting = said;
        w.origin().is_ended = (input.options & kOriginEnds) != 0;
        w.accept();
        if ((input.options & kOriginBreaks) != 0 && w.origins.size() == filled && !w.origin().was_closed) {
          w.break_origin();
        }
      }
    }
    client += w.take();
    if (client.size() + w.origins.size() == before && filled == w.origins.size()) return;
  }
}

Outcome run(const Case& input, std::size_t piece) {
  ProxyWorld w(rules_of(input.options));
  w.piece_bytes = piece;
  w.opens_at_once = false;
  w.client_max_bytes = (input.options & kLittleRoom) != 0 ? 7 : 1u << 20;
  w.client_waiting = input.parts[0];
  Outcome out;
  std::size_t filled = 0;  // origins that have said what they say
  settle(w, input, out.client, filled);
  if ((input.options & kStops) != 0) w.connection.stop();
  w.is_client_ended = true;
  settle(w, input, out.client, filled);
  out.origins.assign(w.origins.begin(), w.origins.end());
  out.verdict = w.connection.verdict();
  out.requests_count = w.connection.requests_count();
  return out;
}

bool is_prefix_of_other(std::string_view a, std::string_view b) {
  return a.substr(0, b.size()) == b.substr(0, a.size());
}

void check_same(const Outcome& a, const Outcome& b) {
  FUZZ_CHECK(a.verdict == b.verdict);
  FUZZ_CHECK(a.requests_count == b.requests_count);
  FUZZ_CHECK(a.client == b.client || (a.verdict == Verdict::abort && is_prefix_of_other(a.client, b.client)));
  FUZZ_CHECK(a.origins.size() == b.origins.size());
  for (std::size_t i = 0; i < a.origins.size(); i++) {
    const OriginEnd& x = a.origins[i];
    const OriginEnd& y = b.origins[i];
    FUZZ_CHECK(x.place == y.place);
    FUZZ_CHECK(x.was_closed == y.was_closed);
    FUZZ_CHECK(x.received == y.received ||
               (x.was_closed == false && is_prefix_of_other(x.received, y.received)));
  }
}

std::span<const uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// What a strict reader finds in a stream of messages; nothing is left over but an unfinished one.
std::size_t count_messages(MessageReader::Kind kind, std::string_view text, bool may_be_cut, auto check) {
  MessageReader reader(kind);
  std::size_t count = 0;
  while (!text.empty()) {
    const bool was_head = reader.state() != State::body;
    text.remove_prefix(reader.feed(bytes(text)));
    FUZZ_CHECK(reader.state() != State::failed);
    if (reader.state() == State::head) break;
    if (was_head) check(reader.head());
    if (reader.state() != State::complete) continue;
    count += kind == MessageReader::Kind::request || reader.head().status >= 200;
    reader.next();
  }
  FUZZ_CHECK(may_be_cut || reader.state() == State::idle || reader.is_until_end());
  return count;
}

void check_request(const tmesh::http::MessageHead& head) {
  FUZZ_CHECK(head.target == "*" || head.target.starts_with('/'));
  FUZZ_CHECK(head.fields.count("host") == 1 && !head.fields.find("host")->empty());
  FUZZ_CHECK(head.fields.count("http2-settings") == 0 && head.fields.count("keep-alive") == 0);
  FUZZ_CHECK(!head.fields.has_token("upgrade", "h2c"));
  for (const auto& field : head.fields) {
    FUZZ_CHECK(!tmesh::http::equals_ignoring_case(std::string_view(field.name).substr(0, 6), "proxy-"));
  }
}

void check_response(const tmesh::http::MessageHead& head) {
  FUZZ_CHECK(head.minor_version == 1 && head.fields.count("keep-alive") == 0);
  FUZZ_CHECK(head.fields.count("proxy-authenticate") == 0 || head.status == 407);
}

void check_sides(const Outcome& out, const Case& input) {
  const bool is_tunnel = out.verdict == Verdict::tunnel;
  std::size_t requests_count = 0;
  for (std::size_t i = 0; i < out.origins.size(); i++) {
    const OriginEnd& origin = out.origins[i];
    // CONNECT sends nothing; what the tunnel carries is not ours to read.
    requests_count += count_messages(MessageReader::Kind::request, origin.received, origin.was_closed != true,
                                     check_request);
  }
  // A request on a connection that proved stale is sent a second time.
  FUZZ_CHECK(requests_count <= 2 * out.requests_count);
  // Whether a length is one depends on the method.
  if (input.parts[0].find("HEAD") != std::string::npos) return;
  const bool is_connected = is_tunnel && out.client.ends_with("established\r\n\r\n");
  const std::string_view read =
      is_connected ? std::string_view(out.client).substr(0, out.client.rfind("HTTP/1.1 200")) : out.client;
  const std::size_t answers_count =
      count_messages(MessageReader::Kind::response, read, out.verdict != Verdict::close, check_response);
  FUZZ_CHECK(answers_count <= out.requests_count + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Case input{data[0], {}};
  const std::size_t piece = 1 + data[1] % 64;
  std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  for (;;) {
    const std::size_t end = std::min(rest.find('\xfe'), rest.size());
    input.parts.emplace_back(rest.substr(0, end));
    if (end == rest.size() || input.parts.size() == 8) break;
    rest.remove_prefix(end + 1);
  }
  const Outcome whole = run(input, SIZE_MAX);
  check_sides(whole, input);
  check_same(run(input, piece), whole);
  check_same(run(input, 1), whole);
  return 0;
}
