#include "cpp/base/encoding.hpp"

#include <cstddef>

namespace tmesh {
namespace {

constexpr std::string_view kUrlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kStdAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string encode64(std::span<const uint8_t> bytes, std::string_view alphabet) {
  std::string out;
  out.reserve((bytes.size() * 4 + 2) / 3);
  uint32_t bits = 0;
  int have = 0;
  for (const uint8_t byte : bytes) {
    bits = (bits << 8) | byte;
    have += 8;
    while (have >= 6) {
      have -= 6;
      out.push_back(alphabet[(bits >> have) & 0x3F]);
    }
  }
  if (have > 0) out.push_back(alphabet[(bits << (6 - have)) & 0x3F]);
  return out;
}

Result<std::string> decode64(std::string_view text, std::string_view alphabet) {
  if (text.size() % 4 == 1) return fail(TMESH_E_INVALID, "not base64: impossible length");
  std::string out;
  out.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const std::size_t value = alphabet.find(c);
    if (value == std::string_view::npos) return fail(TMESH_E_INVALID, "not base64: foreign character");
    bits = (bits << 6) | static_cast<uint32_t>(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out.push_back(static_cast<char>((bits >> have) & 0xFF));
    }
  }
  if ((bits & ((1u << have) - 1)) != 0) return fail(TMESH_E_INVALID, "not base64: bits left over");
  return out;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string base64url_encode(std::span<const uint8_t> bytes) {
  return encode64(bytes, kUrlAlphabet);
}

Result<std::string> base64url_decode(std::string_view text) {
  return decode64(text, kUrlAlphabet);
}

std::string base64_encode(std::span<const uint8_t> bytes) {
  std::string out = encode64(bytes, kStdAlphabet);
  while (out.size() % 4 != 0) out.push_back('=');
  return out;
}

Result<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return fail(TMESH_E_INVALID, "not base64: length is no multiple of four");
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  return decode64(text, kStdAlphabet);
}

std::string hex_encode(std::span<const uint8_t> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    out.push_back(digits[byte >> 4]);
    out.push_back(digits[byte & 0x0F]);
  }
  return out;
}

Result<std::string> hex_decode(std::string_view text) {
  if (text.size() % 2 != 0) return fail(TMESH_E_INVALID, "not hex: odd length");
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) return fail(TMESH_E_INVALID, "not hex: foreign character");
    out.push_back(static_cast<char>(high * 16 + low));
  }
  return out;
}

}  // namespace tmesh
