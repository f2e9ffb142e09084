// A long line on one machine: relays connections with a one-way delay per direction, for
// kernels without netem.
//
//   bench_delay --to PORT --ms D [--bytes-per-s R] [--queue-bytes Q] [--buffer-bytes B]
//
// Prints its port. What is read at t is written at t + D; with a rate, bytes leave the
// queue at that rate first. The queue (64 MiB, or Q) must hold rate x delay, else it
// limits the throughput; a small one keeps the sockets' buffers small, too, so that the
// sender feels the line and not our memory. The TCP handshake itself is not delayed.

#include <deque>
#include <memory>
#include <set>

#include "tests/bench/bench_net.hpp"

namespace tmesh::bench {
namespace {

constexpr std::size_t kReadBytes = 256u << 10;
// With a rate, pieces are small, or the line would be bursty.
constexpr std::size_t kPacedReadBytes = 8u << 10;
constexpr std::size_t kQueueBytes = 64u << 20;
constexpr std::size_t kSmallQueueBytes = 1u << 20;
constexpr int kSmallBufferBytes = 64 << 10;

struct Piece {
  uint64_t due_ns;
  std::string bytes;
  std::size_t sent = 0;
};

// One direction of a connection.
struct Half {
  int from = -1, to = -1;
  std::deque<Piece> queue;
  std::size_t queued_bytes = 0;
  uint64_t line_free_ns = 0;  // when the paced line has sent everything so far
  bool is_ended = false;      // end of file was read: an empty piece stands for it
  bool is_shut = false;
  bool is_blocked = false;  // `to` takes no more
};

struct Line {
  Half halves[2];
};

class Delay {
 public:
  explicit Delay(Options& o)
      : to_port_(o.integer("--to", 0)),
        delay_ns_(static_cast<uint64_t>(o.number("--ms", 0) * 1e6)),
        rate_(o.number("--bytes-per-s", 0)),
        queue_bytes_(static_cast<std::size_t>(o.number("--queue-bytes", kQueueBytes))),
        buffer_bytes_(o.integer("--buffer-bytes",
                                rate_ > 0 || queue_bytes_ < kSmallQueueBytes ? kSmallBufferBytes : 0)),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        buffer_(kReadBytes) {
    o.end();
    listener_ = listen_and_tell(buffer_bytes_);
    watch(EPOLL_CTL_ADD, listener_, EPOLLIN);
  }

