#include "cpp/net/folder_watch.hpp"

#include "core/loop/loop.h"
#include "cpp/net/handle.hpp"

namespace tmesh::net {

struct FolderWatch::Impl {
  Changed changed;
  Handle<uv_fs_event_t> handle;
};

Result<std::unique_ptr<FolderWatch>> FolderWatch::open(Loop& loop, const std::string& folder,
                                                       Changed changed) {
  auto impl = std::make_unique<Impl>();
  impl->changed = changed;
  auto deliver = [](uv_fs_event_t* uv, const char* name, int, int) {
    auto* self = Handle<uv_fs_event_t>::owner_of<Impl>(uv);
    if (self != nullptr) self->changed(name == nullptr ? std::string_view() : std::string_view(name));
  };
  int rc = impl->handle.open(&loop.raw()->uv, uv_fs_event_init);
  if (rc == 0) {
    impl->handle.set_owner(impl.get());
    rc = uv_fs_event_start(impl->handle.get(), deliver, folder.c_str(), 0);
  }
  if (rc != 0) return fail(TMESH_E_IO, "the folder cannot be watched");
  uv_unref(reinterpret_cast<uv_handle_t*>(impl->handle.get()));
  return std::unique_ptr<FolderWatch>(new FolderWatch(std::move(impl)));
}

FolderWatch::FolderWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FolderWatch::~FolderWatch() = default;

}  // namespace tmesh::net
