// What the program logs while a test looks.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cpp/base/log.hpp"

namespace tmesh::test {

// Lines logged while it lives.
class CapturedLog {
 public:
  CapturedLog() : file_(std::tmpfile()) {
    if (file_ == nullptr) std::abort();
    log::set_fd(fileno(file_));
  }
  ~CapturedLog() {
    log::set_fd(2);
    std::fclose(file_);
  }
  std::size_t count(std::string_view what) const {
    std::string text(1 << 20, '\0');
    const ssize_t n = ::pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at++) found++;
    return found;
  }

 private:
  std::FILE* file_;
};

}  // namespace tmesh::test
