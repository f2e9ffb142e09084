#include "core/proto/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tmesh_base64_encode(char* out, const uint8_t* data, size_t len_bytes) {
  for (size_t i = 0; i < len_bytes; i += 3) {
    size_t n = len_bytes - i < 3 ? len_bytes - i : 3;
    uint32_t v = (uint32_t)data[i] << 16;
    if (n > 1) v |= (uint32_t)data[i + 1] << 8;
    if (n > 2) v |= data[i + 2];
    *out++ = alphabet[v >> 18];
    *out++ = alphabet[(v >> 12) & 63];
    *out++ = n > 1 ? alphabet[(v >> 6) & 63] : '=';
    *out++ = n > 2 ? alphabet[v & 63] : '=';
  }
  *out = '\0';
}

/* 0-63, or 64 for a character outside the alphabet. */
static uint32_t value_of(char c) {
  if (c >= 'A' && c <= 'Z') return (uint32_t)(c - 'A');
  if (c >= 'a' && c <= 'z') return (uint32_t)(c - 'a') + 26;
  if (c >= '0' && c <= '9') return (uint32_t)(c - '0') + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : 64;
}

bool tmesh_base64_decode(uint8_t* out, size_t cap_bytes, size_t* len_bytes, const char* text,
                         size_t text_len_bytes) {
  size_t len = 0;
  if (text_len_bytes % 4 != 0) return false;
  for (size_t i = 0; i < text_len_bytes; i += 4) {
    bool is_last = i + 4 == text_len_bytes;
    size_t pads = is_last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
    size_t n = 3 - pads;
    uint32_t v = 0;
    for (size_t k = 0; k < 4; k++) {
      uint32_t d = k < 4 - pads ? value_of(text[i + k]) : 0;
      if (d == 64) return false;
      v = v << 6 | d;
    }
    if ((v & ((1u << (8 * pads)) - 1)) != 0 || n > cap_bytes - len) return false;
    for (size_t k = 0; k < n; k++) out[len++] = (uint8_t)(v >> (16 - 8 * k));
  }
  *len_bytes = len;
  return true;
}
