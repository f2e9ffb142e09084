#include "cpp/storage/timestamp.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

namespace tmesh::storage {
namespace {

constexpr int64_t us_per_second = 1'000'000;
constexpr int64_t us_per_day = 86'400 * us_per_second;

constexpr int64_t day_us(int year, unsigned month, unsigned day) {
  using namespace std::chrono;
  const sys_days days =
      year_month_day{std::chrono::year{year}, std::chrono::month{month}, std::chrono::day{day}};
  return days.time_since_epoch().count() * us_per_day;
}
constexpr int64_t first_us = day_us(1, 1, 1);
constexpr int64_t last_us = day_us(9999, 12, 31) + us_per_day - 1;

int64_t read_system_clock(void*) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// The number in text[at, at + digits), or -1 if one of them is not a digit.
int number_at(std::string_view text, size_t at, size_t digits) {
  int value = 0;
  for (size_t i = at; i < at + digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

// ".5" and the like; nullopt unless it is a dot and one to nine digits.
std::optional<int64_t> fraction_us(std::string_view text) {
  if (text.size() < 2 || text.size() > 10 || text[0] != '.') return std::nullopt;
  int64_t us = 0;
  for (size_t i = 1; i < 10; ++i) {
    const char c = i < text.size() ? text[i] : '0';
    if (c < '0' || c > '9') return std::nullopt;
    if (i <= 6) us = us * 10 + (c - '0');
  }
  return us;
}

}  // namespace

WallClock system_clock() {
  return WallClock::free<&read_system_clock>(nullptr);
}

std::string format_timestamp(int64_t unix_us) {
  using namespace std::chrono;
  const int64_t us = std::clamp(unix_us, first_us, last_us);
  const sys_days day = floor<days>(sys_time<microseconds>{microseconds{us}});
  const year_month_day date{day};
  const int64_t in_day = us - day.time_since_epoch().count() * us_per_day;
  const auto second = static_cast<int>(in_day / us_per_second);
  std::array<char, 64> out{};
  const int written =
      std::snprintf(out.data(), out.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                    static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), second / 3600,
                    second / 60 % 60, second % 60);
  std::string text(out.data(), static_cast<size_t>(written));
  if (const int64_t fraction = in_day % us_per_second; fraction != 0) {
    std::snprintf(out.data(), out.size(), ".%06d", static_cast<int>(fraction));
    text += out.data();
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + 'Z';
}

std::optional<int64_t> parse_timestamp(std::string_view text) {
  using namespace std::chrono;
  constexpr std::string_view shape = "0000-00-00T00:00:00";
  if (text.size() < shape.size() + 1 || text.back() != 'Z') return std::nullopt;
  for (const size_t at : {4, 7, 10, 13, 16}) {
    if (text[at] != shape[at]) return std::nullopt;
  }
  const int y = number_at(text, 0, 4);
  const int mo = number_at(text, 5, 2);
  const int d = number_at(text, 8, 2);
  const int h = number_at(text, 11, 2);
  const int mi = number_at(text, 14, 2);
  const int s = number_at(text, 17, 2);
  if (y < 1 || mo < 0 || d < 0 || h < 0 || h > 23 || mi < 0 || mi > 59 || s < 0 || s > 59)
    return std::nullopt;
  const year_month_day date{year{y}, month{static_cast<unsigned>(mo)}, day{static_cast<unsigned>(d)}};
  if (!date.ok()) return std::nullopt;
  int64_t us =
      sys_days{date}.time_since_epoch().count() * us_per_day + (h * 3600 + mi * 60 + s) * us_per_second;
  const std::string_view rest = text.substr(shape.size(), text.size() - shape.size() - 1);
  if (!rest.empty()) {
    const std::optional<int64_t> fraction = fraction_us(rest);
    if (!fraction) return std::nullopt;
    us += *fraction;
  }
  return us;
}

}  // namespace tmesh::storage
