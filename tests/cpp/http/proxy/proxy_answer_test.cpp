#include "cpp/http/proxy/proxy_answer.hpp"

#include <gtest/gtest.h>

namespace tmesh::http {
namespace {

// INTERFACE 0, "HTTP proxy answers", over the whole list.
TEST(ProxyAnswer, EveryCodeOfAnOpenHasItsStatus) {
  for (unsigned code = TMESH_OPEN_FORBIDDEN; code < TMESH_OPEN_CODE_COUNT; code++) {
    int expected = 502;
    if (code == TMESH_OPEN_FORBIDDEN) expected = 403;
    if (code == TMESH_OPEN_AGENT_OFFLINE || code == TMESH_OPEN_QUEUE_FULL) expected = 503;
    if (code == TMESH_OPEN_TIMEOUT) expected = 504;
    EXPECT_EQ(status_of_open(code), expected) << tmesh_open_code_name(code);
  }
  EXPECT_EQ(status_of_open(TMESH_OPEN_CODE_COUNT), 502);
}

TEST(ProxyAnswer, AnOpenSaysItsStageAndCode) {
  for (unsigned stage = 0; stage < TMESH_STAGE_COUNT; stage++) {
    for (unsigned code = TMESH_OPEN_FORBIDDEN; code < TMESH_OPEN_CODE_COUNT; code++) {
      const Response answer = answer_to_open(
          tmesh_open_refuse(static_cast<tmesh_open_stage>(stage), static_cast<tmesh_open_code>(code), false));
      const std::string details =
          std::string("stage=") + tmesh_open_stage_name(stage) + ", code=" + tmesh_open_code_name(code);
      const std::string* const status = answer.headers.find("proxy-status");
      ASSERT_NE(status, nullptr);
      EXPECT_TRUE(status->starts_with("TunnelMesh; error=")) << *status;
      EXPECT_TRUE(status->ends_with("; details=\"" + details + "\"")) << *status;
      EXPECT_EQ(answer.body, "not connected: " + details + "\n");
    }
  }
}

TEST(ProxyAnswer, KindsOfErrorAreThoseOfRfc9209) {
  const auto error = [](tmesh_open_stage stage, tmesh_open_code code) {
    const std::string text =
        *answer_to_open(tmesh_open_refuse(stage, code, false)).headers.find("proxy-status");
    const std::size_t at = text.find("error=") + 6;
    return text.substr(at, text.find(';', at) - at);
  };
  EXPECT_EQ(error(TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN), "http_request_denied");
  EXPECT_EQ(error(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE), "destination_unavailable");
  EXPECT_EQ(error(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL), "connection_limit_reached");
  EXPECT_EQ(error(TMESH_STAGE_DNS, TMESH_OPEN_TIMEOUT), "dns_timeout");
  EXPECT_EQ(error(TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT), "connection_timeout");
  EXPECT_EQ(error(TMESH_STAGE_CONNECT, TMESH_OPEN_NETWORK_UNREACHABLE), "destination_ip_unroutable");
  EXPECT_EQ(error(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE), "dns_error");
  EXPECT_EQ(error(TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE), "destination_ip_unroutable");
  EXPECT_EQ(error(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED), "connection_refused");
  EXPECT_EQ(error(TMESH_STAGE_PROTOCOL, TMESH_OPEN_UNSUPPORTED_CAPABILITY), "proxy_configuration_error");
  EXPECT_EQ(error(TMESH_STAGE_PROTOCOL, TMESH_OPEN_INTERNAL_ERROR), "proxy_internal_error");
}

TEST(ProxyAnswer, A407NamesTheSchemeAndA405TheMethods) {
  EXPECT_EQ(*answer_to_fault(407, ProxyFault::request_denied).headers.find("proxy-authenticate"),
            "Basic realm=\"TunnelMesh\", charset=\"UTF-8\"");
  EXPECT_NE(answer_to_fault(405, ProxyFault::request_malformed).headers.find("allow"), nullptr);
  EXPECT_EQ(answer_to_fault(400, ProxyFault::request_malformed).headers.find("proxy-authenticate"), nullptr);
}

}  // namespace
}  // namespace tmesh::http
