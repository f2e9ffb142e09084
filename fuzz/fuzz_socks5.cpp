// Fuzzing of the SOCKS5 handshake of a local entry. Bytes in any pieces must have the same
// outcome as all of them at once; an unfinished handshake takes everything it is given, a
// finished one nothing more; what becomes a target is a literal in canonical text or a
// host name; and a login that is demanded cannot be passed by.
//
// Input: one byte (bits 0-5 piece size, bit 6 whether a login is demanded), then what the
// local client sends.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "cpp/base/address.hpp"
#include "cpp/client/socks5.hpp"
#include "fuzz/fuzz.h"

namespace {

using tmesh::client::Socks5Handshake;
using tmesh::client::Socks5Login;
using State = Socks5Handshake::State;

struct Outcome {
  State state;
  std::string replies;
  std::string host;
  uint16_t port;
  size_t used;

  bool operator==(const Outcome&) const = default;
};

bool is_over(const Socks5Handshake& h) {
  return h.state() == State::ready || h.state() == State::failed;
}

Outcome run(const Socks5Login* login, const uint8_t* data, size_t size, size_t piece) {
  Socks5Handshake h(login);
  Outcome out{};
  size_t arrived = 0;
  do {
    arrived = std::min(size, arrived + piece);
    bool has_reply = false;
    do {
      // A copy of exactly what arrived, so that reading beyond it is seen.
      const size_t n = arrived - out.used;
      const auto copy = std::make_unique<uint8_t[]>(n);
      if (n > 0) std::memcpy(copy.get(), data + out.used, n);
      const size_t used = h.feed({copy.get(), n});
      FUZZ_CHECK(used <= n);
      out.used += used;
      has_reply = !h.reply().empty();
      out.replies.append(h.reply().begin(), h.reply().end());
      h.reply_sent();
    } while (has_reply && !is_over(h));
    FUZZ_CHECK(is_over(h) || out.used == arrived);
  } while (arrived < size && !is_over(h));
  FUZZ_CHECK(!is_over(h) || h.feed({data, size}) == 0);
  out.state = h.state();
  out.host = h.host();
  out.port = h.port();
  return out;
}

void check_target(const Outcome& out) {
  FUZZ_CHECK(out.port != 0 && !out.host.empty() && out.host.size() <= 253);
  const auto ip = tmesh::parse_ip(out.host);
  FUZZ_CHECK(ip ? tmesh::format_ip(*ip) == out.host : tmesh::is_host_name(out.host));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Socks5Login login{"user", tmesh::Secret("pass")};
  if (size == 0) return 0;
  const size_t piece = (data[0] & 0x3F) + 1;
  const bool has_login = (data[0] & 0x40) != 0;
  data++;
  size--;
  const Socks5Login* const wanted = has_login ? &login : nullptr;
  const Outcome whole = run(wanted, data, size, std::max<size_t>(size, 1));
  FUZZ_CHECK(run(wanted, data, size, piece) == whole);
  FUZZ_CHECK(whole.used <= size);
  if (whole.state != State::ready) return 0;
  check_target(whole);
  const std::string_view proof("\x01\x04user\x04pass", 11);
  const std::string_view taken(reinterpret_cast<const char*>(data), whole.used);
  FUZZ_CHECK(!has_login || taken.find(proof) != std::string_view::npos);
  FUZZ_CHECK(whole.replies ==
             (has_login ? std::string_view("\x05\x02\x01\x00", 4) : std::string_view("\x05\x00", 2)));
  return 0;
}
