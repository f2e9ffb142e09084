#include "cpp/server/token_hash.hpp"

#include <array>

#include "core/wire/digest.h"
#include "cpp/base/encoding.hpp"
#include "cpp/base/random.hpp"

namespace tmesh::server {
namespace {

constexpr size_t secret_bytes = 32;
constexpr size_t display_prefix_bytes = 8;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

Secret new_token_secret() {
  std::string text = random_base64url(secret_bytes);
  while (!is_letter(text[0])) text = random_base64url(secret_bytes);
  Secret secret(text);
  secure_wipe(text);
  return secret;
}

TokenDigest digest_token(std::string_view secret) {
  std::array<uint8_t, TMESH_SHA256_BYTES> digest{};
  tmesh_sha256(digest.data(), secret.data(), secret.size());
  return {hex_encode(digest), base64url_encode(digest)};
}

std::string token_display_prefix(const Secret& secret) {
  return std::string(secret.reveal().substr(0, display_prefix_bytes));
}

}  // namespace tmesh::server
