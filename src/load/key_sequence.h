// A random sequence of keys with a uniform or Zipf distribution. With Zipf, the i-th key has a
// probability proportional to 1 / i^exponent. The same seed gives the same sequence.
//
// Not thread-safe. With Zipf, a table takes 8 bytes a key.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace sluice::load {

class KeySequence {
 public:
  // `keys` is at least 1. `exponent` is at least 0; 0 selects the uniform distribution.
  KeySequence(std::uint32_t keys, double exponent, std::uint64_t seed);

  // A number from 0 to `keys` - 1. With Zipf, 0 is the most frequent.
  std::uint32_t Next();

 private:
  const std::uint32_t keys_;
  std::vector<double> sums_;  // of the probabilities of the first i keys, scaled; empty: uniform
  std::mt19937_64 random_;
};

}  // namespace sluice::load
