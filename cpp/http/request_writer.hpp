// A request as bytes. Pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cpp/base/url.hpp"
#include "cpp/http/message.hpp"

namespace tmesh::http {

// The whole message, with Host, and Content-Length unless there is no body to speak of (an
// empty one of GET, HEAD, OPTIONS or DELETE). Nothing if a field's name or value, the path
// or the host could break the message, or if a field is one of this function's own (Host,
// Content-Length, Connection, Transfer-Encoding). One allocation, so that a caller who
// wipes the result leaves no copy behind.
std::optional<std::string> serialize_request(Method method, const Url& url, const Headers& headers,
                                             std::string_view body);

}  // namespace tmesh::http
