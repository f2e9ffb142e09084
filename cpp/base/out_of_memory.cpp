#include "cpp/base/out_of_memory.hpp"

#include <unistd.h>

#include <atomic>
#include <new>

#include "cpp/base/exit_code.hpp"

namespace tmesh {
namespace {

std::atomic_flag is_ending;

[[noreturn]] void end_process() {
  // Another thread is at it: one line is enough.
  while (is_ending.test_and_set()) pause();
  constexpr char kLine[] = "out of memory\n";
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, kLine, sizeof kLine - 1);
  _exit(kExitFailure);
}

}  // namespace

void exit_when_out_of_memory() {
  std::set_new_handler(&end_process);
}

}  // namespace tmesh
