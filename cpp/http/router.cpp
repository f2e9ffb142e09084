#include "cpp/http/router.hpp"

#include <algorithm>

#include "core/base/check.h"

namespace tmesh::http {

namespace {
uint8_t bit(Method method) {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(method));
}

std::string allow_value(uint8_t methods) {
  std::string out;
  for (std::size_t i = 0; i < kMethodCount; ++i) {
    auto method = static_cast<Method>(i);
    if ((methods & bit(method)) == 0) continue;
    if (!out.empty()) out += ", ";
    out += method_name(method);
  }
  return out;
}
}  // namespace

void Router::add(std::string path, std::initializer_list<Method> methods, Handler& handler) {
  Route route;
  route.handler = &handler;
  for (Method method : methods) route.methods |= bit(method);
  if ((route.methods & bit(Method::get)) != 0) route.methods |= bit(Method::head);
  bool is_new = routes_.emplace(std::move(path), route).second;
  TMESH_ASSERT(is_new);
}

void Router::add_prefix(std::string prefix, Handler& handler) {
  auto at = std::find_if(prefixes_.begin(), prefixes_.end(),
                         [&](const Prefix& other) { return other.text.size() < prefix.size(); });
  prefixes_.insert(at, Prefix{std::move(prefix), &handler});
}

void Router::on_request(Exchange& exchange) {
  const Request& request = exchange.request();
  if (auto it = routes_.find(request.path); it != routes_.end()) {
    const Route& route = it->second;
    if (route.methods != 0 && (route.methods & bit(request.method)) == 0) {
      Response response = Response::plain(405);
      response.headers.add("Allow", allow_value(route.methods));
      exchange.respond(response);
      return;
    }
    route.handler->on_request(exchange);
    return;
  }
  for (const Prefix& prefix : prefixes_) {
    if (!request.path.starts_with(prefix.text)) continue;
    prefix.handler->on_request(exchange);
    return;
  }
  exchange.respond(Response::plain(404));
}

}  // namespace tmesh::http
