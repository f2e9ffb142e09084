// Delegate<void(Args...)>: a callback as {object, function}, 16 bytes, bound at
// compile time. It does not own the object: whoever hands out a Delegate for an
// asynchronous operation keeps the operation's Ticket (ticket.hpp), and
// destroying the Ticket guarantees that the Delegate is never called again.
#pragma once

#include <type_traits>
#include <utility>

namespace tmesh {

template <class Signature>
class Delegate;

template <class R, class... Args>
class Delegate<R(Args...)> {
 public:
  constexpr Delegate() = default;

  // Delegate<void(int)>::bind<&Widget::on_int>(this)
  template <auto Method, class T>
  static constexpr Delegate bind(T* self) {
    return Delegate(const_cast<std::remove_const_t<T>*>(self), [](void* p, Args... args) -> R {
      return (static_cast<T*>(p)->*Method)(std::forward<Args>(args)...);
    });
  }

  // Delegate<void(int)>::free<&on_int>(context) where on_int(void*, int)
  template <auto Function>
  static constexpr Delegate free(void* context) {
    return Delegate(context,
                    [](void* p, Args... args) -> R { return Function(p, std::forward<Args>(args)...); });
  }

  R operator()(Args... args) const { return fn_(self_, std::forward<Args>(args)...); }
  explicit operator bool() const { return fn_ != nullptr; }

 private:
  using Fn = R (*)(void*, Args...);
  constexpr Delegate(void* self, Fn fn) : self_(self), fn_(fn) {}
  void* self_ = nullptr;
  Fn fn_ = nullptr;
};

}  // namespace tmesh
