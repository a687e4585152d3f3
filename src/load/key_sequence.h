// A random sequence of keys with a uniform or Zipf distribution. With Zipf, the i-th key has a
// probability proportional to 1 / i^exponent. The same seed gives the same sequence.
//
// Not thread-safe. With Zipf, a table takes 8 bytes per key.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::load {

class KeySequence {
 public:
  // `keys` is at least 1. `exponent` is at least 0; 0 selects the uniform distribution.
  KeySequence(std::uint32_t keys, double exponent, std::uint64_t seed)
      : keys_(keys), random_(seed) {
    if (exponent == 0) return;
    sums_.reserve(keys);
    double sum = 0;
    for (std::uint32_t i = 1; i <= keys; ++i) sums_.push_back(sum += std::pow(i, -exponent));
  }

  // A number from 0 to `keys` - 1. With Zipf, 0 is the most frequent.
  std::uint32_t Next() {
    if (sums_.empty()) return std::uniform_int_distribution<std::uint32_t>(0, keys_ - 1)(random_);
    const double at = std::uniform_real_distribution<double>(0, sums_.back())(random_);
    const auto key = std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin();
    return std::min(static_cast<std::uint32_t>(key), keys_ - 1);  // rounding may give the last sum
  }

 private:
  const std::uint32_t keys_;
  std::vector<double> sums_;  // cumulative probabilities, not normalized; empty: uniform
  std::mt19937_64 random_;
};

}  // namespace sluice::load
