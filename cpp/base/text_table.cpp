#include "cpp/base/text_table.hpp"

#include <algorithm>

#include "cpp/base/utf8.hpp"

namespace tmesh {
namespace {

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_next(text, at);
    const bool is_bad =
        c.size_bytes == 0 || c.code_point < 0x20 || (c.code_point >= 0x7f && c.code_point < 0xa0);
    const std::size_t size_bytes = std::max<std::size_t>(c.size_bytes, 1);
    if (is_bad) {
      out += '?';
    } else {
      out += text.substr(at, size_bytes);
    }
    at += size_bytes;
  }
  return out;
}

void append_padded(std::string& out, std::string_view text, std::size_t columns) {
  out += text;
  out.append(columns - std::min(columns, width(text)), ' ');
}

std::string text_table(const std::vector<std::vector<std::string>>& lines) {
  if (lines.empty()) return "";
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i + 1 < line.size(); ++i) append_padded(text, line[i], widths[i] + 2);
    text += line.back();
    text.erase(text.find_last_not_of(' ') + 1);  // empty cells at the end
    text += '\n';
  }
  return text;
}

}  // namespace tmesh
