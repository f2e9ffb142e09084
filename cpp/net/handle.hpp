// Handle<Uv>: a move-only owner of one libuv handle (ARCHITECTURE 4, pattern 1).
//
// The handle lives in a heap node. Destroying the owner takes the owner's address out
// of the node and starts uv_close; the close callback frees the node. So after the
// destructor no callback reaches the object, and nothing waits. For the .cpp files of
// this folder: it is the one header here that shows <uv.h>.
#pragma once

#include <uv.h>

#include <utility>

namespace tmesh::net {

template <class Uv>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      node_ = std::exchange(other.node_, nullptr);
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  // init(uv_loop_t*, Uv*) as libuv's own; its error is returned and leaves the Handle empty.
  template <class Init>
  int open(uv_loop_t* loop, Init init) {
    reset();
    auto* node = new Node;
    int rc = init(loop, &node->uv);
    if (rc != 0) {
      delete node;
      return rc;
    }
    node->uv.data = node;
    node_ = node;
    return 0;
  }

  void set_owner(void* owner) { node_->owner = owner; }
  Uv* get() const { return node_ == nullptr ? nullptr : &node_->uv; }
  explicit operator bool() const { return node_ != nullptr; }

  // In a callback of libuv: the owner, or null when it is gone.
  template <class Owner>
  static Owner* owner_of(Uv* uv) {
    return static_cast<Owner*>(static_cast<Node*>(uv->data)->owner);
  }

  void reset() {
    if (node_ == nullptr) return;
    Node* node = std::exchange(node_, nullptr);
    node->owner = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&node->uv),
             [](uv_handle_t* handle) { delete static_cast<Node*>(handle->data); });
  }

 private:
  struct Node {
    Uv uv{};
    void* owner = nullptr;
  };
  Node* node_ = nullptr;
};

}  // namespace tmesh::net
