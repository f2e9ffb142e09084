// Standard input and output of the program as one socket, for a splice.
//
// They may be pipes, terminals, files or /dev/null, and they are shared with other
// programs: made non-blocking here they would be so there too, a file cannot be waited
// for, and a terminal blocks when it likes. So two threads read and write them with
// blocking calls and pass the bytes on through a socket pair; nothing else of the program
// is known to them. The end of input is a half-close of the socket; a half-close from the
// other side closes standard output, so that its reader sees the end while input goes on.
//
// From open() on, file descriptor 1 is standard error and 0 is /dev/null: whatever the
// program prints, nothing but payload gets into the output. Once per process. The threads
// are not waited for: one that sits in a read ends with the process.
#pragma once

#include <memory>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"

namespace tmesh::net {

struct StdioEvents {
  // Reading failed: what came before is not the whole input. Nobody half-closes the socket.
  Delegate<void()> on_input_failed;
  // The socket was half-closed and every byte is written and output closed; or
  // (is_complete false) output takes no more. Once.
  Delegate<void(bool is_complete)> on_output_over;
};

class Stdio {
 public:
  // IO: input or output is not open; NO_MEMORY.
  static Result<std::unique_ptr<Stdio>> open(Loop& loop, const StdioEvents& events);
  // No callback afterwards.
  ~Stdio();
  Stdio(const Stdio&) = delete;
  Stdio& operator=(const Stdio&) = delete;

  // The socket, once; the caller owns it.
  int take_socket();

 private:
  struct Impl;
  explicit Stdio(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tmesh::net
