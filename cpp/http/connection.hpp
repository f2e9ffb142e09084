// One HTTP connection of a server; private to this folder.
//
//   reading -> handling -> writing -> reading ...   keep-alive
//      |           |          `-> over              the last answer, or a refusal
//      |           `-> upgrading -> over            the transport moves on
//      `-> writing (refused)
//
// A graceful close of the transport goes on reading for a while, so an answer that came
// before the end of its request is not lost to a reset (RFC 9112 section 9.6).
// One deadline is armed at a time, the one of the phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpp/base/ticket.hpp"
#include "cpp/http/exchange.hpp"
#include "cpp/http/request_parser.hpp"
#include "cpp/http/server_core.hpp"
#include "cpp/net/transport.hpp"

namespace tmesh::http {

class Connection final : private net::TransportHandler {
 public:
  Connection(ServerCore& server, const net::Peer& peer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Takes fd. False if nothing came of it.
  bool start(int fd);
  // Closes now if nothing is under way, otherwise behind the answer.
  void drain();
  // Ends it: aborts a Deferred, retires.
  void close(bool is_graceful);

  const net::Peer& peer() const { return peer_; }
  std::size_t index = 0;  // in the server's table

 private:
  friend class Deferred;
  friend class Exchange;
  enum class Phase : uint8_t { reading, handling, writing, upgrading, over };
  enum class Deadline : uint8_t { none, head, body, idle, write, hand_over };

  void on_ready(tmesh_status status) override;
  void on_data(std::span<uint8_t> data) override;
  void on_eof() override;
  void on_written() override;
  void on_error(tmesh_status status) override;

  void advance();
  void feed_parser();
  void dispatch();
  void refuse(int status);
  void respond(const Response& response);
  void upgrade(const Headers& fields, Delegate<void(Upgraded)> on_upgraded);
  void finish_upgrade();
  void abandon();  // its Deferred was destroyed unanswered
  void send_continue();
  void write_more();
  void on_response_written();
  void arm(Deadline deadline, uint64_t delay_us);
  void arm_for_reading();
  void on_deadline();
  void update_reading();
  void account();
  void drop_input(std::size_t n);
  std::span<const uint8_t> unread() const { return std::span<const uint8_t>(input_).subspan(input_begin_); }

  ServerCore& server_;
  const net::Peer peer_;
  net::Transport transport_;
  RequestParser parser_;
  Phase phase_ = Phase::reading;
  Deadline deadline_ = Deadline::none;
  Ticket timer_;
  std::vector<uint8_t> input_;  // received, not parsed yet
  std::size_t input_begin_ = 0;
  std::string output_;
  std::size_t output_done_ = 0;
  std::size_t slice_bytes_ = 0;  // of output_, given to a write that is pending
  std::size_t accounted_bytes_ = 0;
  Deferred* deferred_ = nullptr;
  Delegate<void()> on_abort_;
  Delegate<void(Upgraded)> on_upgraded_;
  bool is_write_pending_ = false;
  bool is_advancing_ = false;
  bool is_eof_ = false;
  bool is_last_ = false;  // close behind this answer
  bool is_continue_sent_ = false;
};

}  // namespace tmesh::http
