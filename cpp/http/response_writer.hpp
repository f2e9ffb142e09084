// A response as bytes. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/http/message.hpp"

namespace tmesh::http {

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 section 5.6.7) for seconds since 1970.
std::string http_date(int64_t unix_s);

// The whole message. The body is left out for is_head (its length stays), and body
// and length for 204, 304 and 1xx. A field whose name or value could break the message
// (control characters, a name of the server's own) is a fault of the program: the
// answer is then an empty 500.
std::string serialize(const Response& response, bool is_head, bool closes, std::string_view date);

// The head of a 101 with "Connection: Upgrade" and these fields.
std::string serialize_switching(const Headers& fields, std::string_view date);

}  // namespace tmesh::http
