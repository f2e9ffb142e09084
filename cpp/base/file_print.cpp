#include "cpp/base/file_print.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string_view>

#include "cpp/base/file.hpp"
#include "cpp/base/keyed_hash.hpp"
#include "cpp/base/redact.hpp"

namespace tmesh {
namespace {

constexpr int kLinksMax = 16;  // a loop of links ends here; the kernel follows 40

// "/a" for "/a/b", "." for "b".
std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void add_names(std::string_view path, std::set<std::string>& names) {
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != "." && part != "..") names.emplace(part);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
}

// Where the link leads, or nothing when the path is none.
std::string link_target(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
  return n <= 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(n));
}

void add_folder(const std::string& path, FilePlaces& places) {
  struct stat st = {};
  FilePlaces::Identity identity;
  if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
    identity = {static_cast<uint64_t>(st.st_dev), static_cast<uint64_t>(st.st_ino)};
  }
  places.folders[path] = identity;
}

// What a link in the folder makes of its target.
std::string resolved(const std::string& folder, const std::string& target) {
  return target.front() == '/' ? target : folder + "/" + target;
}

}  // namespace

uint64_t print_of(std::string_view content) {
  static const HashKey key = HashKey::random();
  const uint64_t hash = keyed_hash(key, content);
  return hash == kNoPrint ? ~kNoPrint : hash;
}

FilePrints print_files(std::span<const std::string> paths) {
  FilePrints prints;
  for (const std::string& path : paths) {
    prints[path] = kNoPrint;
    struct stat st = {};
    if (::stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    Result<std::string> text = read_file(path, kPrintedBytesMax, Pipes::refuse);
    if (!text) continue;
    prints[path] = print_of(*text);
    secure_wipe(*text);
  }
  return prints;
}

FilePlaces find_places(std::span<const std::string> paths) {
  FilePlaces places;
  for (const std::string& given : paths) {
    std::string path = given;
    for (int i = 0; i < kLinksMax; i++) {
      const std::string folder = folder_of(path);
      add_folder(folder, places);
      add_names(path.substr(path.rfind('/') + 1), places.names);
      // The folder may itself be a link that is swapped.
      const std::string folder_target = link_target(folder);
      if (!folder_target.empty()) {
        add_folder(folder_of(folder), places);
        add_names(folder.substr(folder.rfind('/') + 1), places.names);
        add_names(folder_target, places.names);
      }
      const std::string target = link_target(path);
      if (target.empty()) break;
      add_names(target, places.names);
      path = resolved(folder, target);
    }
  }
  return places;
}

}  // namespace tmesh
