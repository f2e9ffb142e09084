// Which fields belong to one hop and are not passed on (RFC 9110 section 7.6.1). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/http/message.hpp"

namespace tmesh::http {

// What Connection, and Proxy-Connection of old clients, say about one message.
class HopOptions {
 public:
  explicit HopOptions(const Headers& fields);

  bool is_close() const { return is_close_; }
  bool is_upgrade() const { return is_upgrade_; }
  // Connection names a field that no intermediary may lose (framing, Host), or too many.
  bool is_malformed() const { return is_malformed_; }
  // Whether the field stays on this hop: it is named in Connection, or one of Connection,
  // Keep-Alive, TE, Upgrade, HTTP2-Settings and Proxy-*. Transfer-Encoding is passed on with the chunks.
  bool drops(std::string_view name) const;

 private:
  void note(std::string_view option);

  bool is_close_ = false;
  bool is_upgrade_ = false;
  bool is_malformed_ = false;
  std::vector<std::string> named_;
};

// The items of all fields of that name, without "" and parameters.
std::vector<std::string> list_items(const Headers& fields, std::string_view name);

// "name: value" and a line end.
void append_field(std::string& out, std::string_view name, std::string_view value);

}  // namespace tmesh::http
