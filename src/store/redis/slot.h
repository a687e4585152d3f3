// The hash slots of Redis Cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::redis {

inline constexpr std::size_t kSlots = 16384;

// Of what stands in the first braces of `key`, if that is anything; else of all of it.
std::uint16_t SlotOf(std::string_view key);

}  // namespace sluice::redis
