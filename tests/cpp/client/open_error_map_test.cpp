#include "cpp/client/open_error_map.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tmesh::client {
namespace {

// Requirement B9.
TEST(OpenErrorMap, EveryCodeHasItsReply) {
  const uint8_t expected[TMESH_OPEN_CODE_COUNT] = {
      0x00,  // ok
      0x02,  // forbidden
      0x04,  // agent_offline
      0x01,  // queue_full
      0x06,  // timeout
      0x03,  // network_unreachable
      0x04,  // host_unreachable
      0x05,  // connection_refused
      0x01,  // unsupported_capability
      0x01,  // internal_error
  };
  for (unsigned code = 0; code < TMESH_OPEN_CODE_COUNT; code++) {
    EXPECT_EQ(socks5_reply(code), expected[code]) << tmesh_open_code_name(code);
  }
}

TEST(OpenErrorMap, AnythingElseIsAGeneralFailure) {
  for (const unsigned code : {static_cast<unsigned>(TMESH_OPEN_CODE_COUNT), 255u, UINT32_MAX}) {
    EXPECT_EQ(socks5_reply(code), kReplyGeneralFailure);
  }
}

TEST(OpenErrorMap, EveryRefusalHasWordsForAPerson) {
  std::set<std::string> texts;
  for (unsigned code = 1; code < TMESH_OPEN_CODE_COUNT; code++) {
    for (unsigned stage = 0; stage < TMESH_STAGE_COUNT; stage++) {
      const std::string text = open_error_text(
          tmesh_open_refuse(static_cast<tmesh_open_stage>(stage), static_cast<tmesh_open_code>(code), false));
      EXPECT_FALSE(text.empty());
      EXPECT_EQ(text.find('\n'), std::string::npos);
      texts.insert(text);
    }
  }
  // What a user can do something about is told apart.
  EXPECT_EQ(texts.size(), 11u);
  EXPECT_STREQ(open_error_text(tmesh_open_refuse(TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN, false)),
               "the agent's policy does not allow this target");
  EXPECT_STREQ(open_error_text(tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, false)),
               "the target's name has no address");
}

}  // namespace
}  // namespace tmesh::client
