#include "cpp/server/secret_box.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/wire/aes_gcm.h"
#include "cpp/base/encoding.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/random.hpp"

namespace tmesh::server {
namespace {

constexpr int64_t sealed_version = 1;
constexpr size_t key_id_bytes_max = 128;
constexpr size_t sealed_bytes_max = 1024;  // a secret has 43 bytes; deployed ones are no longer

std::string without_padding(std::string text) {
  while (text.ends_with('=')) text.pop_back();
  return text;
}

Result<std::string> decode_without_padding(std::string_view text) {
  std::string padded(text);
  while (padded.size() % 4 != 0) padded.push_back('=');
  return base64_decode(padded);
}

bool is_key(const Result<std::string>& bytes) {
  return bytes && (bytes->size() == 16 || bytes->size() == 24 || bytes->size() == 32);
}

bool is_printable(char c) {
  return c > 0x20 && c < 0x7f;
}

tmesh_gcm_key gcm_key(const Secret& key) {
  return {as_bytes(key.reveal()).data(), key.size()};
}

std::unexpected<Error> unreadable() {
  return fail(TMESH_E_STATE, "the kept secret cannot be read with the present key");
}

}  // namespace

Result<SecretBox> SecretBox::make(std::string_view key, std::string_view key_id) {
  key = trim(key);
  Result<std::string> bytes = decode_without_padding(key.substr(0, key.find_last_not_of('=') + 1));
  if (!is_key(bytes)) bytes = hex_decode(key);
  if (!is_key(bytes)) {
    return fail(TMESH_E_INVALID,
                "TUNNELMESH_TOKEN_ENCRYPTION_KEY is not 16, 24 or 32 bytes in base64 or hex");
  }
  SecretBox box;
  box.key_ = Secret(*bytes);
  secure_wipe(*bytes);
  key_id = trim(key_id);
  if (key_id.empty()) key_id = default_key_id;
  if (key_id.size() > key_id_bytes_max || !std::ranges::all_of(key_id, is_printable)) {
    return fail(TMESH_E_INVALID,
                "TUNNELMESH_TOKEN_ENCRYPTION_KEY_ID is not a word of at most 128 printable characters");
  }
  box.key_id_ = key_id;
  return box;
}

Result<std::optional<SecretBox>> SecretBox::if_given(const Secret& key, std::string_view key_id) {
  if (trim(key.reveal()).empty()) return std::optional<SecretBox>();
  Result<SecretBox> box = make(key.reveal(), key_id);
  if (!box) return std::unexpected(box.error());
  return std::optional<SecretBox>(std::move(*box));
}

Result<storage::SealedSecretRecord> SecretBox::seal(const Secret& secret) const {
  std::array<uint8_t, TMESH_GCM_NONCE_BYTES> nonce{};
  random_bytes(nonce);
  std::vector<uint8_t> sealed(secret.size() + TMESH_GCM_TAG_BYTES);
  const tmesh_code code = tmesh_gcm_seal(sealed.data(), gcm_key(key_), nonce.data(),
                                         as_bytes(secret.reveal()).data(), secret.size());
  if (code != TMESH_OK) return fail(code, "the secret could not be sealed");
  return storage::SealedSecretRecord{without_padding(base64_encode(sealed)),
                                     without_padding(base64_encode(nonce)), key_id_, sealed_version};
}

Result<Secret> SecretBox::open(const storage::SealedSecretRecord& record) const {
  if (record.version != sealed_version)
    return fail(TMESH_E_STATE, "the secret was kept by another version of this program");
  if (record.key_id != key_id_) return fail(TMESH_E_STATE, "the secret was kept under another key");
  const Result<std::string> nonce = decode_without_padding(record.nonce);
  const Result<std::string> sealed = decode_without_padding(record.ciphertext);
  if (!nonce || nonce->size() != TMESH_GCM_NONCE_BYTES || !sealed || sealed->size() < TMESH_GCM_TAG_BYTES ||
      sealed->size() > sealed_bytes_max) {
    return unreadable();
  }
  std::string text(sealed->size() - TMESH_GCM_TAG_BYTES, '\0');
  const tmesh_code code = tmesh_gcm_open(reinterpret_cast<uint8_t*>(text.data()), gcm_key(key_),
                                         as_bytes(*nonce).data(), as_bytes(*sealed).data(), sealed->size());
  if (code == TMESH_E_NO_MEMORY) return fail(code, "no memory to read the kept secret");
  if (code != TMESH_OK) return unreadable();
  Secret secret(text);
  secure_wipe(text);
  return secret;
}

}  // namespace tmesh::server
