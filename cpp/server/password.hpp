// Password hashes: Argon2id in PHC strings ("$argon2id$v=19$m=...,t=...,p=...$salt$hash").
// Slow on purpose (tens of milliseconds, 19 MiB): run it on a worker and never inside
// a write transaction.
#pragma once

#include <string>
#include <string_view>

#include "cpp/base/redact.hpp"
#include "cpp/base/result.hpp"

namespace tmesh::server {

// 32 random characters, for a password that is shown once.
Secret new_password();

// What people may choose: 12 to 128 characters of UTF-8, none of them a control character.
// TMESH_E_INVALID.
Result<void> check_password(std::string_view password);

// New hashes use m=19456 KiB, t=2, p=1 (OWASP's minimum for Argon2id, which fits a
// small server). TMESH_E_NO_MEMORY.
Result<std::string> hash_password(std::string_view password);

// Any Argon2id string whose cost is bearable: 8 KiB <= m <= 256 MiB, t <= 16,
// p <= 16, and m x t <= 1 GiB, so that a row cannot stop the server. Constant time.
// TMESH_E_POLICY: another password. TMESH_E_INVALID: not such a string.
// TMESH_E_TOO_LARGE: over those limits, or a password over 1 KiB. TMESH_E_NO_MEMORY.
Result<void> verify_password(std::string_view phc, std::string_view password);

}  // namespace tmesh::server
