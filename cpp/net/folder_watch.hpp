// One folder whose entries are watched for changes.
//
// A folder and not a file: editors and installers replace a file by renaming another one
// over it, and a watch of the file would go with the old one. Tells only that something
// happened, often several times for one change; what changed is for the owner to find out.
// Holds one handle of the loop (on Linux all of a process share one inotify descriptor)
// and does not keep the loop running. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"

namespace tmesh::net {

class FolderWatch {
 public:
  // The name of the entry that was made, written, renamed or removed, without the folder;
  // empty when the system does not tell. When the folder itself goes, its own name comes,
  // and nothing any more after that.
  using Changed = Delegate<void(std::string_view name)>;

  // Blocks for a look-up of the path. IO: no such folder, no permission, or the system
  // watches enough already.
  static Result<std::unique_ptr<FolderWatch>> open(Loop& loop, const std::string& folder, Changed changed);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

 private:
  struct Impl;
  explicit FolderWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tmesh::net
