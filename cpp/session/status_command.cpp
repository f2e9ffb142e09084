#include "cpp/session/status_command.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "cpp/base/exit_code.hpp"
#include "cpp/net/unix_socket.hpp"
#include "cpp/session/status_text.hpp"

namespace tmesh::session {
namespace {

// Some documents longer than a report may be (status_report.hpp) are none.
constexpr std::size_t kDocumentMax_bytes = std::size_t{8} << 20;

enum class Asked { answered, nobody, forbidden, broken };

struct Answer {
  Asked outcome = Asked::nobody;
  std::string document;
};

// A program of another user must not pass for ours: its folder is not always only ours. Root also
// believes the service of another user, where only root decides who listens (`is_roots_place`).
bool is_trusted(int fd, uid_t user, bool is_roots_place) {
  const auto peer = net::peer_user(fd);
  return peer && (*peer == user || *peer == 0 || (user == 0 && is_roots_place));
}

using Clock = std::chrono::steady_clock;

// How long a call may wait for the other side. False: not any more.
bool set_patience(int fd, int option, Clock::time_point deadline) {
  const auto left_us = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count();
  if (left_us <= 0) return false;  // which would mean for ever
  const timeval patience{static_cast<time_t>(left_us / 1'000'000),
                         static_cast<suseconds_t>(left_us % 1'000'000)};
  return ::setsockopt(fd, SOL_SOCKET, option, &patience, sizeof patience) == 0;
}

Answer read_from(int fd, Clock::time_point deadline) {
  Answer answer;
  char buffer[65536];
  while (answer.document.size() <= kDocumentMax_bytes && set_patience(fd, SO_RCVTIMEO, deadline)) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      // The end without a word: it does not answer us, or has too much to do.
      answer.outcome = n == 0 && !answer.document.empty() ? Asked::answered : Asked::broken;
      return answer;
    }
    answer.document.append(buffer, static_cast<std::size_t>(n));
  }
  answer.outcome = Asked::broken;
  return answer;
}

Answer ask(const std::string& path, uid_t user, bool is_roots_place, uint64_t patience_us) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {Asked::broken, {}};
  const auto deadline = Clock::now() + std::chrono::microseconds(patience_us);
  (void)set_patience(fd, SO_SNDTIMEO, deadline);  // connect() waits for it
  Answer answer;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const bool is_forbidden = errno == EACCES || errno == EPERM;
    const bool is_busy = errno == EAGAIN || errno == EWOULDBLOCK;
    answer.outcome = is_forbidden ? Asked::forbidden : is_busy ? Asked::broken : Asked::nobody;
  } else if (!is_trusted(fd, user, is_roots_place)) {
    answer.outcome = Asked::forbidden;
  } else {
    answer = read_from(fd, deadline);
  }
  ::close(fd);
  return answer;
}

class Command {
 public:
  explicit Command(const StatusRequest& request) : request_(request) {
    sockets_ = request.socket.empty() ? status_sockets_to_ask(request.around, request.role)
                                      : std::vector<std::string>{request.socket};
  }

  int run() {
    if (!request_.is_watch) return round() ? kExitOk : kExitFailure;
    const bool clears = !request_.is_json && ::isatty(::fileno(request_.out)) == 1;
    for (unsigned n = 1;; n++) {
      if (clears) std::fputs("\033[H\033[2J", request_.out);
      (void)round();
      if (!request_.is_json && !clears) std::fputs("\n", request_.out);
      if (std::fflush(request_.out) != 0) return kExitFailure;
      if (n == request_.watch_rounds_max) return kExitOk;
      if (!rest()) return kExitFailure;
    }
  }

 private:
  // Until the next round. False: nobody is left to read what it would print.
  bool rest() {
    pollfd reader{::fileno(request_.out), 0, 0};  // -1, which poll() leaves out: a stream in memory
    const int found = ::poll(&reader, 1, static_cast<int>(request_.watch_every_us / 1000));
    return found <= 0 || (reader.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
  }

  // Whether anybody answered.
  bool round() {
    unsigned answers_count = 0;
    const char* forbidden = nullptr;
    const char* broken = nullptr;
    for (const std::string& socket : sockets_) {
      const Answer answer = ask(socket, request_.around.user, is_roots_place(socket), request_.patience_us);
      if (answer.outcome == Asked::forbidden) forbidden = socket.c_str();
      if (answer.outcome == Asked::broken) broken = socket.c_str();
      if (answer.outcome != Asked::answered) continue;
      if (!print(answer.document, answers_count > 0)) {
        broken = socket.c_str();
      } else {
        answers_count++;
      }
    }
    if (answers_count > 0) return true;
    if (broken != nullptr) {
      (void)std::fprintf(request_.err, "%s: the program behind it gives no answer\n", broken);
    } else if (forbidden != nullptr) {
      (void)std::fprintf(request_.err, "%s: belongs to another user; ask as that user or as root\n",
                         forbidden);
    } else {
      complain_of_nobody();
    }
    return false;
  }

  // A place that the configuration names is one, too.
  bool is_roots_place(const std::string& socket) const {
    return !request_.socket.empty() || socket.starts_with(request_.around.run + "/tunnelmesh/");
  }

  bool print(const std::string& document, bool is_further) {
    const Result<std::string> text = status_text(document);
    if (!text) return false;
    if (request_.is_json) {
      std::fwrite(document.data(), 1, document.size(), request_.out);
      return true;
    }
    if (is_further) std::fputs("\n", request_.out);
    std::fwrite(text->data(), 1, text->size(), request_.out);
    return true;
  }

  void complain_of_nobody() {
    const std::string role(request_.role);
    if (!request_.socket.empty()) {
      (void)std::fprintf(request_.err, "no tunnelmesh-%s runs with the status socket %s\n", role.c_str(),
                         request_.socket.c_str());
      return;
    }
    (void)std::fprintf(request_.err, "no tunnelmesh-%s runs; looked for a status socket in", role.c_str());
    std::string last;
    for (const std::string& socket : sockets_) {
      const std::string folder = socket.substr(0, socket.rfind('/'));
      if (folder != last) (void)std::fprintf(request_.err, "%s %s", last.empty() ? "" : ",", folder.c_str());
      last = folder;
    }
    std::fputs("\n", request_.err);
  }

  const StatusRequest& request_;
  std::vector<std::string> sockets_;
};

}  // namespace

int run_status(const StatusRequest& request) {
  return Command(request).run();
}

}  // namespace tmesh::session
