// One local SOCKS5 socket from its first byte to its last.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cpp/client/socks5_entry.hpp"
#include "cpp/net/tcp.hpp"
#include "cpp/session/tcp_flow.hpp"

namespace tmesh::client {

class Socks5Local final : public Local, private net::TcpHandler {
 public:
  explicit Socks5Local(Socks5Entry& entry);
  void start(int fd) override;
  bool is_idle() const override { return phase_ == Phase::handshake; }

 private:
  enum class Phase : uint8_t { handshake, opening, flowing };

  void on_readable() override;
  void on_eof() override;
  void on_written(std::size_t n, bool is_all) override;
  void on_broken(tmesh_status why) override;

  void open();
  void on_opened(const tmesh_open_result& result);
  void refuse(Socks5Reply reply);
  void on_timeout();
  void on_flow_done(tmesh_status why);
  // Sends what the handshake wants to say.
  bool send_reply();
  // Ends after what was sent has left.
  void end();

  Socks5Entry& entry_;
  net::Tcp tcp_;
  Phase phase_ = Phase::handshake;
  Ticket timeout_;
  // Until the stream is there: an idle one need not hold them.
  std::unique_ptr<Socks5Handshake> handshake_;
  std::unique_ptr<Opening> opening_;
  std::optional<session::TcpFlow> flow_;
};

}  // namespace tmesh::client
