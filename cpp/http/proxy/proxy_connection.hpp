// One client connection of an HTTP proxy or gateway: requests in, answers out, in order.
//
// Sans-I/O and without a clock: a ProxyIo moves the bytes. Requests are served one after the
// other; what is pipelined waits where it is. Heads are rewritten (request_plan.hpp,
// response_plan.hpp), all else passes through as it came, in both directions at once, so that
// neither an answer before the end of a request nor a client that waits for 100 Continue
// stops anything. No interim answer is made up.
//
// The connection to an origin stays for the next request to the same place. When that gets no
// byte of an answer there, since the origin was just closing, it is sent once more on a new one
// if it can be repeated: it is idempotent and has no body, of which nothing is kept. Otherwise
// the client's connection ends without an answer, as the origin's did: clients know what to do
// about that on a connection that they used before.
//
// An exchange that cannot be completed is answered (proxy_answer.hpp) while no byte of the
// origin's answer has been passed on; afterwards both connections are aborted, so that a cut
// body never looks whole (LESSONS R5).
//
// Owns heads while they are needed, three of some 73 KiB at most: what has come of one, and a
// request until it was sent and, on a connection that was used before, until the answer begins.
// One thread. Calls of ProxyIo may call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/proto/open_result.h"
#include "cpp/http/proxy/message_reader.hpp"
#include "cpp/http/proxy/proxy_answer.hpp"
#include "cpp/http/proxy/request_plan.hpp"
#include "cpp/http/proxy/response_plan.hpp"
#include "cpp/http/proxy/rules.hpp"

namespace tmesh::http {

// The two sides of one connection. "Front" is a run of bytes that wait, empty when none does.
class ProxyIo {
 public:
  virtual std::span<const uint8_t> client_front() = 0;
  virtual bool client_ended() = 0;  // no byte will follow those that wait
  virtual void client_drop(std::size_t n) = 0;
  virtual std::size_t client_room() = 0;
  // Takes all of it, whatever the room. False: no memory.
  virtual bool client_send(std::string_view text) = 0;

  // Asks for a connection: opened() or refused() follows, also from inside the call.
  virtual void open_origin(const HostPort& place) = 0;
  // Lets go of it, in whatever state. is_clean: nothing is under way, so it ends regularly.
  virtual void close_origin(bool is_clean) = 0;
  virtual std::span<const uint8_t> origin_front() = 0;
  virtual bool origin_ended() = 0;
  virtual void origin_drop(std::size_t n) = 0;
  // While the open is not answered: for what may travel ahead of the answer.
  virtual std::size_t origin_room() = 0;
  // Takes at most origin_room() bytes of it; returns how many.
  virtual std::size_t origin_send(std::string_view text) = 0;

  // Moves up to n bytes from the front of one side to the other; fewer only without memory.
  virtual std::size_t pass_to_origin(std::size_t n) = 0;
  virtual std::size_t pass_to_client(std::size_t n) = 0;

  virtual int64_t unix_s() = 0;  // for Date

 protected:
  ~ProxyIo() = default;
};

class ProxyConnection {
 public:
  enum class Verdict : uint8_t {
    running,
    tunnel,  // bytes only from now on, both ways, those that wait first
    close,   // regularly, behind what was sent
    abort,
  };
  // What the client is waited for; its patience is the owner's business.
  enum class Wait : uint8_t {
    nothing,
    request,  // not a byte of one yet
    head,
    body,  // of a request that was answered and is only read over
  };

  // The body of a request that was refused is read over up to this length, so that the
  // connection can go on; a longer one costs more than a new connection.
  static constexpr std::size_t kDrainMaxBytes = 64u << 10;

  // rules outlive it. local: the address that the client connected to.
  ProxyConnection(ProxyIo& io, const ProxyRules& rules, const HostPort& local);
  ProxyConnection(const ProxyConnection&) = delete;
  ProxyConnection& operator=(const ProxyConnection&) = delete;

  // Something about either side changed: bytes, an end, room.
  void run();
  void opened();
  void refused(const tmesh_open_result& result);
  // It ended otherwise than regularly; what came before is still in front of it.
  void origin_broken();
  // No further request: the answer that runs is the last.
  void stop();

  Verdict verdict() const { return verdict_; }
  Wait wait() const;
  // Not a byte of a request, no answer that runs.
  bool is_idle() const { return phase_ == Phase::request && request_.state() == MessageReader::State::idle; }
  // Inside run(): the owner shall not destroy it now.
  bool is_running() const { return is_running_; }
  uint64_t requests_count() const { return requests_count_; }
  // Memory that heads take.
  std::size_t held_bytes() const {
    return request_.held_bytes() + response_.held_bytes() + plan_.head.size();
  }

 private:
  enum class Phase : uint8_t { request, exchange, draining };
  enum class Origin : uint8_t { none, opening, open, broken };

  // Each: false when there is nothing more to do now.
  bool step();
  bool read_request();
  bool pump_request();
  bool pump_response();
  bool drain();

  void begin_exchange();
  void connect_origin();
  bool watch_idle_origin();
  bool send_head();
  void forget_sent_head();
  bool on_response_head();
  void finish_exchange();
  void on_request_cut();
  void on_origin_failure(ProxyFault fault);
  void refuse(int status, ProxyFault fault);
  void answer(const Response& response);
  // Whether the rest of the request can be read over.
  bool is_drainable() const;
  bool is_request_sent() const;
  void let_go_of_origin(bool is_clean);
  void begin_next();
  void end(Verdict verdict);

  ProxyIo& io_;
  const ProxyRules& rules_;
  const HostPort local_;
  Verdict verdict_ = Verdict::running;
  Phase phase_ = Phase::request;
  bool is_running_ = false;
  bool runs_again_ = false;
  bool is_stopping_ = false;
  uint64_t requests_count_ = 0;

  MessageReader request_{MessageReader::Kind::request};
  MessageReader response_{MessageReader::Kind::response};
  RequestPlan plan_;
  std::size_t head_sent_bytes_ = 0;     // of plan_.head
  std::size_t request_due_bytes_ = 0;   // read over by request_, not passed on yet
  std::size_t response_due_bytes_ = 0;  // the same the other way

  Origin origin_ = Origin::none;
  HostPort place_;                   // of the origin, unless none
  bool is_reused_ = false;           // another request went over it before
  bool has_response_begun_ = false;  // a byte of it came
  bool is_answer_begun_ = false;     // the final head was passed on
  bool is_continue_sent_ = false;
  bool keeps_client_ = false;
  bool keeps_origin_ = false;
};

}  // namespace tmesh::http
