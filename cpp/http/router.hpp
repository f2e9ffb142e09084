// Paths to handlers: an exact table and a few prefixes.
//
// Paths compare as sent, byte by byte: nothing is decoded, so no two spellings reach
// different checks. Unknown: 404. A method the path does not have: 405 with Allow.
// HEAD is allowed where GET is. Handlers are borrowed. Filled at start.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpp/http/exchange.hpp"

namespace tmesh::http {

class Router final : public Handler {
 public:
  // No methods = the handler judges the method itself. A path is added once (asserted).
  void add(std::string path, std::initializer_list<Method> methods, Handler& handler);
  // Every path that begins with it ("/api/"); the longest prefix wins, exact paths come
  // before all prefixes.
  void add_prefix(std::string prefix, Handler& handler);

  void on_request(Exchange& exchange) override;

 private:
  struct Route {
    uint8_t methods = 0;  // bit per Method; 0 = all
    Handler* handler = nullptr;
  };
  struct Prefix {
    std::string text;
    Handler* handler = nullptr;
  };

  std::unordered_map<std::string, Route> routes_;
  std::vector<Prefix> prefixes_;  // longest first
};

}  // namespace tmesh::http
