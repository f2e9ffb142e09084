#include "cpp/base/keyed_hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tmesh {
namespace {

// The paper's key and texts: bytes that count up from 0.
uint64_t of_the_paper(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; i++) text += static_cast<char>(i);
  return keyed_hash<2, 4>({0x0706050403020100, 0x0f0e0d0c0b0a0908}, text);
}

TEST(KeyedHash, WithTwoAndFourRoundsItGivesTheVectorsOfThePaper) {
  EXPECT_EQ(of_the_paper(0), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(of_the_paper(1), 0x74f839c593dc67fdu);
  EXPECT_EQ(of_the_paper(8), 0x93f5f5799a932462u);
  EXPECT_EQ(of_the_paper(15), 0xa129ca6149be45e5u);
}

TEST(KeyedHash, ItDependsOnKeyTextAndLength) {
  const HashKey key = HashKey::random(), other = HashKey::random();
  std::set<uint64_t> seen;
  for (const std::string& text : {std::string(), std::string(1, '\0'), std::string(8, '\0'), std::string("a"),
                                  std::string("a\0", 2), std::string("aaaaaaaa")}) {
    seen.insert(keyed_hash(key, text));
    seen.insert(keyed_hash(other, text));
    EXPECT_EQ(keyed_hash(key, text), keyed_hash(key, std::string(text)));
  }
  EXPECT_EQ(seen.size(), 12u);
}

}  // namespace
}  // namespace tmesh
