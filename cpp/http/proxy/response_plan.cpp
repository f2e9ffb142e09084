#include "cpp/http/proxy/response_plan.hpp"

#include <algorithm>

#include "cpp/http/proxy/hop_fields.hpp"

namespace tmesh::http {
namespace {

bool is_asked_for(const MessageHead& head, const RequestPlan& request) {
  const std::vector<std::string> chosen = list_items(head.fields, "upgrade");
  return !chosen.empty() && std::all_of(chosen.begin(), chosen.end(), [&](const std::string& protocol) {
    return std::any_of(request.upgrades.begin(), request.upgrades.end(),
                       [&](const std::string& asked) { return equals_ignoring_case(asked, protocol); });
  });
}

std::string translated_location(const std::string& value, const RequestPlan& request,
                                const ProxyRules& rules) {
  const std::string target = rules.target_origin();
  if (!equals_ignoring_case(std::string_view(value).substr(0, target.size()), target)) return value;
  const std::string rest = value.substr(target.size());
  const bool is_whole = rest.empty() || rest[0] == '/' || rest[0] == '?' || rest[0] == '#';
  return is_whole ? request.own_origin + rest : value;
}

// Interim answers and 204 have no body, so nothing may say how long it is.
bool is_framing(std::string_view name) {
  return equals_ignoring_case(name, "content-length") || equals_ignoring_case(name, "transfer-encoding");
}

std::string forwarded_head(const MessageHead& head, const RequestPlan& request, const ProxyRules& rules,
                           std::string_view connection) {
  const HopOptions hops(head.fields);
  const bool has_reason = !head.reason.empty() && is_field_value(head.reason);
  std::string out = "HTTP/1.1 " + std::to_string(head.status) + " ";
  out.append(has_reason ? std::string_view(head.reason) : reason_phrase(head.status)).append("\r\n");
  const bool has_no_framing = head.status < 200 || head.status == 204;
  for (const Header& field : head.fields) {
    // What a client could ask for instead (426), or what is spoken from now on (101).
    const bool is_upgrade = equals_ignoring_case(field.name, "upgrade");
    const bool keeps_upgrade = is_upgrade && (head.status == 101 || head.status == 426);
    if ((hops.drops(field.name) && !keeps_upgrade) || (has_no_framing && is_framing(field.name))) continue;
    const bool is_location = rules.is_gateway && equals_ignoring_case(field.name, "location");
    append_field(out, field.name,
                 is_location ? translated_location(field.value, request, rules) : field.value);
  }
  if (!connection.empty()) append_field(out, "Connection", connection);
  return out.append("\r\n");
}

}  // namespace

ResponsePlan plan_response(const MessageHead& head, bool is_until_end, const RequestPlan& request,
                           const ProxyRules& rules, bool may_keep_client) {
  ResponsePlan plan;
  const HopOptions hops(head.fields);
  if (hops.is_malformed()) return plan;
  if (head.status == 101) {
    if (!is_asked_for(head, request)) return plan;
    plan.kind = ResponsePlan::Kind::switching;
    plan.head = forwarded_head(head, request, rules, "Upgrade");
    return plan;
  }
  if (head.status < 200) {
    plan.kind = request.is_http_1_0 ? ResponsePlan::Kind::skip : ResponsePlan::Kind::interim;
    plan.head = forwarded_head(head, request, rules, {});
    return plan;
  }
  const bool has_chunks = head.framing == Framing::chunked;
  if (request.is_http_1_0 && has_chunks && head.status != 204) return plan;
  plan.kind = ResponsePlan::Kind::final;
  plan.keeps_client = may_keep_client && request.keeps_alive && !is_until_end;
  plan.keeps_origin = head.minor_version == 1 && !is_until_end && !hops.is_close() && request.keeps_alive;
  plan.head = forwarded_head(head, request, rules, plan.keeps_client ? "" : "close");
  return plan;
}

}  // namespace tmesh::http
