// Many TCP flows in one thread, direct or through a SOCKS5 port: the engine of bench_load.
//
// A flow connects, asks for its target (SOCKS5, method first, as browsers do), says its
// request line and reads. What a request is for, and what follows, is the handler's.
// One epoll_ctl per flow as a rule, and bulk is dropped in the kernel instead of copied:
// the generator shares the cores with what it measures.
#pragma once

#include <memory>
#include <utility>

#include "tests/bench/bench_net.hpp"

namespace tmesh::bench {

struct Flow {
  enum class Step : uint8_t { closed, connecting, method, reply, first, body, sending };

  Step step = Step::closed;
  bool is_stalled = false;      // reads `stall_after_bytes`, then nothing more
  bool is_upload = false;       // after the first byte sends until it is closed
  bool is_half_closed = false;  // says that it is done right behind its request
  uint64_t tag = 0;             // the handler's
  uint64_t want_bytes = 0;      // of the answer; done when they are there
  uint64_t moved_bytes = 0;     // received, or sent by an upload
  uint64_t start_ns = 0, reply_ns = 0, first_ns = 0;
  std::string request;
  std::string in;  // of the SOCKS5 handshake
};

class FlowHandler {
 public:
  virtual void on_first(Flow& flow) = 0;
  // All wanted bytes came (fd is still open), or why the flow ended before.
  virtual void on_done(int fd, Flow& flow) = 0;
  virtual void on_failed(Flow& flow, const std::string& why) = 0;

 protected:
  ~FlowHandler() = default;
};

class FlowEngine {
 public:
  static constexpr std::size_t kReadBytes = 1u << 20;
  static constexpr std::size_t kWriteBytes = 256u << 10;
  // A reader that stalls has shown before that it reads.
  static constexpr uint64_t stall_after_bytes = 100'000;

  // proxy_port 0 = direct. name: a host name to ask for instead of 127.0.0.1; "%" in it
  // becomes a number that is new for every flow.
  FlowEngine(FlowHandler& handler, int proxy_port, int target_port, std::string name)
      : handler_(handler),
        proxy_port_(proxy_port),
        target_port_(target_port),
        name_(std::move(name)),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        buffer_(kReadBytes, 'u') {}
  ~FlowEngine() { close(epoll_); }
  FlowEngine(const FlowEngine&) = delete;
  FlowEngine& operator=(const FlowEngine&) = delete;

