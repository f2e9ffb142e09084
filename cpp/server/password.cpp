#include "cpp/server/password.hpp"

#include <argon2.h>

#include <array>

#include "cpp/base/parse.hpp"
#include "cpp/base/random.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::server {
namespace {

constexpr uint32_t memory_kib = 19456;
constexpr uint32_t passes = 2;
constexpr uint32_t lanes = 1;
constexpr size_t salt_bytes = 16;
constexpr size_t hash_bytes = 32;

constexpr uint64_t memory_kib_max = 256 * 1024;
constexpr uint64_t memory_kib_min = 8;  // the smallest that Argon2 defines
constexpr uint64_t passes_max = 16;
constexpr uint64_t lanes_max = 16;
constexpr uint64_t work_kib_max = 1024 * 1024;
constexpr size_t phc_bytes_max = 255;  // the column's width
constexpr size_t password_bytes_max = 1024;

// The text up to `end`, which is consumed too; nullopt-like false if it is not there.
bool take_until(std::string_view& rest, char end, std::string_view& piece) {
  const size_t at = rest.find(end);
  if (at == std::string_view::npos) return false;
  piece = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  return true;
}

bool take_number(std::string_view piece, std::string_view name, uint64_t& value) {
  if (!piece.starts_with(name)) return false;
  const Result<uint64_t> number = parse_uint(piece.substr(name.size()));
  if (!number) return false;
  value = *number;
  return true;
}

// Only the cost is read here; libargon2 reads the string again and strictly.
Result<void> check_cost(std::string_view phc) {
  constexpr std::string_view start = "$argon2id$v=19$";
  const auto malformed = [] {
    return fail(TMESH_E_INVALID, "the stored password hash is not an Argon2id string");
  };
  if (phc.size() > phc_bytes_max || !phc.starts_with(start)) return malformed();
  std::string_view rest = phc.substr(start.size());
  std::string_view memory;
  std::string_view time;
  std::string_view parallel;
  if (!take_until(rest, ',', memory) || !take_until(rest, ',', time) || !take_until(rest, '$', parallel))
    return malformed();
  uint64_t m = 0;
  uint64_t t = 0;
  uint64_t p = 0;
  if (!take_number(memory, "m=", m) || !take_number(time, "t=", t) || !take_number(parallel, "p=", p))
    return malformed();
  if (m < memory_kib_min || t < 1 || p < 1) return malformed();
  if (m > memory_kib_max || t > passes_max || p > lanes_max || m * t > work_kib_max) {
    return fail(TMESH_E_TOO_LARGE, "the stored password hash demands too much memory or time");
  }
  return {};
}

}  // namespace

Secret new_password() {
  std::string text = random_base64url(24);
  Secret password(text);
  secure_wipe(text);
  return password;
}

Result<void> check_password(std::string_view password) {
  constexpr size_t chars_min = 12;
  constexpr size_t chars_max = 128;
  size_t chars = 0;
  for (size_t at = 0; at < password.size() && chars <= chars_max; ++chars) {
    const Utf8Char c = utf8_next(password, at);
    const bool is_control = c.code_point < 0x20 || (c.code_point >= 0x7f && c.code_point < 0xa0);
    if (c.size_bytes == 0 || is_control)
      return fail(TMESH_E_INVALID, "a password is UTF-8 without control characters");
    at += c.size_bytes;
  }
  if (chars < chars_min || chars > chars_max)
    return fail(TMESH_E_INVALID, "a password has 12 to 128 characters");
  return {};
}

Result<std::string> hash_password(std::string_view password) {
  std::array<uint8_t, salt_bytes> salt{};
  random_bytes(salt);
  std::array<char, phc_bytes_max + 1> out{};
  const int rc = argon2id_hash_encoded(passes, memory_kib, lanes, password.data(), password.size(),
                                       salt.data(), salt.size(), hash_bytes, out.data(), out.size());
  if (rc != ARGON2_OK) return fail(TMESH_E_NO_MEMORY, "no memory to hash a password");
  return std::string(out.data());
}

Result<void> verify_password(std::string_view phc, std::string_view password) {
  if (password.size() > password_bytes_max) return fail(TMESH_E_TOO_LARGE, "the password is too long");
  if (Result<void> cost = check_cost(phc); !cost) return cost;
  const std::string text(phc);
  const int rc = argon2id_verify(text.c_str(), password.data(), password.size());
  if (rc == ARGON2_OK) return {};
  if (rc == ARGON2_VERIFY_MISMATCH) return fail(TMESH_E_POLICY, "wrong password");
  if (rc == ARGON2_MEMORY_ALLOCATION_ERROR || rc == ARGON2_THREAD_FAIL) {
    return fail(TMESH_E_NO_MEMORY, "no memory to check a password");
  }
  return fail(TMESH_E_INVALID, "the stored password hash is not an Argon2id string");
}

}  // namespace tmesh::server
