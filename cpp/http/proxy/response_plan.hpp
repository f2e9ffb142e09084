// What is passed on of an answer whose head is known. Pure.
//
// The forwarded head loses what belongs to one hop and every Proxy-* field, speaks HTTP/1.1
// and says what becomes of the client's connection. A gateway translates a Location at its
// target into one at itself.
#pragma once

#include <string>

#include "cpp/http/proxy/message_reader.hpp"
#include "cpp/http/proxy/request_plan.hpp"
#include "cpp/http/proxy/rules.hpp"

namespace tmesh::http {

struct ResponsePlan {
  enum class Kind : uint8_t {
    fault,      // nothing a client should see: it was not asked for, or ends in two ways
    skip,       // an interim answer for a client that knows none
    interim,    // `head`, and another head follows
    switching,  // `head`, and then the other protocol
    final,      // `head`, then the body as it comes
  };
  Kind kind = Kind::fault;
  std::string head;
  bool keeps_client = false;  // false: the head says "close"
  bool keeps_origin = false;  // the connection may carry another request afterwards
};

// may_keep_client: false when our side wants the client's connection to end.
ResponsePlan plan_response(const MessageHead& head, bool is_until_end, const RequestPlan& request,
                           const ProxyRules& rules, bool may_keep_client);

}  // namespace tmesh::http
