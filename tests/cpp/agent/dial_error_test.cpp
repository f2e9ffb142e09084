#include "cpp/agent/dial_error.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tmesh::agent {
namespace {

std::string text(const tmesh_open_result& r) {
  return std::string(r.accepted ? "+" : "-") + tmesh_open_stage_name(r.stage) + "/" +
         tmesh_open_code_name(r.code) + (r.retryable ? " retry" : "");
}

// The classification of WIRE 1.6.2, over the whole enum.
TEST(DialError, EveryStatusHasItsStageAndCode) {
  const std::map<unsigned, std::string> named = {
      {TMESH_OK, "+connect/ok"},
      {TMESH_E_DNS, "-dns/host_unreachable"},
      {TMESH_E_REFUSED, "-connect/connection_refused"},
      {TMESH_E_NET_UNREACHABLE, "-connect/network_unreachable retry"},
      {TMESH_E_HOST_UNREACHABLE, "-connect/host_unreachable retry"},
      {TMESH_E_TIMEOUT, "-connect/timeout retry"},
      {TMESH_E_CANCELLED, "-connect/timeout"},
      {TMESH_E_POLICY, "-policy/forbidden"},
      {TMESH_E_LIMIT, "-queue/queue_full retry"},
      {TMESH_E_TLS, "-connect/host_unreachable"},
      {TMESH_E_TLS_VERIFY, "-connect/host_unreachable"},
      {TMESH_E_CLOSED, "-connect/host_unreachable"},
      {TMESH_E_DUPLICATE_STREAM, "-protocol/internal_error"},
  };
  for (unsigned code = 0; code <= TMESH_CODE_COUNT; ++code) {
    const auto it = named.find(code);
    const std::string want = it != named.end() ? it->second : "-connect/internal_error";
    EXPECT_EQ(text(open_result_of(code, false)), want) << tmesh_code_name(code);
    const std::string want_in_dns = code == TMESH_E_TIMEOUT ? "-dns/timeout retry" : want;
    EXPECT_EQ(text(open_result_of(code, true)), want_in_dns) << tmesh_code_name(code);
  }
}

// What is sent must be what a deployed peer accepts.
TEST(DialError, EveryResultCanBeEncoded) {
  for (unsigned code = 0; code <= TMESH_CODE_COUNT; ++code) {
    const tmesh_open_result r = open_result_of(code, code % 2 == 0);
    char out[1024];
    std::size_t len = 0;
    EXPECT_EQ(tmesh_open_result_encode(&r, out, sizeof out, &len).code, TMESH_OK);
  }
}

TEST(DialError, OfADialResult) {
  DialResult result;
  result.status = tmesh_err_stream(TMESH_E_TIMEOUT);
  result.failed_in_dns = true;
  EXPECT_EQ(text(open_result_of(result)), "-dns/timeout retry");
}

}  // namespace
}  // namespace tmesh::agent
