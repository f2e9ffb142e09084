#include "cpp/client/open_advice.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tmesh::client {
namespace {

TEST(OpenAdvice, EveryStageAndCodeHasASentence) {
  for (unsigned stage = 0; stage <= TMESH_STAGE_COUNT; stage++) {
    for (unsigned code = 0; code <= TMESH_OPEN_CODE_COUNT; code++) {
      const std::string text = open_advice(stage, code);
      ASSERT_FALSE(text.empty());
      EXPECT_EQ(text.back(), '.') << text;
    }
  }
}

TEST(OpenAdvice, CodesDoNotShareASentence) {
  std::set<std::string> seen;
  for (unsigned code = 0; code < TMESH_OPEN_CODE_COUNT; code++)
    seen.insert(open_advice(TMESH_STAGE_CONNECT, code));
  EXPECT_EQ(seen.size(), TMESH_OPEN_CODE_COUNT);
}

TEST(OpenAdvice, TheStageTellsWhereToLook) {
  EXPECT_NE(std::string(open_advice(TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN)),
            open_advice(TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN));
  EXPECT_NE(std::string(open_advice(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE)),
            open_advice(TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE));
  EXPECT_NE(std::string(open_advice(TMESH_STAGE_DNS, TMESH_OPEN_TIMEOUT)),
            open_advice(TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT));
}

}  // namespace
}  // namespace tmesh::client
