// Secret: a string that never prints.
//
// Holds a bearer token, password, DSN or key. Owns one heap buffer that is wiped
// before it is freed (also on assignment and move). It has no conversion to a
// string and no log field can be made from it; the only way to the bytes is
// reveal(), which a reader of the code can search for (requirement A7). What the
// caller copies out of reveal() is the caller's to wipe.
// Not thread-safe; no time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tmesh {

// What stands in the place of a secret in printed configuration.
inline constexpr std::string_view kRedacted = "[redacted]";

// Overwrites `size` bytes; the compiler may not remove it. `data` may be null when size is 0.
void secure_wipe(void* data, std::size_t size);
// Overwrites the whole buffer of the string, then empties it.
void secure_wipe(std::string& text);

// True when both have the same bytes. The time depends on the lengths only.
[[nodiscard]] bool equal_constant_time(std::string_view a, std::string_view b);

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view text);
  Secret(const Secret& other);
  Secret(Secret&& other) noexcept;
  Secret& operator=(const Secret& other);
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Valid until the Secret changes or dies; the byte after the last is NUL.
  std::string_view reveal() const { return {c_str(), size_}; }
  const char* c_str() const { return data_ ? data_.get() : ""; }
  // Constant time for equal lengths.
  bool equals(std::string_view text) const { return equal_constant_time(reveal(), text); }
  // Empties the Secret and wipes its buffer.
  void wipe();

 private:
  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
};

}  // namespace tmesh
