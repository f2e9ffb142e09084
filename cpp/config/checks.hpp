// Form checks that rows of the key table name. Each returns nullptr or a static
// reason that does not repeat the text; the empty text passes everywhere (whether a
// key is required is a question for the whole configuration).
#pragma once

#include <string_view>

namespace tmesh::config {

const char* check_listen(std::string_view text);         // host:port, :port; the host is local
const char* check_tunnel_listen(std::string_view text);  // the same, or unix:/absolute/path
const char* check_host(std::string_view text);           // a name or an IP literal
const char* check_allowed_host(std::string_view text);   // host or host:port, no wildcard
const char* check_origin(std::string_view text);
const char* check_cidr(std::string_view text);
const char* check_ip(std::string_view text);
const char* check_ws_url(std::string_view text);
const char* check_http_url(std::string_view text);
const char* check_dns_name(std::string_view text);  // no wildcard, has a dot or not
const char* check_id(std::string_view text);
const char* check_node_id(std::string_view text);      // 1..255 bytes, no white space or control
const char* check_instance_id(std::string_view text);  // the same, up to 128 bytes
const char* check_no_control(std::string_view text);   // paths, names
const char* check_absolute_path(std::string_view text);
const char* check_metrics_token(std::string_view text);  // at least 16 characters
const char* check_secret(std::string_view text);         // no white space or control inside
const char* check_metadata_name(std::string_view text);  // nothing that names a secret
const char* check_env_variable(std::string_view text);   // letters, digits, '_'; no wildcard
const char* check_file_mode(std::string_view text);      // octal, 0..0777
const char* check_owner(std::string_view text);          // user or user:group

}  // namespace tmesh::config
