#include "cpp/base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/json.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::log {
namespace {

constexpr int64_t kWhen_us = 1767323045000006;  // 2026-01-02T03:04:05.000006Z

std::string line(Format format, std::string_view event, Fields fields = {}, Level level = Level::info,
                 int64_t when_us = kWhen_us) {
  std::array<char, kLineBytesMax> out;
  const std::size_t size = render(out, format, when_us, level, event, fields);
  return std::string(out.data(), size);
}

// A pipe in the place of stderr; default settings come back afterwards.
class Captured {
 public:
  Captured() {
    EXPECT_EQ(::pipe2(fds_, O_CLOEXEC | O_NONBLOCK), 0);
    set_fd(fds_[1]);
  }
  ~Captured() {
    set_fd(2);
    configure(Level::info, Format::text);
    ::close(fds_[0]);
    ::close(fds_[1]);
  }
  std::string read() {
    std::string out;
    char block[4096];
    for (ssize_t n = 0; (n = ::read(fds_[0], block, sizeof block)) > 0;) out.append(block, n);
    return out;
  }
  int reader() const { return fds_[0]; }

 private:
  int fds_[2];
};

TEST(Log, TextLineHasTimeLevelEventAndFields) {
  EXPECT_EQ(line(Format::text, "link_closed",
                 {{"reason", "ws_text"}, {"streams", 3}, {"delta", -4}, {"strict", true}}, Level::warn),
            "2026-01-02T03:04:05.000006Z warn link_closed reason=ws_text streams=3 delta=-4 strict=true\n");
}

TEST(Log, JsonLineIsOneObject) {
  EXPECT_EQ(line(Format::json, "link_closed", {{"reason", "ws_text"}, {"streams", 3}, {"strict", false}},
                 Level::error),
            "{\"ts\":\"2026-01-02T03:04:05.000006Z\",\"level\":\"error\",\"event\":\"link_closed\","
            "\"reason\":\"ws_text\",\"streams\":3,\"strict\":false}\n");
}

TEST(Log, FieldsAreTyped) {
  EXPECT_EQ(line(Format::text, "e",
                 {{"a", std::numeric_limits<int64_t>::min()},
                  {"b", std::numeric_limits<uint64_t>::max()},
                  {"c", uint8_t{200}},
                  {"d", std::string("text")},
                  {"f", static_cast<const char*>(nullptr)}}),
            "2026-01-02T03:04:05.000006Z info e a=-9223372036854775808 b=18446744073709551615 c=200 d=text "
            "f=\"\"\n");
}

TEST(Log, TimeBefore1970IsStillADate) {
  EXPECT_TRUE(line(Format::text, "e", {}, Level::info, -1).starts_with("1969-12-31T23:59:59.999999Z "));
}

TEST(Log, TextValuesAreQuotedWhenTheyCouldBeMisread) {
  EXPECT_TRUE(line(Format::text, "e", {{"k", "two words"}}).ends_with(" k=\"two words\"\n"));
  EXPECT_TRUE(line(Format::text, "e", {{"k", "a=b"}}).ends_with(" k=\"a=b\"\n"));
  EXPECT_TRUE(line(Format::text, "e", {{"k", "say \"x\""}}).ends_with(" k=\"say \\\"x\\\"\"\n"));
  EXPECT_TRUE(line(Format::text, "e", {{"k", "a\\b"}}).ends_with(" k=\"a\\\\b\"\n"));
  EXPECT_TRUE(
      line(Format::text, "e", {{"k", "Gr\xC3\xBC\xC3\x9F"}}).ends_with(" k=\"Gr\xC3\xBC\xC3\x9F\"\n"));
}

TEST(Log, NoControlCharacterAndNoSecondLineComesOutOfAValue) {
  for (const Format format : {Format::text, Format::json}) {
    std::string evil;
    for (int c = 0; c < 256; ++c) evil.push_back(static_cast<char>(c));
    evil += "\xC2\x9B";  // CSI as UTF-8
    const std::string out = line(format, evil, {{"k", evil}, {"next", 1}});
    EXPECT_EQ(out.find('\n'), out.size() - 1);
    EXPECT_TRUE(utf8_valid(out));
    for (const char c : out.substr(0, out.size() - 1)) {
      EXPECT_GE(static_cast<unsigned char>(c), 0x20u);
      EXPECT_NE(c, 0x7F);
    }
    EXPECT_EQ(out.find("\xC2\x9B"), std::string::npos);
    if (format == Format::json) {
      std::string object = out.substr(0, out.size() - 1);
      for (std::size_t at; (at = object.find("\\u0000")) != std::string::npos;) object.erase(at, 6);
      EXPECT_TRUE(json::parse(object)) << "our own reader refuses \\u0000 only";
    }
  }
}

TEST(Log, LongValueIsCutAndSaysSo) {
  const std::string out = line(Format::text, "e", {{"k", std::string(5000, 'x')}, {"after", 1}});
  EXPECT_TRUE(out.ends_with(" k=\"" + std::string(kValueBytesMax, 'x') + "...\" after=1\n"));
}

TEST(Log, CutNeverSplitsACharacter) {
  for (std::size_t lead = 0; lead < 4; ++lead) {
    std::string value(lead, 'x');
    while (value.size() < 2 * kValueBytesMax) value += "\xF0\x9F\x98\x80";
    EXPECT_TRUE(utf8_valid(line(Format::text, "e", {{"k", value}}))) << lead;
    EXPECT_EQ(line(Format::text, "e", {{"k", value}}).find("\\x"), std::string::npos) << lead;
  }
}

// Wherever the end of the line falls in a value that is itself cut.
TEST(Log, AFieldThatDoesNotFitLeavesNoRemains) {
  const std::string cut = std::string(kValueBytesMax - 1, 'x') + std::string(100, '\x01');
  for (std::size_t size = 0; size <= kValueBytesMax; ++size) {
    const std::string pad(size, 'p');
    const std::string full(kValueBytesMax, 'q');
    const std::string out = line(Format::json, "e", {{"a", full}, {"b", full}, {"c", pad}, {"k", cut}});
    ASSERT_TRUE(json::parse(std::string_view(out).substr(0, out.size() - 1))) << size << ": " << out;
  }
}

TEST(Log, LineNeverPassesItsLimit) {
  const std::string big(kValueBytesMax, '\x01');  // six bytes each when escaped
  for (const Format format : {Format::text, Format::json}) {
    const std::string out =
        line(format, "e", {{"a", "first"}, {"b", big}, {"c", big}, {"d", big}, {"last", 7}});
    EXPECT_LE(out.size(), kLineBytesMax);
    EXPECT_NE(out.find("first"), std::string::npos);
    EXPECT_NE(out.find("last"), std::string::npos) << "a later field that fits is kept";
    EXPECT_TRUE(out.ends_with(format == Format::json ? ",\"truncated\":true}\n" : " truncated=true\n"));
    if (format == Format::json) {
      EXPECT_TRUE(json::parse(std::string_view(out).substr(0, out.size() - 1)).has_value());
    }
  }
}

TEST(Log, LevelFilters) {
  Captured out;
  configure(Level::warn, Format::text);
  EXPECT_TRUE(enabled(Level::error));
  EXPECT_TRUE(enabled(Level::warn));
  EXPECT_FALSE(enabled(Level::info));
  info("hidden");
  warn("shown");
  set_level(Level::debug);
  debug("also_shown");
  const std::string text = out.read();
  EXPECT_EQ(text.find("hidden"), std::string::npos);
  EXPECT_NE(text.find(" warn shown\n"), std::string::npos);
  EXPECT_NE(text.find(" debug also_shown\n"), std::string::npos);
}

TEST(Log, WritingKeepsErrno) {
  Captured out;
  set_fd(-1);
  errno = EAGAIN;
  error("nobody_hears");
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Log, LinesOfSeveralThreadsDoNotMix) {
  Captured out;
  ASSERT_GT(::fcntl(out.reader(), F_SETPIPE_SZ, 1 << 20), 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const std::string value(200, static_cast<char>('a' + t));
      for (int i = 0; i < 200; ++i) info("event", {{"value", value}});
    });
  }
  for (std::thread& t : threads) t.join();
  const std::string text = out.read();
  std::size_t lines = 0;
  for (std::size_t at = 0; at < text.size(); ++lines) {
    const std::size_t end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const std::string_view one = std::string_view(text).substr(at, end - at);
    const std::size_t value = one.find("value=");
    ASSERT_NE(value, std::string_view::npos);
    EXPECT_EQ(one.substr(value + 6), std::string(200, one[value + 6]));
    at = end + 1;
  }
  EXPECT_EQ(lines, 800u);
}

TEST(Log, NamesRoundTrip) {
  for (const Level level : {Level::error, Level::warn, Level::info, Level::debug}) {
    EXPECT_EQ(level_from(level_name(level)), level);
  }
  for (const Format format : {Format::text, Format::json})
    EXPECT_EQ(format_from(format_name(format)), format);
  EXPECT_FALSE(level_from("INFO"));
  EXPECT_FALSE(format_from(""));
}

}  // namespace
}  // namespace tmesh::log
