#include "cpp/session/metadata_items.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <utility>

#include "cpp/base/file.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::session {
namespace {

// Anything else could keep the caller waiting for ever (a pipe nobody writes to).
bool is_regular_file(const std::string& path) {
  struct stat st = {};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

bool is_value(const std::string& text) {
  return text.size() <= TMESH_METADATA_VALUE_MAX_BYTES && utf8_valid(text) &&
         text.find('\0') == std::string::npos;
}

}  // namespace

std::vector<CollectedItem> collect_metadata(std::span<const MetadataSource> sources) {
  std::vector<CollectedItem> collected;
  for (const auto& item : sources) {
    // A server refuses the whole hello for such a name.
    if (!tmesh_metadata_name_is_valid(item.name.c_str()) ||
        tmesh_metadata_name_is_sensitive(item.name.c_str())) {
      continue;
    }
    CollectedItem out;
    out.name = item.name;
    if (!item.path.empty()) {
      out.source = "file";
      out.is_failed = true;
      if (is_regular_file(item.path)) {
        auto text = read_file(item.path, TMESH_METADATA_VALUE_MAX_BYTES);
        out.is_failed = !text;
        if (text) out.value = std::move(*text);
      }
    } else {
      out.source = "env";
      const char* value = std::getenv(item.variable.c_str());
      out.is_failed = value == nullptr;
      if (value != nullptr) out.value = value;
    }
    if (!is_value(out.value)) {
      out.is_failed = true;
      out.value.clear();
    }
    collected.push_back(std::move(out));
  }
  return collected;
}

}  // namespace tmesh::session