  [[noreturn]] void run() {
    epoll_event events[64];
    for (;;) {
      timespec wait{}, *limit = nullptr;
      if (!due_.empty()) {
        const uint64_t now = now_ns(), at = due_.begin()->first;
        const uint64_t left = at > now ? at - now : 0;
        wait = {.tv_sec = static_cast<time_t>(left / 1'000'000'000u),
                .tv_nsec = static_cast<long>(left % 1'000'000'000u)};
        limit = &wait;
      }
      const int n = epoll_pwait2(epoll_, events, 64, limit, nullptr);
      for (int i = 0; i < n; i++) {
        const int fd = events[i].data.fd;
        if (fd == listener_) {
          accept_all();
          continue;
        }
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_some(fd);
        if (events[i].events & EPOLLOUT) write_due(reverse(fd));
      }
      const uint64_t now = now_ns();
      while (!due_.empty() && due_.begin()->first <= now) {
        const int fd = due_.begin()->second;
        due_.erase(due_.begin());
        write_due(half(fd));
      }
    }
  }

 private:
  struct Slot {
    std::shared_ptr<Line> line;
    int index = 0;  // of the half that reads from this socket
  };

  Half* half(int fd) {
    const auto i = static_cast<std::size_t>(fd);
    return i < slots_.size() && slots_[i].line ? &slots_[i].line->halves[slots_[i].index] : nullptr;
  }
  Half* reverse(int fd) {
    const auto i = static_cast<std::size_t>(fd);
    return i < slots_.size() && slots_[i].line ? &slots_[i].line->halves[1 - slots_[i].index] : nullptr;
  }
  void watch(int operation, int fd, uint32_t events) {
    epoll_event e{.events = events, .data = {.fd = fd}};
    epoll_ctl(epoll_, operation, fd, &e);
  }
  // Reads while the queue has room, waits for room in the socket while something is due.
  void update(int fd) {
    Half* in = half(fd);
    if (in == nullptr) return;
    const bool is_reading = !in->is_ended && in->queued_bytes < queue_bytes_;
    watch(EPOLL_CTL_MOD, fd, (is_reading ? EPOLLIN : 0u) | (reverse(fd)->is_blocked ? EPOLLOUT : 0u));
  }

  void accept_all() {
    for (;;) {
      const int near = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (near < 0) return;
      const int far = start_connect(to_port_, buffer_bytes_);
      if (far < 0) {
        close(near);
        continue;
      }
      no_delay(near);
      const auto most = static_cast<std::size_t>(std::max(near, far));
      if (most >= slots_.size()) slots_.resize(most * 2 + 64);
      auto line = std::make_shared<Line>();
      line->halves[0].from = line->halves[1].to = near;
      line->halves[0].to = line->halves[1].from = far;
      slots_[static_cast<std::size_t>(near)] = {line, 0};
      slots_[static_cast<std::size_t>(far)] = {line, 1};
      watch(EPOLL_CTL_ADD, near, EPOLLIN);
      watch(EPOLL_CTL_ADD, far, EPOLLIN);
    }
  }

  void drop(int fd) {
    Half* h = half(fd);
    if (h == nullptr) return;
    for (int each : {h->to, h->from}) {
      slots_[static_cast<std::size_t>(each)] = {};
      close(each);
    }
  }

  void read_some(int fd) {
    Half* h = half(fd);
    if (h == nullptr || h->is_ended || h->queued_bytes >= queue_bytes_) return;
    const ssize_t n = recv(fd, buffer_.data(), rate_ > 0 ? kPacedReadBytes : buffer_.size(), 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return drop(fd);
    const uint64_t now = now_ns();
    uint64_t leaves_ns = now;
    if (rate_ > 0) {
      h->line_free_ns =
          std::max(h->line_free_ns, now) + static_cast<uint64_t>(static_cast<double>(n) / rate_ * 1e9);
      leaves_ns = h->line_free_ns;
    }
    h->is_ended = n == 0;
    if (h->queue.empty()) due_.insert({leaves_ns + delay_ns_, fd});
    h->queue.push_back({leaves_ns + delay_ns_, std::string(buffer_.data(), static_cast<std::size_t>(n))});
    h->queued_bytes += static_cast<std::size_t>(n);
    update(fd);
  }

  void write_due(Half* h) {
    if (h == nullptr || h->is_shut) return;
    const uint64_t now = now_ns();
    h->is_blocked = false;
    while (!h->queue.empty() && h->queue.front().due_ns <= now && !h->is_blocked) {
      Piece& piece = h->queue.front();
      if (piece.bytes.empty()) {
        h->is_shut = true;
        shutdown(h->to, SHUT_WR);
      } else {
        const ssize_t n = send(h->to, piece.bytes.data() + piece.sent, piece.bytes.size() - piece.sent, 0);
        if (n < 0 && errno != EAGAIN) return drop(h->from);
        h->is_blocked = n < 0;
        piece.sent += n > 0 ? static_cast<std::size_t>(n) : 0;
        h->queued_bytes -= n > 0 ? static_cast<std::size_t>(n) : 0;
      }
      if (piece.sent == piece.bytes.size()) h->queue.pop_front();
    }
    if (h->is_shut && reverse(h->from)->is_shut) return drop(h->from);
    if (!h->queue.empty() && !h->is_blocked) due_.insert({h->queue.front().due_ns, h->from});
    update(h->from);
    update(h->to);
  }

  int to_port_;
  uint64_t delay_ns_;
  double rate_;
  std::size_t queue_bytes_;
  int buffer_bytes_;
  int epoll_, listener_ = -1;
  std::vector<char> buffer_;
  std::vector<Slot> slots_;                 // by socket
  std::set<std::pair<uint64_t, int>> due_;  // when the first piece read from that socket leaves
};

}  // namespace
}  // namespace tmesh::bench

int main(int argc, char** argv) {
  tmesh::bench::prepare_process();
  tmesh::bench::Options options(argc, argv, 1);
  tmesh::bench::Delay delay(options);
  delay.run();
}
