#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "cpp/base/encoding.hpp"
#include "cpp/server/ids.hpp"
#include "cpp/server/password.hpp"
#include "cpp/server/token_hash.hpp"

namespace tmesh::server {
namespace {

bool matches(const std::string& text, const char* pattern) {
  return std::regex_match(text, std::regex(pattern));
}

TEST(Ids, HaveTheFormsOfDeployedDatabases) {
  EXPECT_TRUE(matches(new_id("user"), "user-[A-Za-z0-9_-]{16}"));
  EXPECT_TRUE(matches(new_agent_id(), "agent-[0-9a-f]{24}"));
  EXPECT_TRUE(matches(new_token_id(), "stok_[A-Za-z0-9_-]{22}"));
  EXPECT_NE(new_agent_id(), new_agent_id());
}

TEST(TokenSecret, Is43Base64UrlCharactersAndBeginsWithALetter) {
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const Secret secret = new_token_secret();
    EXPECT_TRUE(matches(std::string(secret.reveal()), "[A-Za-z][A-Za-z0-9_-]{42}"));
    EXPECT_EQ(base64url_decode(secret.reveal())->size(), 32U);
    seen.emplace(secret.reveal());
  }
  EXPECT_EQ(seen.size(), 200U);
}

// FIPS 180-4 example: SHA-256("abc").
TEST(TokenDigest, IsTheSha256OfTheSecretInBothSpellings) {
  const TokenDigest digest = digest_token("abc");
  EXPECT_EQ(digest.hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest.base64url, "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
  EXPECT_EQ(digest_token("").hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(TokenPrefix, IsShortAndFromTheSecret) {
  const Secret secret = new_token_secret();
  EXPECT_EQ(token_display_prefix(secret), secret.reveal().substr(0, 8));
}

TEST(Password, HashesAndVerifies) {
  const Result<std::string> hash = hash_password("correct horse");
  ASSERT_TRUE(hash);
  EXPECT_TRUE(matches(*hash, R"(\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43})"));
  EXPECT_TRUE(verify_password(*hash, "correct horse"));
  EXPECT_EQ(verify_password(*hash, "correct horsf").error().code, TMESH_E_POLICY);
  EXPECT_EQ(verify_password(*hash, "").error().code, TMESH_E_POLICY);
  EXPECT_NE(*hash, *hash_password("correct horse")) << "salted";
}

// Made with the reference argon2 tool: other costs than ours, as old databases have.
TEST(Password, VerifiesOtherCosts) {
  const char* phc = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
  EXPECT_TRUE(verify_password(phc, "password"));
  EXPECT_EQ(verify_password(phc, "Password").error().code, TMESH_E_POLICY);
}

TEST(Password, RefusesWhatIsNoArgon2idString) {
  for (const char* phc :
       {"", "x", "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=256,t=2$a$b", "$argon2id$v=19$t=2,m=256,p=1$c29tZXNhbHQ$bmY",
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$!!", "$argon2id$v=19$m=-1,t=2,p=1$c29tZXNhbHQ$bmY",
        "$argon2id$v=19$m=256,t=0,p=1$c29tZXNhbHQ$bmY", "$argon2id$v=19$m=256,t=2,p=1"}) {
    const Result<void> done = verify_password(phc, "password");
    ASSERT_FALSE(done) << phc;
    EXPECT_EQ(done.error().code, TMESH_E_INVALID) << phc;
  }
}

TEST(Password, RefusesCostsThatWouldStopTheServer) {
  for (const char* cost : {"m=262145,t=1,p=1", "m=8,t=17,p=1", "m=256,t=1,p=17", "m=262144,t=5,p=1",
                           "m=99999999999,t=1,p=1", "m=256,t=99999999999,p=1"}) {
    const std::string phc =
        std::string("$argon2id$v=19$") + cost + "$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    const Result<void> done = verify_password(phc, "password");
    ASSERT_FALSE(done) << cost;
    EXPECT_EQ(done.error().code, TMESH_E_TOO_LARGE) << cost;
  }
  EXPECT_EQ(verify_password(*hash_password("x"), std::string(1025, 'x')).error().code, TMESH_E_TOO_LARGE);
}

TEST(Password, NewOnesAre32Characters) {
  EXPECT_EQ(new_password().size(), 32U);
  EXPECT_FALSE(new_password().equals(new_password().reveal()));
}

}  // namespace
}  // namespace tmesh::server
