// The keys a generator asks for, at random: each as likely as any other, or by Zipf's law the i-th
// with a probability proportional to 1 / i^exponent. The same seed gives the same sequence.
//
// Not thread-safe. O(1) a key, without tables.
#pragma once

#include <cstdint>
#include <random>

namespace sluice::load {

class KeySequence {
 public:
  // `keys` is at least 1, `exponent` at least 0; 0 makes all keys as likely.
  KeySequence(std::uint32_t keys, double exponent, std::uint64_t seed);

  // From 0 to `keys` - 1; by Zipf's law 0 is the most frequent.
  std::uint32_t Next() { return exponent_ == 0 ? NextUniform() : NextZipf(); }

 private:
  std::uint32_t NextUniform();
  std::uint32_t NextZipf();

  // `Weight` is the law's hat, `Area` its integral, with x real.
  double Weight(double x) const;
  double Area(double x) const;
  double InverseArea(double area) const;

  const std::uint32_t keys_;
  const double exponent_;
  std::mt19937_64 random_;
  // What NextZipf needs again and again.
  double area_of_first_ = 0;
  double area_of_all_ = 0;
  double sure_within_ = 0;  // of a key's number, so near, no second look is needed
};

}  // namespace sluice::load
