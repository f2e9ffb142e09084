#include "cpp/http/proxy/proxy_answer.hpp"

namespace tmesh::http {
namespace {

constexpr std::string_view kName = "TunnelMesh";

// RFC 9209 section 2.3.
std::string_view error_of_fault(ProxyFault fault) {
  switch (fault) {
    case ProxyFault::request_malformed:
      return "http_request_error";
    case ProxyFault::request_denied:
      return "http_request_denied";
    case ProxyFault::response_malformed:
      return "http_protocol_error";
    case ProxyFault::response_incomplete:
      return "http_response_incomplete";
  }
  return "proxy_internal_error";
}

std::string_view error_of_open(const tmesh_open_result& result) {
  const bool is_dns = result.stage == TMESH_STAGE_DNS;
  switch (result.code) {
    case TMESH_OPEN_FORBIDDEN:
      return "http_request_denied";
    case TMESH_OPEN_AGENT_OFFLINE:
      return "destination_unavailable";
    case TMESH_OPEN_QUEUE_FULL:
      return "connection_limit_reached";
    case TMESH_OPEN_TIMEOUT:
      return is_dns ? "dns_timeout" : "connection_timeout";
    case TMESH_OPEN_NETWORK_UNREACHABLE:
      return "destination_ip_unroutable";
    case TMESH_OPEN_HOST_UNREACHABLE:
      return is_dns ? "dns_error" : "destination_ip_unroutable";
    case TMESH_OPEN_CONNECTION_REFUSED:
      return "connection_refused";
    case TMESH_OPEN_UNSUPPORTED_CAPABILITY:
      return "proxy_configuration_error";
    default:
      return "proxy_internal_error";
  }
}

Response answer(int status, std::string_view text, std::string_view error, std::string_view details) {
  Response out = Response::plain(status, text);
  std::string proxy_status(kName);
  proxy_status.append("; error=").append(error);
  if (!details.empty()) proxy_status.append("; details=\"").append(details).append("\"");
  out.headers.add("Proxy-Status", proxy_status);
  if (status == 405) out.headers.add("Allow", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
  if (status == 407) out.headers.add("Proxy-Authenticate", R"(Basic realm="TunnelMesh", charset="UTF-8")");
  return out;
}

}  // namespace

int status_of_open(unsigned open_code) {
  switch (open_code) {
    case TMESH_OPEN_FORBIDDEN:
      return 403;
    case TMESH_OPEN_AGENT_OFFLINE:
    case TMESH_OPEN_QUEUE_FULL:
      return 503;
    case TMESH_OPEN_TIMEOUT:
      return 504;
    default:
      return 502;
  }
}

Response answer_to_fault(int status, ProxyFault fault) {
  return answer(status, {}, error_of_fault(fault), {});
}

Response answer_to_open(const tmesh_open_result& result) {
  const std::string details = std::string("stage=") + tmesh_open_stage_name(result.stage) +
                              ", code=" + tmesh_open_code_name(result.code);
  return answer(status_of_open(result.code), "not connected: " + details, error_of_open(result), details);
}

}  // namespace tmesh::http
