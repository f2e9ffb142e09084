// HTTP requests and responses as plain values. No I/O, no parser types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tmesh::http {

// Methods this server dispatches; anything else is answered with 501.
enum class Method : uint8_t { get, head, post, put, patch, del, options };
inline constexpr std::size_t kMethodCount = 7;
std::string_view method_name(Method method);  // "GET", ... "DELETE"

struct Header {
  std::string name;
  std::string value;  // no leading or trailing white space
};

// Header fields in the order of the message. Names compare without regard to ASCII
// case; a field may occur more than once.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<Header> fields) : fields_(fields) {}

  void add(std::string_view name, std::string_view value) {
    fields_.push_back({std::string(name), std::string(value)});
  }
  // The first value, or null.
  const std::string* find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  // Whether any field of that name is a comma list holding `token` as a whole item,
  // ignoring ASCII case ("Connection: keep-alive, Upgrade").
  bool has_token(std::string_view name, std::string_view token) const;
  std::size_t size() const { return fields_.size(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  Header& back() { return fields_.back(); }

 private:
  std::vector<Header> fields_;
};

bool equals_ignoring_case(std::string_view a, std::string_view b);  // ASCII
// What a message may carry as the name and as the value of a field (RFC 9110 section 5).
bool is_token(std::string_view text);
bool is_field_value(std::string_view text);

struct Request {
  Method method = Method::get;
  uint8_t minor_version = 1;  // HTTP/1.x
  std::string path;           // as sent, up to '?'; begins with '/' ("*" only for OPTIONS)
  std::string query;          // behind the first '?', as sent
  bool has_query = false;     // "/x?" has an empty one
  Headers headers;
  std::string body;
  bool is_upgrade = false;  // asks for another protocol (Connection: Upgrade and an Upgrade field)

  // The one Host field; empty only in HTTP/1.0.
  std::string_view host() const;
};

struct Response {
  int status = 200;
  // Content-Length, Connection, Date and Transfer-Encoding are the server's business
  // and must not be among them.
  Headers headers;
  std::string body;
  bool is_last = false;  // close the connection behind it

  // A text/plain answer: `text` and a line feed, or the status's own reason.
  static Response plain(int status, std::string_view text = {});
  static Response json(int status, std::string body);
};

// "Not Found"; "Status" for numbers this server does not use.
std::string_view reason_phrase(int status);

}  // namespace tmesh::http
