#include "cpp/base/utf8.hpp"

namespace tmesh {

Utf8Char utf8_next(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  std::size_t size = 0;
  uint32_t least = 0;
  uint32_t code_point = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
    least = 0x80;
    code_point = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size = 3;
    least = 0x800;
    code_point = lead & 0x0F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    least = 0x10000;
    code_point = lead & 0x07;
  } else {
    return {};
  }
  if (text.size() - at < size) return {};
  for (std::size_t i = 1; i < size; ++i) {
    const uint32_t next = byte(at + i);
    if ((next & 0xC0) != 0x80) return {};
    code_point = (code_point << 6) | (next & 0x3F);
  }
  const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < least || code_point > 0x10FFFF || is_surrogate) return {};
  return {code_point, size};
}

bool utf8_valid(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_next(text, at);
    if (c.size_bytes == 0) return false;
    at += c.size_bytes;
  }
  return true;
}

}  // namespace tmesh
