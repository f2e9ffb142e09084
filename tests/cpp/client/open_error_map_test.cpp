#include "cpp/client/open_error_map.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tmesh::client
