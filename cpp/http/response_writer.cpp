#include "cpp/http/response_writer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "core/base/check.h"

namespace tmesh::http {

namespace {

bool is_sound(const Headers& fields) {
  static constexpr std::array<std::string_view, 4> kOwn = {"content-length", "connection", "date",
                                                           "transfer-encoding"};
  return std::all_of(fields.begin(), fields.end(), [](const Header& field) {
    return is_token(field.name) && is_field_value(field.value) &&
           std::none_of(kOwn.begin(), kOwn.end(),
                        [&](std::string_view own) { return equals_ignoring_case(own, field.name); });
  });
}

void append(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

std::string begin_message(int status, const Headers& fields, std::string_view date) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out.append(reason_phrase(status)).append("\r\n");
  append(out, "Date", date);
  for (const Header& field : fields) append(out, field.name, field.value);
  return out;
}

bool has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

}  // namespace

std::string http_date(int64_t unix_s) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  auto seconds = static_cast<time_t>(unix_s);
  tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  int n = std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                        kDays[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                        kMonths[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                        utc.tm_min, utc.tm_sec);
  return std::string(text.data(), static_cast<std::size_t>(n));
}

std::string serialize(const Response& response, bool is_head, bool closes, std::string_view date) {
  if (!is_sound(response.headers)) {
    Response broken;
    broken.status = 500;
    return serialize(broken, is_head, closes, date);
  }
  std::string out = begin_message(response.status, response.headers, date);
  if (!has_no_body(response.status)) append(out, "Content-Length", std::to_string(response.body.size()));
  if (closes) append(out, "Connection", "close");
  out.append("\r\n");
  if (!is_head && !has_no_body(response.status)) out.append(response.body);
  return out;
}

std::string serialize_switching(const Headers& fields, std::string_view date) {
  TMESH_ASSERT(is_sound(fields));
  std::string out = begin_message(101, fields, date);
  append(out, "Connection", "Upgrade");
  out.append("\r\n");
  return out;
}

}  // namespace tmesh::http
