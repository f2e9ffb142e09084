#include "cpp/base/instance_id.hpp"

#include <sys/stat.h>

#include <cstddef>

#include "cpp/base/file.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/random.hpp"

namespace tmesh {
namespace {

constexpr std::size_t kIdBytesMax = 128;  // the column that stores it (STORAGE 4.2)

}  // namespace

InstanceId load_or_create_instance_id(const std::string& path, std::string_view prefix) {
  const Result<std::string> text = read_file(path, kIdBytesMax + 16);
  if (text) {
    const std::string_view id = trim(*text);
    if (!id.empty() && id.size() <= kIdBytesMax && !has_space_or_control(id)) {
      return {std::string(id), true};
    }
  }
  InstanceId made;
  made.value = std::string(prefix) + random_hex(16);
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) ::mkdir(path.substr(0, slash).c_str(), 0700);
  made.is_kept = write_file(path, made.value + "\n", 0600).has_value();
  return made;
}

}  // namespace tmesh
