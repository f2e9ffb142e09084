#include "cpp/base/random.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "cpp/base/encoding.hpp"
#include "cpp/base/redact.hpp"

namespace tmesh {
namespace {

constexpr std::size_t kGetentropyMax = 256;  // POSIX: one call gives at most this
constexpr std::size_t kTextBytesMax = 64;

}  // namespace

void random_bytes(std::span<uint8_t> out) {
  while (!out.empty()) {
    const std::size_t n = std::min(out.size(), kGetentropyMax);
    TMESH_ASSERT(::getentropy(out.data(), n) == 0);
    out = out.subspan(n);
  }
}

std::string random_hex(std::size_t byte_count) {
  TMESH_ASSERT(byte_count <= kTextBytesMax);
  std::array<uint8_t, kTextBytesMax> bytes{};
  const std::span<uint8_t> used(bytes.data(), byte_count);
  random_bytes(used);
  std::string out = hex_encode(used);
  secure_wipe(bytes.data(), bytes.size());
  return out;
}

std::string random_base64url(std::size_t byte_count) {
  TMESH_ASSERT(byte_count <= kTextBytesMax);
  std::array<uint8_t, kTextBytesMax> bytes{};
  const std::span<uint8_t> used(bytes.data(), byte_count);
  random_bytes(used);
  std::string out = base64url_encode(used);
  secure_wipe(bytes.data(), bytes.size());
  return out;
}

}  // namespace tmesh
