#include "cpp/server/secret_box.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tmesh::server {
namespace {

constexpr const char* key32 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";  // 00 01 … 1f

SecretBox box(std::string_view key = key32, std::string_view id = "") {
  Result<SecretBox> made = SecretBox::make(key, id);
  EXPECT_TRUE(made) << (made ? "" : made.error().text);
  return std::move(*made);
}

void expect_state(const Result<Secret>& opened, const char* text) {
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, TMESH_E_STATE);
  EXPECT_STREQ(opened.error().text, text);
}

TEST(SecretBox, OpensWhatItSealed) {
  const SecretBox one = box();
  const auto sealed = one.seal(Secret("s3cret"));
  ASSERT_TRUE(sealed);
  EXPECT_EQ(sealed->key_id, "default");
  EXPECT_EQ(sealed->version, 1);
  EXPECT_EQ(sealed->nonce.size(), 16U) << "12 bytes";
  EXPECT_EQ(sealed->ciphertext.size(), 30U) << "6 bytes and a tag of 16, without padding";
  EXPECT_EQ(sealed->ciphertext.find('='), std::string::npos);
  EXPECT_EQ(one.open(*sealed)->reveal(), "s3cret");
}

// Made with OpenSSL: key 00…1f, nonce 00…0b, no associated data.
TEST(SecretBox, OpensTheFormOfDeployedDatabases) {
  const storage::SealedSecretRecord sealed{"NDG1aaCRJTlhXg9nWTj//3+d+scRQw", "AAECAwQFBgcICQoL", "default",
                                           1};
  const Result<Secret> opened = box().open(sealed);
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(opened->reveal(), "s3cret");
}

TEST(SecretBox, NeverUsesANonceTwice) {
  const SecretBox one = box();
  EXPECT_NE(one.seal(Secret("a"))->nonce, one.seal(Secret("a"))->nonce);
}

TEST(SecretBox, TakesKeysInEverySpelling) {
  const auto sealed = box().seal(Secret("s3cret"));
  for (const char* same :
       {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", " AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"}) {
    EXPECT_EQ(box(same).open(*sealed)->reveal(), "s3cret") << same;
  }
  for (const char* other :
       {"AAECAwQFBgcICQoLDA0ODw", "AAECAwQFBgcICQoLDA0ODw==", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
        "000102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f1011121314151617"}) {
    expect_state(box(other).open(*sealed), "the kept secret cannot be read with the present key");
  }
}

TEST(SecretBox, RefusesWhatIsNoKey) {
  for (const char* bad :
       {"", "short", "not base64 at all, is it?", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gIQ",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh_", "0001020304"}) {
    const Result<SecretBox> made = SecretBox::make(bad, "");
    ASSERT_FALSE(made) << bad;
    EXPECT_EQ(made.error().code, TMESH_E_INVALID);
    EXPECT_STREQ(made.error().text,
                 "TUNNELMESH_TOKEN_ENCRYPTION_KEY is not 16, 24 or 32 bytes in base64 or hex");
  }
  EXPECT_FALSE(SecretBox::make(key32, std::string(129, 'k')));
  EXPECT_FALSE(SecretBox::make(key32, "two words"));
  EXPECT_FALSE(SecretBox::make(key32, "line\x01"));
  EXPECT_TRUE(SecretBox::make(key32, std::string(128, 'k')));
}

TEST(SecretBox, SaysWhyItCannotOpen) {
  const SecretBox one = box();
  const storage::SealedSecretRecord good = *one.seal(Secret("s3cret"));
  expect_state(box(key32, "2027").open(good), "the secret was kept under another key");
  storage::SealedSecretRecord changed = good;
  changed.version = 2;
  expect_state(one.open(changed), "the secret was kept by another version of this program");
  const char* unreadable = "the kept secret cannot be read with the present key";
  for (const std::string& text :
       {std::string(), std::string("A"), std::string("%%%%"), std::string(3000, 'A')}) {
    changed = good;
    changed.ciphertext = text;
    expect_state(one.open(changed), unreadable);
    changed = good;
    changed.nonce = text;
    expect_state(one.open(changed), unreadable);
  }
  changed = good;
  changed.ciphertext[0] = changed.ciphertext[0] == 'A' ? 'B' : 'A';
  expect_state(one.open(changed), unreadable);
}

TEST(SecretBox, WithoutAKeyThereIsNoBox) {
  EXPECT_FALSE(*SecretBox::if_given(Secret(), "2027"));
  EXPECT_FALSE(*SecretBox::if_given(Secret("  "), ""));
}

TEST(SecretBox, WithAKeyThereIsOneOrAnError) {
  EXPECT_EQ((*SecretBox::if_given(Secret(key32), ""))->seal(Secret("a"))->key_id, "default");
  EXPECT_EQ((*SecretBox::if_given(Secret(key32), "2027"))->seal(Secret("a"))->key_id, "2027");
  EXPECT_FALSE(SecretBox::if_given(Secret("short"), ""));
}

}  // namespace
}  // namespace tmesh::server
