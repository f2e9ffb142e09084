// A client and origins as strings around one http::ProxyConnection, for tests and fuzzing.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cpp/http/proxy/proxy_connection.hpp"

namespace tmesh::test {

// One connection that was opened for the proxy.
struct OriginEnd {
  HostPort place;
  std::string received;            // by the origin
  std::string waiting;             // sent by it, not taken yet
  bool is_ended = false;           // it sends no more
  std::optional<bool> was_closed;  // true: regularly
};

class ProxyWorld final : public http::ProxyIo {
 public:
  explicit ProxyWorld(http::ProxyRules r = {}) : rules(std::move(r)), connection(*this, rules, local) {}

  // What the client sends, and what the origin of the last open does.
  void say(std::string_view text) {
    client_waiting.append(text);
    connection.run();
  }
  void finish() {
    is_client_ended = true;
    connection.run();
  }
  void answer(std::string_view text) {
    origin().waiting.append(text);
    connection.run();
  }
  void end_answer() {
    origin().is_ended = true;
    connection.run();
  }
  void break_origin() { connection.origin_broken(); }
  void accept() { connection.opened(); }
  void refuse(tmesh_open_stage stage, tmesh_open_code code) {
    connection.refused(tmesh_open_refuse(stage, code, false));
  }
  // The client reads all of it.
  std::string take() {
    std::string out = std::move(client_received);
    client_received.clear();
    connection.run();
    return out;
  }
  OriginEnd& origin() { return origins.back(); }

  http::ProxyRules rules;
  HostPort local{"127.0.0.1", 8080};
  std::string client_waiting;
  std::string client_received;
  bool is_client_ended = false;
  std::deque<OriginEnd> origins;
  bool opens_at_once = true;
  std::size_t client_max_bytes = 1u << 20;  // of what it has not read
  std::size_t origin_max_bytes = 1u << 20;  // of what one may be sent
  bool has_memory = true;
  // Fronts are no longer than this, so that a test can cut everything into pieces.
  std::size_t piece_bytes = SIZE_MAX;
  http::ProxyConnection connection;

  std::span<const uint8_t> client_front() override { return front(client_waiting); }
  bool client_ended() override { return is_client_ended; }
  void client_drop(std::size_t n) override { client_waiting.erase(0, n); }
  std::size_t client_room() override { return room(client_max_bytes, client_received); }
  bool client_send(std::string_view text) override {
    if (has_memory) client_received.append(text);
    return has_memory;
  }
  void open_origin(const HostPort& place) override {
    origins.push_back({place, {}, {}, false, {}});
    if (opens_at_once) connection.opened();
  }
  void close_origin(bool is_clean) override { origin().was_closed = is_clean; }
  std::span<const uint8_t> origin_front() override { return front(origin().waiting); }
  bool origin_ended() override { return origin().is_ended; }
  void origin_drop(std::size_t n) override { origin().waiting.erase(0, n); }
  std::size_t origin_room() override { return room(origin_max_bytes, origin().received); }
  std::size_t origin_send(std::string_view text) override {
    const std::size_t n = has_memory ? std::min(text.size(), origin_room()) : 0;
    origin().received.append(text.substr(0, n));
    return n;
  }
  std::size_t pass_to_origin(std::size_t n) override {
    return has_memory ? pass(client_waiting, origin().received, n) : 0;
  }
  std::size_t pass_to_client(std::size_t n) override {
    return has_memory ? pass(origin().waiting, client_received, n) : 0;
  }
  int64_t unix_s() override { return 784'111'777; }

 private:
  // A copy of just those bytes, so that a sanitizer sees who reads beyond them.
  std::span<const uint8_t> front(const std::string& from) {
    const std::size_t n = std::min(piece_bytes, from.size());
    copy_ = std::make_unique<uint8_t[]>(n);
    std::memcpy(copy_.get(), from.data(), n);
    return {copy_.get(), n};
  }
  static std::size_t room(std::size_t max, const std::string& held) {
    return held.size() >= max ? 0 : max - held.size();
  }
  static std::size_t pass(std::string& from, std::string& to, std::size_t n) {
    to.append(from, 0, n);
    from.erase(0, n);
    return n;
  }

  std::unique_ptr<uint8_t[]> copy_;
};

}  // namespace tmesh::test
