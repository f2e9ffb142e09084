#include "cpp/base/nearest.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace tmesh {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  if (a.size() > kNearestBytesMax || b.size() > kNearestBytesMax) return SIZE_MAX;
  using Row = std::array<std::size_t, kNearestBytesMax + 1>;
  Row before{};
  Row previous{};
  Row current{};
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const char x = lower(a[i - 1]);
      const char y = lower(b[j - 1]);
      std::size_t best = std::min(previous[j], current[j - 1]) + 1;
      best = std::min(best, previous[j - 1] + (x == y ? 0 : 1));
      if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y) {
        best = std::min(best, before[j - 2] + 1);
      }
      current[j] = best;
    }
    before = previous;
    previous = current;
  }
  return previous[b.size()];
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  const std::size_t limit = std::clamp<std::size_t>(name.size() / 3, 1, 6);
  std::size_t best_distance = limit + 1;
  std::string_view best;
  for (const std::string_view candidate : candidates) {
    const std::size_t gap =
        candidate.size() > name.size() ? candidate.size() - name.size() : name.size() - candidate.size();
    if (gap >= best_distance) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tmesh
