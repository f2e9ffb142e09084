#include "cpp/net/stdio.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/chunkq.h"
#include "cpp/net/descriptor.hpp"
#include "cpp/net/tcp.hpp"

namespace tmesh::net {
namespace {

constexpr std::size_t kBuffer_bytes = 65'536;
// They call read and write; the C library wants a little more than that.
constexpr std::size_t kStack_bytes = 262'144;
constexpr std::size_t kNotesMax_bytes = 16;

enum Note : char { kInputFailed = 'i', kOutputComplete = 'O', kOutputFailed = 'o' };

// What a thread works on; it owns it.
struct Job {
  Descriptor file;    // standard input or output
  Descriptor socket;  // towards the loop
  Descriptor notes;   // how it ended
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kBuffer_bytes);
};

void tell(const Job& job, Note note) {
  (void)::send(job.notes.get(), &note, 1, MSG_NOSIGNAL);
}

// Whether to try again. Somebody else may have made the file non-blocking.
bool is_retry(int fd, short event) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
  pollfd wait{fd, event, 0};
  return ::poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

bool send_all(int fd, const uint8_t* data, std::size_t n) {
  while (n > 0) {
    const ssize_t sent = ::send(fd, data, n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    data += sent;
    n -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool write_all(int fd, const uint8_t* data, std::size_t n) {
  while (n > 0) {
    const ssize_t written = ::write(fd, data, n);
    if (written < 0 && is_retry(fd, POLLOUT)) continue;
    if (written < 0) return false;
    data += written;
    n -= static_cast<std::size_t>(written);
  }
  return true;
}

void read_input(Job& job) {
  while (true) {
    const ssize_t n = ::read(job.file.get(), job.buffer.data(), job.buffer.size());
    if (n < 0 && is_retry(job.file.get(), POLLIN)) continue;
    if (n < 0) return tell(job, kInputFailed);
    if (n == 0) break;
    if (!send_all(job.socket.get(), job.buffer.data(), static_cast<std::size_t>(n))) return;
  }
  (void)::shutdown(job.socket.get(), SHUT_WR);
}

void write_output(Job& job) {
  while (true) {
    const ssize_t n = ::recv(job.socket.get(), job.buffer.data(), job.buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    // A reset of the other side comes behind its bytes, and is known there.
    if (n <= 0) break;
    if (!write_all(job.file.get(), job.buffer.data(), static_cast<std::size_t>(n)))
      return tell(job, kOutputFailed);
  }
  // A file system may report only here that it is full.
  const bool is_complete = ::close(job.file.release()) == 0 || errno == EINTR;
  tell(job, is_complete ? kOutputComplete : kOutputFailed);
}

template <void (*kRun)(Job&)>
void* run(void* argument) {
  const std::unique_ptr<Job> job(static_cast<Job*>(argument));
  kRun(*job);
  return nullptr;
}

// Takes no signal: those are the loop's business.
bool start(void* (*body)(void*), std::unique_ptr<Job> job) {
  sigset_t all;
  sigset_t before;
  pthread_attr_t attributes;
  pthread_t thread{};
  sigfillset(&all);
  if (pthread_attr_init(&attributes) != 0) return false;
  (void)pthread_attr_setstacksize(&attributes, kStack_bytes);
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_started = pthread_create(&thread, &attributes, body, job.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  (void)pthread_attr_destroy(&attributes);
  if (is_started) (void)job.release();
  return is_started;
}

Descriptor copy_of(int fd) {
  return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

// From here on nothing that is printed can get into the output.
bool redirect() {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null.get() < 0 || ::dup2(null.get(), STDIN_FILENO) < 0) return false;
  return ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 || ::dup2(null.get(), STDOUT_FILENO) >= 0;
}

}  // namespace

struct Stdio::Impl final : TcpHandler {
  void on_readable() override {
    char notes[kNotesMax_bytes];
    const std::size_t n = tmesh_chunkq_read(notes_.in(), notes, sizeof notes);
    for (std::size_t i = 0; i < n; ++i) {
      if (notes[i] == kInputFailed) {
        events.on_input_failed();
      } else {
        events.on_output_over(notes[i] == kOutputComplete);
      }
    }
  }
  void on_eof() override {}
  void on_written(std::size_t, bool) override {}
  void on_broken(tmesh_status) override {}

  StdioEvents events;
  Tcp notes_;
  Descriptor socket;
};

Stdio::Stdio(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stdio::~Stdio() = default;

int Stdio::take_socket() {
  return impl_->socket.release();
}

Result<std::unique_ptr<Stdio>> Stdio::open(Loop& loop, const StdioEvents& events) {
  auto input = std::make_unique<Job>();
  auto output = std::make_unique<Job>();
  auto impl = std::make_unique<Impl>();
  input->file = copy_of(STDIN_FILENO);
  output->file = copy_of(STDOUT_FILENO);
  if (input->file.get() < 0 || output->file.get() < 0)
    return fail(TMESH_E_IO, "standard input or output is not open");
  int data[2];
  int notes[2];
  if (!redirect() || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, data) != 0)
    return fail(TMESH_E_NO_MEMORY, "no descriptor is left");
  impl->socket = Descriptor(data[0]);
  input->socket = Descriptor(data[1]);
  output->socket = copy_of(data[1]);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, notes) != 0)
    return fail(TMESH_E_NO_MEMORY, "no descriptor is left");
  input->notes = Descriptor(notes[1]);
  output->notes = copy_of(notes[1]);
  auto tcp = Tcp::open(loop, notes[0], *impl);
  if (!tcp) return std::unexpected(tcp.error());
  if (output->socket.get() < 0 || output->notes.get() < 0)
    return fail(TMESH_E_NO_MEMORY, "no descriptor is left");
  impl->events = events;
  impl->notes_ = std::move(*tcp);
  impl->notes_.read(kNotesMax_bytes);
  if (!start(&run<&read_input>, std::move(input)) || !start(&run<&write_output>, std::move(output)))
    return fail(TMESH_E_NO_MEMORY, "no thread for standard input and output");
  return std::unique_ptr<Stdio>(new Stdio(std::move(impl)));
}

}  // namespace tmesh::net
