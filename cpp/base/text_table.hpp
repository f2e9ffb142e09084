// Text for a terminal: what is safe to print, and columns. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tmesh {

// A terminal obeys control characters: C0, DEL and C1 become '?', broken UTF-8 too.
std::string printable(std::string_view text);

// `text` and spaces up to `columns` characters (of UTF-8, each one column).
void append_padded(std::string& out, std::string_view text, std::size_t columns);

// Lines with two spaces between their columns; the last column is not padded. Every line has
// as many cells as the first; cells are printed as they are.
std::string text_table(const std::vector<std::vector<std::string>>& lines);

}  // namespace tmesh
