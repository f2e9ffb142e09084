// SipHash: a hash of byte strings that nobody can steer without its key.
//
// For tables whose keys others choose: with a hash that is known, they could choose keys that
// all fall into one bucket. Aumasson and Bernstein, "SipHash: a fast short-input PRF". Tables
// use one round per word and three at the end; tests compare two and four with the paper's
// vectors. Pure; no allocation.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "cpp/base/random.hpp"

namespace tmesh {

struct HashKey {
  uint64_t low = 0, high = 0;

  static HashKey random() {
    std::array<uint8_t, sizeof(HashKey)> bytes{};
    random_bytes(bytes);
    return std::bit_cast<HashKey>(bytes);
  }
};

template <int word_rounds = 1, int last_rounds = 3>
uint64_t keyed_hash(const HashKey& key, std::string_view text) {
  uint64_t v0 = key.low ^ 0x736f6d6570736575, v1 = key.high ^ 0x646f72616e646f6d;
  uint64_t v2 = key.low ^ 0x6c7967656e657261, v3 = key.high ^ 0x7465646279746573;
  const auto mix = [&](int rounds) {
    for (int i = 0; i < rounds; i++) {
      v0 += v1, v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0, v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1, v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2, v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  };
  const auto take = [&](uint64_t word) {
    v3 ^= word;
    mix(word_rounds);
    v0 ^= word;
  };
  // A word of the text, little endian whatever the machine.
  const auto load = [](const char* at, std::size_t bytes) {
    unsigned char raw[8] = {};
    std::memcpy(raw, at, bytes);
    uint64_t word = 0;
    for (std::size_t i = 0; i < 8; i++) word |= uint64_t{raw[i]} << (8 * i);
    return word;
  };
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) take(load(text.data() + at, 8));
  const uint64_t rest = whole == text.size() ? 0 : load(text.data() + whole, text.size() - whole);
  take(uint64_t{text.size()} << 56 | rest);
  v2 ^= 0xff;
  mix(last_rounds);
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace tmesh
