// Ticket: the right to be called back. Every asynchronous operation returns one.
// Destroying or cancelling the Ticket cancels the operation as far as it can be
// cancelled and guarantees that its Delegate never runs afterwards. A Ticket of a
// finished operation is harmless. Move-only; 24 bytes; no allocation of its own.
#pragma once

#include <cstdint>
#include <utility>

namespace tmesh {

class [[nodiscard]] Ticket {
 public:
  // `cancel(owner, id)` is called at most once. The id lets the owner recognise an
  // operation that ended long ago (generation counters), so that a stale ticket
  // can never cancel somebody else's operation.
  using Cancel = void (*)(void* owner, uint64_t id);

  Ticket() = default;
  Ticket(void* owner, uint64_t id, Cancel cancel_fn) : owner_(owner), id_(id), cancel_(cancel_fn) {}
  Ticket(Ticket&& other) noexcept
      : owner_(other.owner_), id_(other.id_), cancel_(std::exchange(other.cancel_, nullptr)) {}
  Ticket& operator=(Ticket&& other) noexcept {
    if (this != &other) {
      cancel();
      owner_ = other.owner_;
      id_ = other.id_;
      cancel_ = std::exchange(other.cancel_, nullptr);
    }
    return *this;
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  ~Ticket() { cancel(); }

  void cancel() {
    if (Cancel fn = std::exchange(cancel_, nullptr)) fn(owner_, id_);
  }
  // Forgets the operation without cancelling it: for the owner of the operation
  // itself, once the callback has been delivered.
  void release() { cancel_ = nullptr; }
  bool active() const { return cancel_ != nullptr; }

 private:
  void* owner_ = nullptr;
  uint64_t id_ = 0;
  Cancel cancel_ = nullptr;
};

}  // namespace tmesh
