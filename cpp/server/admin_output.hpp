// Records on a terminal or as JSON. Internal to the administration commands.
//
// One description of a record serves both: text prints a table (lists) or aligned
// lines (one record), JSON an array or an object with the API's member names.
// Control characters of stored text never reach a terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tmesh::server {

struct AdminNull {};  // JSON null, text "-"
struct AdminJson {    // JSON as it is
  std::string text;
};
using AdminValue = std::variant<AdminNull, std::string, int64_t, bool, AdminJson>;

struct AdminField {
  const char* name;  // member name; static
  AdminValue value;
};
using AdminRow = std::vector<AdminField>;

// An empty text is "absent".
AdminValue admin_text(std::string_view text);

// The rows have the same fields in the same order.
void print_admin_list(std::FILE* out, bool is_json, const std::vector<AdminRow>& rows);
void print_admin_row(std::FILE* out, bool is_json, const AdminRow& row);

}  // namespace tmesh::server
