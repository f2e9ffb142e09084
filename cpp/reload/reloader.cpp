#include "cpp/reload/reloader.hpp"

namespace tmesh::reload {

FilePrints joined(FilePrints running, const FilePrints& fresh) {
  for (const auto& [file, print] : fresh) running[file] = print;
  return running;
}

}  // namespace tmesh::reload
