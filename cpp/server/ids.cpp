#include "cpp/server/ids.hpp"

#include "cpp/base/random.hpp"

namespace tmesh::server {

std::string new_id(std::string_view prefix) {
  return std::string(prefix) + '-' + random_base64url(12);
}
std::string new_agent_id() {
  return "agent-" + random_hex(12);
}
std::string new_token_id() {
  return "stok_" + random_base64url(16);
}

}  // namespace tmesh::server
