#include "cpp/http/message.hpp"

#include <algorithm>
#include <array>

#include "core/wire/ws_upgrade.h"

namespace tmesh::http {

namespace {
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}
}  // namespace

std::string_view method_name(Method method) {
  constexpr std::array<std::string_view, kMethodCount> kNames = {"GET",   "HEAD",   "POST",   "PUT",
                                                                 "PATCH", "DELETE", "OPTIONS"};
  return kNames[static_cast<std::size_t>(method)];
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

bool is_token(std::string_view text) {
  static constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOther.find(c) != std::string_view::npos;
  });
}

bool is_field_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

const std::string* Headers::find(std::string_view name) const {
  for (const Header& field : fields_) {
    if (equals_ignoring_case(field.name, name)) return &field.value;
  }
  return nullptr;
}

std::size_t Headers::count(std::string_view name) const {
  return static_cast<std::size_t>(std::count_if(fields_.begin(), fields_.end(), [&](const Header& field) {
    return equals_ignoring_case(field.name, name);
  }));
}

bool Headers::has_token(std::string_view name, std::string_view token) const {
  std::string terminated(token);
  return std::any_of(fields_.begin(), fields_.end(), [&](const Header& field) {
    return equals_ignoring_case(field.name, name) &&
           tmesh_http_list_has(field.value.data(), field.value.size(), terminated.c_str());
  });
}

std::string_view Request::host() const {
  const std::string* value = headers.find("host");
  return value == nullptr ? std::string_view{} : std::string_view(*value);
}

Response Response::plain(int status, std::string_view text) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", "text/plain; charset=utf-8");
  response.body = text.empty() ? reason_phrase(status) : text;
  response.body += '\n';
  return response;
}

Response Response::json(int status, std::string body) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 407:
      return "Proxy Authentication Required";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

}  // namespace tmesh::http
