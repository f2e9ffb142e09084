// Token secrets that an administrator may read again: sealed with AES-GCM under a key that
// the configuration has and the database has not.
//
// The form is the one of deployed databases: a random nonce of 12 bytes, no associated data,
// cipher text with its tag and nonce as base64 without padding, version 1. Several servers
// on one database need the same key and key id. Immutable; may be used by any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cpp/base/redact.hpp"
#include "cpp/base/result.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

class SecretBox {
 public:
  static constexpr std::string_view default_key_id = "default";

  // `key`: 16, 24 or 32 bytes as base64, with or without padding, or as hex; 32 characters
  // that could be either are base64. `key_id`: empty is the default; at most 128 printable
  // characters, which is the column's width. TMESH_E_INVALID says what is expected.
  static Result<SecretBox> make(std::string_view key, std::string_view key_id);
  // nullopt where the configuration has no key: then no secret is kept.
  static Result<std::optional<SecretBox>> if_given(const Secret& key, std::string_view key_id);

  // TMESH_E_NO_MEMORY.
  Result<storage::SealedSecretRecord> seal(const Secret& secret) const;
  // TMESH_E_STATE: sealed by another version or under another key, or it cannot be read
  // with this one. TMESH_E_NO_MEMORY.
  Result<Secret> open(const storage::SealedSecretRecord& sealed) const;

 private:
  SecretBox() = default;

  Secret key_;  // bytes, not text
  std::string key_id_;
};

}  // namespace tmesh::server
