// Identifiers of database rows, in the forms that deployed databases have. Each
// begins with a letter (migrations/ddl.sql says why). Random: 96 bits and more.
#pragma once

#include <string>
#include <string_view>

namespace tmesh::server {

std::string new_id(std::string_view prefix);  // "<prefix>-" and 16 base64url characters
std::string new_agent_id();                   // "agent-" and 24 hex digits
std::string new_token_id();                   // "stok_" and 22 base64url characters

}  // namespace tmesh::server
