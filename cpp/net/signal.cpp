#include "cpp/net/signal.hpp"

#include <array>
#include <csignal>

#include "core/loop/loop.h"
#include "cpp/net/handle.hpp"

namespace tmesh::net {

struct Signals::Impl {
  Delegate<void(int)> on_signal;
  std::array<Handle<uv_signal_t>, 3> handles;
};

Result<std::unique_ptr<Signals>> Signals::open(Loop& loop, Delegate<void(int)> on_signal) {
  constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  auto impl = std::make_unique<Impl>();
  impl->on_signal = on_signal;
  auto deliver = [](uv_signal_t* uv, int number) {
    if (auto* self = Handle<uv_signal_t>::owner_of<Impl>(uv)) self->on_signal(number);
  };
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    Handle<uv_signal_t>& handle = impl->handles[i];
    int rc = handle.open(&loop.raw()->uv, uv_signal_init);
    if (rc == 0) {
      handle.set_owner(impl.get());
      rc = uv_signal_start(handle.get(), deliver, kSignals[i]);
    }
    if (rc != 0) return fail(TMESH_E_IO, "cannot watch for signals");
    uv_unref(reinterpret_cast<uv_handle_t*>(handle.get()));
  }
  return std::unique_ptr<Signals>(new Signals(std::move(impl)));
}

Signals::Signals(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Signals::~Signals() = default;

}  // namespace tmesh::net
