// A random sequence of keys with a uniform or Zipf distribution. With Zipf, the i-th key has a
// probability proportional to 1 / i^exponent. The same seed gives the same sequence.
//
// Not thread-safe. Takes O(1) time per key, and no tables.
#pragma once

#include <cstdint>
#include <random>

namespace sluice::load {

class KeySequence {
 public:
  // `keys` is at least 1. `exponent` is at least 0; 0 selects the uniform distribution.
  KeySequence(std::uint32_t keys, double exponent, std::uint64_t seed);

  // A number from 0 to `keys` - 1. With Zipf, 0 is the most frequent.
  std::uint32_t Next() { return exponent_ == 0 ? NextUniform() : NextZipf(); }

 private:
  std::uint32_t NextUniform();
  std::uint32_t NextZipf();

  // Weight is the hat function of the rejection method for real x, Area is its integral.
  double Weight(double x) const;
  double Area(double x) const;
  double InverseArea(double area) const;

  const std::uint32_t keys_;
  const double exponent_;
  std::mt19937_64 random_;
  // Constants for NextZipf.
  double area_of_first_ = 0;
  double area_of_all_ = 0;
  double sure_within_ = 0;  // candidates this close to a key are accepted at once
};

}  // namespace sluice::load
