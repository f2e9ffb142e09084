#include "cpp/base/redact.hpp"

#include <cstring>
#include <utility>

namespace tmesh {

void secure_wipe(void* data, std::size_t size) {
  if (size == 0) return;
  std::memset(data, 0, size);
  // The memory is an input of this empty statement, so the store above is needed.
  __asm__ __volatile__("" : : "r"(data) : "memory");
}

void secure_wipe(std::string& text) {
  text.resize(text.capacity());
  secure_wipe(text.data(), text.size());
  text.clear();
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return difference == 0;
}

Secret::Secret(std::string_view text) : size_(text.size()) {
  if (size_ == 0) return;
  data_ = std::make_unique<char[]>(size_ + 1);
  std::memcpy(data_.get(), text.data(), size_);
}

Secret::Secret(const Secret& other) : Secret(other.reveal()) {}

Secret::Secret(Secret&& other) noexcept
    : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}

Secret& Secret::operator=(const Secret& other) {
  if (this != &other) *this = Secret(other);
  return *this;
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    wipe();
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Secret::~Secret() {
  wipe();
}

void Secret::wipe() {
  secure_wipe(data_.get(), size_);
  data_.reset();
  size_ = 0;
}

}  // namespace tmesh
