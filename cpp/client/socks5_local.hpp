// One local SOCKS5 socket from its first byte to its last.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "cpp/client/socks5_entry.hpp"
#include "cpp/net/tcp.hpp"
#include "cpp/session/tcp_flow.hpp"

namespace tmesh::client {

class Socks5Local final : private net::TcpHandler {
 public:
  using Place = std::list<std::unique_ptr<Socks5Local>>::iterator;

  explicit Socks5Local(Socks5Entry& entry);
  ~Socks5Local();
  // Takes fd over. Returns false when there is no memory for it.
  bool start(int fd);
  // Its request has not come yet.
  bool is_in_handshake() const { return phase_ == Phase::handshake; }

  Place place;  // in the entry's list

 private:
  enum class Phase : uint8_t { handshake, opening, flowing };

  void on_readable() override;
  void on_eof() override;
  void on_written(std::size_t n, bool is_all) override;
  void on_broken(tmesh_status why) override;
  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);

  void open();
  // Whether there is a link to wait for; then on_link or on_timeout follows.
  bool wait_for_link();
  void on_link();
  void on_result(const tmesh_open_result& result);
  void succeed();
  void refuse(Socks5Reply reply);
  void on_timeout();
  void drop_stream();
  void on_flow_done(tmesh_status why);
  // Sends what the handshake wants to say.
  bool send_reply();
  // Ends after what was sent has left.
  void end();

  Socks5Entry& entry_;
  net::Tcp tcp_;
  std::unique_ptr<Socks5Handshake>
      handshake_;  // until the stream is there: 600 bytes an idle one need not hold
  Phase phase_ = Phase::handshake;
  bool allows_strict_ = true;  // false: the one legacy retry
  bool was_waiting_ = false;   // for a link, once
  Ticket link_;                // while it waits
  Ticket timeout_;
  tmesh_stream* stream_ = nullptr;
  std::optional<session::TcpFlow> flow_;
};

}  // namespace tmesh::client
