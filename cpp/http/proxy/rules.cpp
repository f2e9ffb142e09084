#include "cpp/http/proxy/rules.hpp"

namespace tmesh::http {

std::string ProxyRules::target_authority() const {
  std::string out = format_host_port(target.host, target.port);
  const uint16_t usual_port = is_target_https ? 443 : 80;
  if (target.port == usual_port) out.resize(out.rfind(':'));
  return out;
}

std::string ProxyRules::target_origin() const {
  return (is_target_https ? "https://" : "http://") + target_authority();
}

}  // namespace tmesh::http
