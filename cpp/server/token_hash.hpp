// Bearer secrets and their digests. The database holds digests only: the secret is
// random, so a plain SHA-256 is as good as a slow hash and costs nothing per request.
#pragma once

#include <string>
#include <string_view>

#include "cpp/base/redact.hpp"

namespace tmesh::server {

// 32 random bytes as 43 base64url characters, the first of them a letter: a secret
// never looks like a flag on a command line, and its prefix never like a number to
// SQLite (migrations/ddl.sql).
Secret new_token_secret();

// The two spellings of a digest that `token_hash` may hold. Ours writes `hex`.
struct TokenDigest {
  std::string hex;        // 64 lowercase digits
  std::string base64url;  // 43 characters
};
TokenDigest digest_token(std::string_view secret);

// The part of a secret that lists show so that people can tell tokens apart: 8 of 43
// characters, which leaves 210 bits unknown.
std::string token_display_prefix(const Secret& secret);

}  // namespace tmesh::server
