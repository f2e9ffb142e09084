#include "cpp/server/admin_output.hpp"

#include <algorithm>

#include "cpp/base/json.hpp"
#include "cpp/base/text_table.hpp"

namespace tmesh::server {
namespace {

struct AsText {
  std::string operator()(const AdminNull&) const { return "-"; }
  std::string operator()(const std::string& value) const { return printable(value); }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(bool value) const { return value ? "yes" : "no"; }
  std::string operator()(const AdminJson& value) const { return printable(value.text); }
};

struct AsJson {
  json::Writer& out;
  void operator()(const AdminNull&) const { out.null(); }
  void operator()(const std::string& value) const { out.string(value); }
  void operator()(int64_t value) const { out.integer(value); }
  void operator()(bool value) const { out.boolean(value); }
  void operator()(const AdminJson& value) const { out.raw(value.text); }
};

void write_object(json::Writer& out, const AdminRow& row) {
  out.begin_object();
  for (const AdminField& field : row) {
    out.key(field.name);
    std::visit(AsJson{out}, field.value);
  }
  out.end_object();
}

std::string table(const std::vector<AdminRow>& rows) {
  std::vector<std::vector<std::string>> cells(1);
  for (const AdminField& field : rows.front()) cells.front().emplace_back(field.name);
  for (const AdminRow& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (const AdminField& field : row) line.push_back(std::visit(AsText{}, field.value));
  }
  return text_table(cells);
}

void put(std::FILE* out, std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), out);
}

}  // namespace

AdminValue admin_text(std::string_view text) {
  if (text.empty()) return AdminNull{};
  return std::string(text);
}

void print_admin_list(std::FILE* out, bool is_json, const std::vector<AdminRow>& rows) {
  if (!is_json) return put(out, rows.empty() ? "none\n" : table(rows));
  std::string text;
  json::Writer writer(text, json::Writer::Style::indented);
  writer.begin_array();
  for (const AdminRow& row : rows) write_object(writer, row);
  writer.end_array();
  put(out, text + '\n');
}

void print_admin_row(std::FILE* out, bool is_json, const AdminRow& row) {
  std::string text;
  if (is_json) {
    json::Writer writer(text, json::Writer::Style::indented);
    write_object(writer, row);
    text += '\n';
  } else {
    size_t columns = 0;
    for (const AdminField& field : row) columns = std::max(columns, std::string_view(field.name).size());
    for (const AdminField& field : row) {
      append_padded(text, field.name, columns + 2);
      text += std::visit(AsText{}, field.value) + '\n';
    }
  }
  put(out, text);
}

}  // namespace tmesh::server
