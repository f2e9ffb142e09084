#include "cpp/client/socks5.hpp"

#include <algorithm>
#include <cstring>

#include "cpp/base/address.hpp"

namespace tmesh::client {
namespace {

constexpr uint8_t kVersion = 5;
constexpr uint8_t kLoginVersion = 1;
constexpr uint8_t kMethodNone = 0;
constexpr uint8_t kMethodLogin = 2;
constexpr uint8_t kMethodNoneAcceptable = 0xFF;
constexpr uint8_t kConnect = 1;
constexpr uint8_t kIpv4 = 1;
constexpr uint8_t kName = 3;
constexpr uint8_t kIpv6 = 4;

}  // namespace

std::array<uint8_t, 10> Socks5Handshake::final_reply(Socks5Reply reply) {
  return {kVersion, reply, 0, kIpv4, 0, 0, 0, 0, 0, 0};
}

void Socks5Handshake::fail(std::span<const uint8_t> reply) {
  state_ = State::failed;
  std::copy(reply.begin(), reply.end(), reply_.begin());
  reply_bytes_ = reply.size();
}

void Socks5Handshake::fail(Socks5Reply reply) {
  fail(final_reply(reply));
}

std::size_t Socks5Handshake::need() const {
  const auto& m = message_;
  const std::size_t n = message_bytes_;
  switch (state_) {
    case State::greeting:
      return n < 2 ? 2 : std::size_t{2} + m[1];
    case State::login: {
      if (n < 2) return 2;
      const std::size_t name_end = std::size_t{2} + m[1];
      return n < name_end + 1 ? name_end + 1 : name_end + 1 + m[name_end];
    }
    case State::request:
      if (n < 4) return 4;
      if (m[3] == kIpv4) return 4 + 4 + 2;
      if (m[3] == kIpv6) return 4 + 16 + 2;
      if (m[3] == kName) return n < 5 ? 5 : std::size_t{5} + m[4] + 2;
      return 4;  // an unknown type has no known length: judged on the four bytes
    default:
      return 0;
  }
}

std::size_t Socks5Handshake::feed(std::span<const uint8_t> data) {
  std::size_t used = 0;
  while (state_ != State::ready && state_ != State::failed && reply_bytes_ == 0) {
    // A wrong first byte is another protocol: no reply would be understood.
    if (message_bytes_ >= 1) {
      const uint8_t version = state_ == State::login ? kLoginVersion : kVersion;
      if (message_[0] != version) {
        fail(std::span<const uint8_t>{});
        break;
      }
    }
    const std::size_t want = need();
    if (message_bytes_ >= want) {
      on_message();
      message_bytes_ = 0;
      continue;
    }
    if (used == data.size()) break;
    // One byte first, so that a foreign protocol is refused at its first byte.
    const std::size_t goal = message_bytes_ == 0 ? 1 : want;
    const std::size_t n = std::min(goal - message_bytes_, data.size() - used);
    std::memcpy(message_.data() + message_bytes_, data.data() + used, n);
    message_bytes_ += n;
    used += n;
  }
  return used;
}

void Socks5Handshake::on_message() {
  switch (state_) {
    case State::greeting:
      return on_greeting();
    case State::login:
      return on_login();
    default:
      return on_request();
  }
}

void Socks5Handshake::on_greeting() {
  const uint8_t wanted = login_ != nullptr ? kMethodLogin : kMethodNone;
  const auto methods = std::span(message_).subspan(2, message_[1]);
  if (std::find(methods.begin(), methods.end(), wanted) == methods.end()) {
    return fail(std::array<uint8_t, 2>{kVersion, kMethodNoneAcceptable});
  }
  reply_[0] = kVersion;
  reply_[1] = wanted;
  reply_bytes_ = 2;
  state_ = login_ != nullptr ? State::login : State::request;
}

void Socks5Handshake::on_login() {
  const auto* text = reinterpret_cast<const char*>(message_.data());
  const std::size_t name_bytes = message_[1];
  const std::size_t password_bytes = message_[2 + name_bytes];
  const std::string_view name(text + 2, name_bytes);
  const std::string_view password(text + 3 + name_bytes, password_bytes);
  // Both are compared whatever the first says, so that time tells nothing.
  const bool is_name = equal_constant_time(name, login_->username);
  const bool is_password = login_->password.equals(password);
  secure_wipe(message_.data(), message_.size());
  if (!is_name || !is_password) return fail(std::array<uint8_t, 2>{kLoginVersion, 1});
  reply_[0] = kLoginVersion;
  reply_[1] = 0;
  reply_bytes_ = 2;
  state_ = State::request;
}

void Socks5Handshake::on_request() {
  const uint8_t kind = message_[3];
  if (kind != kIpv4 && kind != kIpv6 && kind != kName) return fail(kReplyAddressTypeNotSupported);
  if (message_[1] != kConnect) return fail(kReplyCommandNotSupported);
  std::size_t port_at = 0;
  if (kind == kName) {
    const std::size_t n = message_[4];
    const std::string_view name(reinterpret_cast<const char*>(message_.data()) + 5, n);
    // Browsers send literals as names too. Anything else of colons, spaces or control
    // characters is neither.
    if (const auto ip = parse_ip(name)) {
      host_ = format_ip(*ip);
    } else if (is_host_name(name)) {
      host_ = name;
    } else {
      return fail(kReplyGeneralFailure);
    }
    port_at = 5 + n;
  } else {
    host_ = format_ip(ip_from_bytes(message_.data() + 4, kind == kIpv4));
    port_at = kind == kIpv4 ? 8 : 20;
  }
  port_ = static_cast<uint16_t>((message_[port_at] << 8) | message_[port_at + 1]);
  if (port_ == 0) return fail(kReplyGeneralFailure);
  state_ = State::ready;
}

}  // namespace tmesh::client
