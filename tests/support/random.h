// Random numbers from a seed.
#pragma once

#include <cstdint>
#include <random>

namespace sluice::test {

using Random = std::mt19937_64;

inline std::uint64_t Below(Random& random, std::uint64_t bound) { return random() % bound; }

}  // namespace sluice::test
