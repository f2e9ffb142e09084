// Fuzzing of the configuration: a text, read as a program's file for each purpose.
// Every problem is one printable line that names its line or its key; what is complete
// enough to run is so for the other purposes too; the same text says the same twice; and
// printing opens no file but the configuration itself. (Reading and checking look for
// token and certificate files: here they find none, so that nothing outside is touched.)
//
// Input: one letter for the program (s, a or c), then the text. It lives in memory under a name that the
// loader opens like any file.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string>
#include <string_view>

#include "core/proto/json.h"
#include "cpp/config/load.hpp"
#include "cpp/config/print.hpp"
#include "fuzz/fuzz.h"

namespace {

using tmesh::config::Loaded;
using tmesh::config::Origin;
using tmesh::config::Problem;
using tmesh::config::Problems;
using tmesh::config::Purpose;
using tmesh::config::Role;
using tmesh::config::Source;

constexpr size_t kInputBytesMax = 16384;

// While a configuration is loaded: the one name that may be opened, and whether asking
// for another is a fault or only finds nothing.
const char* only_name = nullptr;
bool may_look_for_others = false;

bool is_allowed(const char* name) {
  if (only_name == nullptr || std::strcmp(name, only_name) == 0) return true;
  FUZZ_CHECK(may_look_for_others);
  errno = ENOENT;
  return false;
}

}  // namespace

// The linker sends every call of these functions here (see fuzz/CMakeLists.txt).
extern "C" {
int __real_open(const char* name, int flags, ...);
int __real_openat(int folder, const char* name, int flags, ...);
int __real_stat(const char* name, struct stat* out);
int __real_lstat(const char* name, struct stat* out);
int __real_access(const char* name, int mode);
FILE* __real_fopen(const char* name, const char* mode);

int __wrap_open(const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return is_allowed(name) ? __real_open(name, flags, mode) : -1;
}

int __wrap_openat(int folder, const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return is_allowed(name) ? __real_openat(folder, name, flags, mode) : -1;
}

int __wrap_stat(const char* name, struct stat* out) {
  return is_allowed(name) ? __real_stat(name, out) : -1;
}

int __wrap_lstat(const char* name, struct stat* out) {
  return is_allowed(name) ? __real_lstat(name, out) : -1;
}

int __wrap_access(const char* name, int mode) {
  return is_allowed(name) ? __real_access(name, mode) : -1;
}

FILE* __wrap_fopen(const char* name, const char* mode) {
  return is_allowed(name) ? __real_fopen(name, mode) : nullptr;
}
}

namespace {

// The file in memory; written anew for every input.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("tmesh-fuzz-config", MFD_CLOEXEC)) {
    FUZZ_CHECK(fd_ >= 0);
    name_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  void set(const uint8_t* data, size_t size) {
    FUZZ_CHECK(::ftruncate(fd_, 0) == 0);
    FUZZ_CHECK(::pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size));
  }
  const std::string& name() const { return name_; }

 private:
  int fd_;
  std::string name_;
};

bool is_one_printable_line(std::string_view text) {
  for (const unsigned char c : text) {
    if (c < 0x20 || c == 0x7f) return false;
  }
  return true;
}

void check_problems(const Problems& problems, const std::string& file, size_t lines) {
  for (const Problem& p : problems.list()) {
    FUZZ_CHECK(!p.message.empty() && is_one_printable_line(p.text()));
    if (p.where.kind != Origin::Kind::file) continue;
    FUZZ_CHECK(p.where.name == file);
    // What is missing at the end is told for the line behind it.
    FUZZ_CHECK(p.where.line <= lines + 1);
    // A problem without a line is about a key that is missing.
    FUZZ_CHECK(p.where.line > 0 || !p.key.empty());
  }
}

void check_printed(const std::string& text) {
  FUZZ_CHECK(!text.empty() && text.back() == '\n');
  struct tmesh_json root;
  FUZZ_CHECK(tmesh_json_parse(&root, text.data(), text.size(), text.size()));
  FUZZ_CHECK(root.kind == TMESH_JSON_OBJECT);
}

template <class Config>
std::string all_text(const Loaded<Config>& loaded) {
  return loaded.problems.errors_text() + loaded.problems.warnings_text();
}

template <class Config>
Loaded<Config> guarded(Loaded<Config> (*load)(const Source&, Purpose), const Source& source,
                       Purpose purpose) {
  may_look_for_others = purpose != Purpose::print;
  only_name = source.file.c_str();
  auto loaded = load(source, purpose);
  only_name = nullptr;
  return loaded;
}

template <class Config>
void check_role(Loaded<Config> (*load)(const Source&, Purpose), Role role, const Source& source,
                size_t lines) {
  const auto printed = guarded(load, source, Purpose::print);
  check_problems(printed.problems, source.file, lines);
  FUZZ_CHECK(all_text(guarded(load, source, Purpose::print)) == all_text(printed));
  if (printed.ok()) {
    check_printed(print_config(printed.settings, role, false));
    check_printed(print_config(printed.settings, role, true));
  }
  const auto checked = guarded(load, source, Purpose::check);
  check_problems(checked.problems, source.file, lines);
  const auto runnable = guarded(load, source, Purpose::run);
  check_problems(runnable.problems, source.file, lines);
  FUZZ_CHECK(!runnable.ok() || checked.ok());
  FUZZ_CHECK(!checked.ok() || printed.ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile file;
  if (size == 0 || size > kInputBytesMax) return 0;
  const uint8_t program = data[0];
  data++;
  size--;
  file.set(data, size);
  Source source;
  source.file = file.name();
  size_t lines = 1;
  for (size_t i = 0; i < size; i++) {
    // YAML counts CR, LF and (in UTF-8) NEL, LS and PS; the last three have a byte >= 0x80.
    if (data[i] == '\n' || data[i] == '\r' || data[i] >= 0x80) lines++;
  }
  if (program == 's') check_role(&tmesh::config::load_server, tmesh::config::kServer, source, lines);
  if (program == 'a') check_role(&tmesh::config::load_agent, tmesh::config::kAgent, source, lines);
  if (program == 'c') check_role(&tmesh::config::load_client, tmesh::config::kClient, source, lines);
  return 0;
}
