// Rows as values. Plain structs without behaviour, one per table that we change.
//
// Timestamps stay the text of the database (timestamp.hpp); an empty text means
// NULL. Lists that the database keeps as JSON or comma text stay that text: what
// they mean is decided by the services (cpp/server), which refuse what they cannot
// read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tmesh::storage {

// The row that a find() gave, nullptr if there was none.
template <class T>
const T* row_of(const std::optional<T>& found) {
  return found.has_value() ? &*found : nullptr;
}

struct UserRecord {
  std::string id;
  std::string username;
  std::string role;           // "admin" or "user"
  std::string password_hash;  // Argon2id PHC string
  bool is_disabled = false;
  std::string deleted_at;
  std::string created_at;
  std::string updated_at;
};

struct AgentRecord {
  std::string id;
  std::string name;
  std::string owner_user_id;
  std::string capabilities = "[]";  // JSON array
  bool is_enabled = true;
  std::string created_at;
  std::string updated_at;
};

struct PolicyRecord {
  std::string id;
  std::string agent_id;
  std::string target_host;
  int64_t target_port = 0;
  std::string protocol;
  std::string allowed_cidrs = "[]";
  std::string allowed_ports = "[]";
  std::string created_at;
  std::string updated_at;
};

struct TokenRecord {
  std::string id;
  std::string token_type;  // "agent", "client" or "server_node"
  std::string owner_user_id;
  std::string agent_id;
  std::string node_id;
  std::string token_prefix;  // display only
  std::string token_hash;    // SHA-256 of the secret as lowercase hex (or base64url in old rows)
  std::string scope = "{}";  // JSON object
  std::string expires_at;
  std::string revoked_at;
  std::string last_used_at;
  std::string created_at;
  std::string updated_at;
};

// A token's secret under a key that the database does not have.
struct SealedSecretRecord {
  std::string ciphertext;  // base64 without padding, as the nonce
  std::string nonce;
  std::string key_id;
  int64_t version = 0;
};

// A management session (table `api_tokens`).
struct SessionRecord {
  std::string id;
  std::string user_id;
  std::string token_hash;  // SHA-256 of the secret as lowercase hex (or base64url in old rows)
  std::string expires_at;
  std::string revoked_at;
  std::string created_at;
};

struct IdempotencyRecord {
  std::string key;
  std::string user_id;
  std::string response;  // without secrets
  int64_t status_code = 200;
  std::string created_at;
  std::string expires_at;
};

struct AuditRecord {
  std::string id;
  std::string actor_user_id;  // empty: the command line
  std::string action;
  std::string resource_type;
  std::string resource_id;
  std::string details = "{}";  // JSON object; never a secret
  std::string created_at;
};

// A part of a list in id order: pass the last id to get the next part.
template <class T>
struct Page {
  std::vector<T> items;
  bool has_more = false;
};

struct PageRequest {
  static constexpr int limit_max = 500;  // one answer stays below a few hundred KiB
  std::string after_id;                  // empty: from the start
  int limit = 50;                        // moved into 1..limit_max
};

}  // namespace tmesh::storage
