// The envelope: {"code":…,"msg":…,"data":…} as an HTTP response. Pure functions.
#pragma once

#include <cstdint>

#include "cpp/http/message.hpp"
#include "cpp/server/admin_api/api.hpp"

namespace tmesh::server {

// Never kept by anybody in between: every answer is about now, and some hold secrets.
http::Response api_response(const ApiResult& result);
http::Response api_response(const ApiError& error);

// 429 with Retry-After, in seconds rounded up.
http::Response throttled_response(uint64_t retry_after_us);

}  // namespace tmesh::server
