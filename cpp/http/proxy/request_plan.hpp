// What is done with a request whose head is known: refused, answered, connected through or
// forwarded with a head of our own. Pure.
//
// Forwarded heads lose what belongs to one hop (hop_fields.hpp), every Proxy-* field and
// with it the client's credentials for the proxy. They get the Host of the place they go to.
// No Via is added: origins would treat requests through a tunnel unlike direct ones (common
// ones stop compressing), and a loop cannot form, since the second time round the request is
// in origin-form and refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpp/http/proxy/message_reader.hpp"
#include "cpp/http/proxy/rules.hpp"

namespace tmesh::http {

struct RequestPlan {
  enum class Kind : uint8_t {
    refuse,   // with error_status
    here,     // about the proxy itself (OPTIONS): an empty 200
    connect,  // a tunnel to `target`
    forward,  // `head` to `target`, then the body as it comes
  };
  Kind kind = Kind::refuse;
  int error_status = 0;
  HostPort target;
  std::string head;
  bool keeps_alive = false;     // as far as the client is concerned
  bool is_http_1_0 = false;     // it understands neither chunks nor interim answers
  bool is_head_method = false;  // its answer has no body
  bool has_body = false;
  bool is_idempotent = false;         // doing it twice is like doing it once (RFC 9110 section 9.2.2)
  bool expects_continue = false;      // the client may keep the body back until it is told
  std::vector<std::string> upgrades;  // protocols that the forwarded head asks for; the first few
  // Gateway: what the client calls the gateway ("http://localhost:8080").
  std::string own_origin;
};

// local: the address that the connection came in on.
RequestPlan plan_request(const MessageHead& head, const ProxyRules& rules, const HostPort& local);

}  // namespace tmesh::http
