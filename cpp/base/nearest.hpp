// "Did you mean": the closest of a set of valid names.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tmesh {

// Names longer than this are never compared: the work is bounded by its square.
inline constexpr std::size_t kNearestBytesMax = 128;

// Insertions, deletions, replacements and swaps of neighbours (optimal string
// alignment) that turn a into b, ASCII case ignored. SIZE_MAX when one is longer
// than kNearestBytesMax.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance, the first of equals; empty when none
// is within a third of the name's length (at least 1, at most 6 edits), because a
// far-fetched proposal misleads more than none.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace tmesh
