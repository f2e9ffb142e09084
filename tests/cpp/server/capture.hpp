// A FILE that a test can read back.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tmesh::test {

class Capture {
 public:
  Capture() : file_(::open_memstream(&text_, &size_bytes_)) {}
  ~Capture() {
    std::fclose(file_);
    std::free(text_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return {text_, size_bytes_};
  }

 private:
  char* text_ = nullptr;
  size_t size_bytes_ = 0;
  std::FILE* file_;
};

}  // namespace tmesh::test
