// The hash slots of Redis Cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::redis {

inline constexpr std::size_t kSlots = 16384;

// The text in the first braces of `key`, if not empty; otherwise the whole key. Keys with the same
// hashed part are always on one node.
std::string_view HashedPart(std::string_view key);

// The slot of the hashed part of `key`.
std::uint16_t SlotOf(std::string_view key);

}  // namespace sluice::redis
