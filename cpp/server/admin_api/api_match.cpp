#include "cpp/server/admin_api/api_match.hpp"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "cpp/base/nearest.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::server {
namespace {

constexpr std::size_t parts_max = 8;         // the longest row has five
constexpr std::size_t shown_bytes_max = 64;  // of a name that somebody sent
constexpr std::array list_names = {"cursor", "limit"};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Of "/a/{id}": "a" and "{id}". False beyond parts_max, and where it does not begin with '/'.
bool split_path(std::string_view path, std::vector<std::string_view>& parts) {
  while (!path.empty()) {
    if (path.front() != '/' || parts.size() == parts_max) return false;
    path.remove_prefix(1);
    parts.push_back(path.substr(0, path.find('/')));
    path.remove_prefix(parts.back().size());
  }
  return !parts.empty();
}

bool is_value(std::string_view part) {
  return part.starts_with('{');
}

// A request's parts fit a row's parts; a value is never empty.
bool fits(std::span<const std::string_view> row, std::span<const std::string_view> sent) {
  return std::ranges::equal(row, sent, [](std::string_view mine, std::string_view theirs) {
    return is_value(mine) ? !theirs.empty() : mine == theirs;
  });
}

bool can_be_same(std::span<const std::string_view> a, std::span<const std::string_view> b) {
  return std::ranges::equal(
      a, b, [](std::string_view x, std::string_view y) { return is_value(x) || is_value(y) || x == y; });
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool is_query) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '%') {
      if (text.size() - at < 3) return std::nullopt;
      const int high = hex_value(text[at + 1]);
      const int low = hex_value(text[at + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      at += 2;
    } else if (is_query && c == '+') {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
    if (out.size() == kApiValueBytesMax) return std::nullopt;
    out.push_back(c);
  }
  if (!utf8_valid(out)) return std::nullopt;
  return out;
}

ApiFound<ApiQuery> parse_query(std::string_view text) {
  ApiQuery query;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    if (query.size() == kApiQueryCountMax) return api_error(400, "the query has too many parameters");
    const std::string_view sent_name = pair.substr(0, pair.find('='));
    const std::string_view sent_value =
        sent_name.size() == pair.size() ? std::string_view() : pair.substr(sent_name.size() + 1);
    auto name = percent_decode(sent_name, true);
    if (!name) return api_error(400, "the name of a query parameter is malformed");
    const bool is_repeated =
        std::ranges::any_of(query, [&](const auto& known) { return known.first == *name; });
    if (is_repeated) return api_error(400, "a query parameter is given twice");
    auto value = percent_decode(sent_value, true);
    if (!value) return api_error(400, "the value of a query parameter is malformed");
    query.emplace_back(std::move(*name), std::move(*value));
  }
  return query;
}

ApiError unknown_name(std::string_view what, std::string_view name,
                      std::span<const std::string_view> candidates) {
  std::string text(what);
  text += " \"";
  text += name.substr(0, shown_bytes_max);
  text += "\" is not known";
  if (const std::string_view close = nearest(name, candidates); !close.empty()) {
    text += "; did you mean \"";
    text += close;
    text += "\"?";
  }
  return {.status = 400, .text = std::move(text)};
}

ApiRoutes::ApiRoutes(std::initializer_list<std::span<const ApiRoute>> tables) {
  for (const auto& table : tables) add(table);
}

ApiRoutes::ApiRoutes(std::span<const ApiRoute> first,
                     std::initializer_list<std::span<const ApiRoute>> others) {
  add(first);
  for (const auto& table : others) add(table);
}

void ApiRoutes::add(std::span<const ApiRoute> table) {
  for (const ApiRoute& row : table) {
    const bool is_read = row.method == http::Method::get;
    TMESH_ASSERT(row.run != nullptr && row.method != http::Method::head);
    TMESH_ASSERT(!is_read || (row.body_members.empty() && row.after == nullptr));
    TMESH_ASSERT(!is_read || (!row.makes_password && !row.changes_password));
    Parsed parsed;
    const bool is_split = split_path(row.path, parsed.parts);
    TMESH_ASSERT(is_split);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      TMESH_ASSERT(rows_[i]->method != row.method || !can_be_same(parsed_[i].parts, parsed.parts));
    }
    rows_.push_back(&row);
    parsed_.push_back(std::move(parsed));
  }
}

ApiFound<ApiMatch> ApiRoutes::find(http::Method method, std::string_view path) const {
  const auto not_found = [] { return api_error(404, "no such path"); };
  if (!path.starts_with(kApiBase)) return not_found();
  std::vector<std::string_view> sent;
  if (!split_path(path.substr(kApiBase.size()), sent)) return not_found();
  const http::Method wanted = method == http::Method::head ? http::Method::get : method;
  ApiMatch match;
  const Parsed* parsed = nullptr;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!fits(parsed_[i].parts, sent)) continue;
    match.allow += std::string(http::method_name(rows_[i]->method)) + ", ";
    if (rows_[i]->method == http::Method::get) match.allow += "HEAD, ";
    if (rows_[i]->method != wanted) continue;
    match.route = rows_[i];
    parsed = &parsed_[i];
  }
  if (match.allow.empty()) return not_found();
  match.allow += "OPTIONS";
  if (parsed == nullptr) return match;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (!is_value(parsed->parts[i])) continue;
    auto value = percent_decode(sent[i], false);
    if (!value) return api_error(400, "the path is malformed at " + std::string(parsed->parts[i]));
    match.values.push_back(std::move(*value));
  }
  return match;
}

ApiFound<void> check_query(const ApiRoute& route, const ApiQuery& query) {
  std::vector<std::string_view> known(route.query_names.begin(), route.query_names.end());
  if (route.is_list) known.insert(known.end(), list_names.begin(), list_names.end());
  for (const auto& [name, value] : query) {
    if (std::ranges::find(known, name) == known.end()) {
      return std::unexpected(unknown_name("the query parameter", name, known));
    }
  }
  return {};
}

}  // namespace tmesh::server
