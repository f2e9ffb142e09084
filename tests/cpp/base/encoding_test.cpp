#include "cpp/base/encoding.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tmesh {
namespace {

TEST(Encoding, Base64UrlVectorsOfRfc4648) {
  const struct {
    std::string plain, coded;
  } cases[] = {{"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
               {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xFB\xFF", "-_8"}};
  for (const auto& c : cases) {
    EXPECT_EQ(base64url_encode(as_bytes(c.plain)), c.coded);
    const Result<std::string> back = base64url_decode(c.coded);
    ASSERT_TRUE(back) << c.coded;
    EXPECT_EQ(*back, c.plain);
  }
}

TEST(Encoding, Base64UrlIsStrict) {
  for (const char* bad : {"Z", "Zg==", "Zm9v\n", "Zm 9v", "-+8", "/_8", "Zh", "Zm9"}) {
    EXPECT_FALSE(base64url_decode(bad)) << bad;
  }
  EXPECT_TRUE(base64url_decode("Zm8"));
}

TEST(Encoding, Base64HasPadding) {
  EXPECT_EQ(base64_encode(as_bytes("f")), "Zg==");
  EXPECT_EQ(base64_encode(as_bytes("fo")), "Zm8=");
  EXPECT_EQ(base64_encode(as_bytes("\xFB\xFF")), "+/8=");
  EXPECT_EQ(*base64_decode("Zg=="), "f");
  EXPECT_EQ(*base64_decode("Zm9v"), "foo");
  for (const char* bad : {"Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9v====", "-_8="}) {
    EXPECT_FALSE(base64_decode(bad)) << bad;
  }
}

TEST(Encoding, HexRoundTrip) {
  EXPECT_EQ(hex_encode(as_bytes(std::string("\x00\x7f\xff", 3))), "007fff");
  EXPECT_EQ(*hex_decode("007FfF"), std::string("\x00\x7f\xff", 3));
  EXPECT_EQ(*hex_decode(""), "");
  for (const char* bad : {"0", "0g", "0x", " 0", "00 "}) EXPECT_FALSE(hex_decode(bad)) << bad;
}

TEST(Encoding, EveryByteSurvives) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (std::size_t n = 0; n <= all.size(); ++n) {
    const std::string part = all.substr(0, n);
    EXPECT_EQ(*base64url_decode(base64url_encode(as_bytes(part))), part);
    EXPECT_EQ(*base64_decode(base64_encode(as_bytes(part))), part);
    EXPECT_EQ(*hex_decode(hex_encode(as_bytes(part))), part);
  }
}

}  // namespace
}  // namespace tmesh
