#include "cpp/base/text_table.hpp"

#include <gtest/gtest.h>

namespace tmesh {
namespace {

TEST(TextTable, NothingThatATerminalObeysIsPrinted) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a?[2Jb??");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "?31m");  // C1
  EXPECT_EQ(printable("\xff\xfe"
                      "x"),
            "??x");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
}

TEST(TextTable, PaddingCountsCharacters) {
  std::string out;
  append_padded(out, "\xc3\xbc", 3);
  EXPECT_EQ(out, "\xc3\xbc  ");
  append_padded(out, "long", 2);
  EXPECT_EQ(out, "\xc3\xbc  long");
}

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(text_table({{"A", "NAME", "N"}, {"long", "x", "12"}}), "A     NAME  N\nlong  x     12\n");
  EXPECT_EQ(text_table({{"A", "B", "C"}, {"", "", ""}, {"x", "", ""}}), "A  B  C\n\nx\n")
      << "no blanks at the end";
  EXPECT_EQ(text_table({}), "");
}

}  // namespace
}  // namespace tmesh
