// The hash slots of Redis Cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::redis {

inline constexpr std::size_t kSlots = 16384;

// The slot of the text in the first braces of `key`, if not empty; otherwise of the whole key.
std::uint16_t SlotOf(std::string_view key);

}  // namespace sluice::redis