  void start(Flow flow) {
    flow.start_ns = now_ns();
    const int fd = start_connect(proxy_port_ != 0 ? proxy_port_ : target_port_);
    if (fd < 0) return handler_.on_failed(flow, std::string("connect: ") + strerror(errno));
    if (static_cast<std::size_t>(fd) >= flows_.size()) flows_.resize(static_cast<std::size_t>(fd) * 2 + 64);
    flow.step = Flow::Step::connecting;
    at(fd) = std::move(flow);
    // On loopback the handshake is over when connect() returns.
    const bool is_sent = greet(fd);
    if (at(fd).step == Flow::Step::closed) return;
    epoll_event e{.events = is_sent ? EPOLLIN : EPOLLOUT, .data = {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &e);
  }

  // Handles what there is, waiting until `until_ns` at most.
  void turn(uint64_t until_ns) {
    epoll_event events[128];
    const uint64_t now = now_ns();
    const uint64_t left_ns = until_ns > now ? until_ns - now : 0;
    const timespec wait{.tv_sec = static_cast<time_t>(left_ns / 1'000'000'000u),
                        .tv_nsec = static_cast<long>(left_ns % 1'000'000'000u)};
    const int n = epoll_pwait2(epoll_, events, 128, &wait, nullptr);
    for (int i = 0; i < n; i++) on_event(events[i].data.fd, events[i].events);
  }

  void finish(int fd) {
    close(fd);
    at(fd) = Flow{};
  }
  Flow& at(int fd) { return flows_[static_cast<std::size_t>(fd)]; }
  template <typename F>
  void for_each(F&& f) {
    for (std::size_t fd = 0; fd < flows_.size(); fd++) {
      if (flows_[fd].step != Flow::Step::closed) f(static_cast<int>(fd), flows_[fd]);
    }
  }
  // Flows older than the limit fail; for once in a while.
  void expire(uint64_t limit_ns) {
    const uint64_t now = now_ns();
    for_each([&](int fd, Flow& flow) {
      if (flow.first_ns == 0 && now - flow.start_ns > limit_ns) fail(fd, "timeout");
    });
  }

 private:
  void fail(int fd, const std::string& why) {
    Flow flow = std::exchange(at(fd), Flow{});
    close(fd);
    handler_.on_failed(flow, why);
  }

  bool say(int fd, std::string_view bytes) {
    return send(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  }

  // Says the first thing of a connection; false: it is not connected yet, or failed.
  bool greet(int fd) {
    Flow& flow = at(fd);
    const bool is_direct = proxy_port_ == 0;
    if (!say(fd, is_direct ? std::string_view(flow.request) : std::string_view("\x05\x01\x00", 3))) {
      if (errno != EAGAIN && errno != ENOTCONN) fail(fd, std::string("connect: ") + strerror(errno));
      return false;
    }
    if (is_direct) on_requested(fd, flow);
    if (!is_direct) flow.step = Flow::Step::method;
    return true;
  }

  void on_requested(int fd, Flow& flow) {
    flow.reply_ns = now_ns();
    flow.step = Flow::Step::first;
    if (flow.is_half_closed) shutdown(fd, SHUT_WR);
  }

  void watch(int fd, uint32_t events) {
    epoll_event e{.events = events, .data = {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &e);
  }

  void on_event(int fd, uint32_t events) {
    switch (at(fd).step) {
      case Flow::Step::closed:
        return;
      case Flow::Step::connecting: {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) return fail(fd, std::string("connect: ") + strerror(error));
        if (greet(fd)) watch(fd, EPOLLIN);
        return;
      }
      case Flow::Step::method:
      case Flow::Step::reply:
        return on_handshake(fd);
      case Flow::Step::first:
      case Flow::Step::body:
        return on_answer(fd);
      case Flow::Step::sending:
        if (events & EPOLLOUT) return on_writable(fd);
        return fail(fd, "closed");
    }
  }

  void on_handshake(int fd) {
    char bytes[300];
    const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return fail(fd, n == 0 ? "closed in the handshake" : "reset in the handshake");
    Flow& flow = at(fd);
    flow.in.append(bytes, static_cast<std::size_t>(n));
    const auto byte = [&](std::size_t i) { return static_cast<uint8_t>(flow.in[i]); };
    if (flow.step == Flow::Step::method) {
      if (flow.in.size() < 2) return;
      if (byte(0) != 5 || byte(1) != 0) return fail(fd, "SOCKS5 method");
      flow.in.clear();
      flow.step = Flow::Step::reply;
      if (!say(fd, connect_request())) fail(fd, "reset in the handshake");
      return;
    }
    if (flow.in.size() < 5) return;
    const std::size_t address_bytes = byte(3) == 1 ? 4u : byte(3) == 4 ? 16u : 1u + byte(4);
    if (flow.in.size() < 4 + address_bytes + 2) return;
    if (byte(1) != 0) return fail(fd, "SOCKS5 reply " + std::to_string(byte(1)));
    if (!say(fd, flow.request)) return fail(fd, "reset after the reply");
    on_requested(fd, flow);
  }

  std::string connect_request() {
    std::string r("\x05\x01\x00", 3);
    if (name_.empty()) {
      r += std::string("\x01\x7f\x00\x00\x01", 5);
    } else {
      std::string name = name_;
      const std::size_t place = name.find('%');
      if (place != std::string::npos) name.replace(place, 1, std::to_string(number_++));
      r += '\x03';
      r += static_cast<char>(name.size());
      r += name;
    }
    r += static_cast<char>(target_port_ >> 8);
    r += static_cast<char>(target_port_ & 0xff);
    return r;
  }

  void on_answer(int fd) {
    // With MSG_TRUNC, TCP drops what it would have copied (tcp(7)).
    const ssize_t n = recv(fd, buffer_.data(), buffer_.size(), MSG_TRUNC);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return fail(fd, n == 0 ? "closed" : "reset");
    Flow& flow = at(fd);
    flow.moved_bytes += static_cast<uint64_t>(n);
    if (flow.step == Flow::Step::first) {
      flow.first_ns = now_ns();
      flow.step = Flow::Step::body;
      if (flow.is_upload) {
        flow.moved_bytes = 0;
        flow.step = Flow::Step::sending;
        watch(fd, EPOLLOUT);
      }
      handler_.on_first(flow);
    }
    if (flow.is_stalled && flow.moved_bytes >= stall_after_bytes) {
      epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    } else if (flow.step == Flow::Step::body && flow.moved_bytes >= flow.want_bytes) {
      handler_.on_done(fd, flow);
    }
  }

  void on_writable(int fd) {
    const ssize_t n = send(fd, buffer_.data(), kWriteBytes, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return fail(fd, "reset");
    at(fd).moved_bytes += static_cast<uint64_t>(n);
  }

  FlowHandler& handler_;
  int proxy_port_, target_port_;
  std::string name_;
  int epoll_;
  uint64_t number_ = 0;
  std::string buffer_;
  std::vector<Flow> flows_;
};

}  // namespace tmesh::bench
