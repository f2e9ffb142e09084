// One local HTTP connection from its first byte to its last: moves the bytes that an
// http::ProxyConnection decides about.
//
// Bytes of a stream are credited when they were written to the socket. A tunnel (CONNECT,
// an upgrade) becomes a TcpFlow. A connection whose heads find no memory (pool_charge.h) ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cpp/client/http_entry.hpp"
#include "cpp/http/proxy/proxy_connection.hpp"
#include "cpp/net/tcp.hpp"
#include "cpp/session/tcp_flow.hpp"

namespace tmesh::client {

class HttpLocal final : public Local, private net::TcpHandler, private http::ProxyIo {
 public:
  // Between two requests, and for the connection to an origin that waits with it: longer than
  // the minute after which common clients and servers give up by themselves.
  static constexpr uint64_t kIdle_us = 75'000'000;

  explicit HttpLocal(HttpEntry& entry) : entry_(entry) {}
  ~HttpLocal() override;
  void start(int fd) override;
  bool is_idle() const override;

 private:
  // net::TcpHandler
  void on_readable() override;
  void on_eof() override;
  void on_written(std::size_t n, bool is_all) override;
  void on_broken(tmesh_status why) override;

  // http::ProxyIo
  std::span<const uint8_t> client_front() override;
  bool client_ended() override { return is_client_ended_; }
  void client_drop(std::size_t n) override;
  std::size_t client_room() override;
  bool client_send(std::string_view text) override;
  void open_origin(const HostPort& to) override;
  void close_origin(bool is_clean) override;
  std::span<const uint8_t> origin_front() override;
  bool origin_ended() override { return stream_ != nullptr && stream_->in_eof; }
  void origin_drop(std::size_t n) override;
  std::size_t origin_room() override;
  std::size_t origin_send(std::string_view text) override;
  std::size_t pass_to_origin(std::size_t n) override;
  std::size_t pass_to_client(std::size_t n) override;
  int64_t unix_s() override { return entry_.loop().wall_us() / 1'000'000; }

  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);
  void on_opened(const tmesh_open_result& result);
  void on_timeout();
  void on_flow_done(tmesh_status why);
  // Does what the connection wants after something happened; may destroy this.
  void run();
  void act();
  // Counts the memory that heads take towards the budget. False: there is none for them.
  bool charge_heads();
  void watch();
  void start_flow();
  void end(bool is_graceful);

  HttpEntry& entry_;
  net::Tcp tcp_;
  tmesh_end socket_{};                   // of tcp_, for its queues
  std::size_t read_max_bytes_ = 16'384;  // a head is read as it comes; of a body that waits for an open
  bool is_client_ended_ = false;
  bool has_failed_ = false;  // no memory, and nothing under way that would bring some
  // Until a tunnel stands.
  std::unique_ptr<http::ProxyConnection> connection_;
  std::unique_ptr<Opening> opening_;
  tmesh_stream* stream_ = nullptr;
  // In the socket's queue: bytes whose writing gives the stream credit, and those of our own.
  std::size_t owed_bytes_ = 0;
  std::size_t own_bytes_ = 0;
  std::size_t charged_bytes_ = 0;  // of the entry's heads
  Ticket timeout_;
  http::ProxyConnection::Wait waited_for_ = http::ProxyConnection::Wait::nothing;
  uint64_t waited_at_request_ = 0;  // its number
  std::optional<session::TcpFlow> flow_;
};

}  // namespace tmesh::client
