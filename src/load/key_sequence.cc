#include "load/key_sequence.h"

#include <algorithm>
#include <cmath>

namespace sluice::load {

KeySequence::KeySequence(std::uint32_t keys, double exponent, std::uint64_t seed)
    : keys_(keys), random_(seed) {
  if (exponent == 0) return;
  sums_.reserve(keys);
  double sum = 0;
  for (std::uint32_t i = 1; i <= keys; ++i) sums_.push_back(sum += std::pow(i, -exponent));
}

std::uint32_t KeySequence::Next() {
  if (sums_.empty()) return std::uniform_int_distribution<std::uint32_t>(0, keys_ - 1)(random_);
  const double at = std::uniform_real_distribution<double>(0, sums_.back())(random_);
  const auto key = std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin();
  return std::min(static_cast<std::uint32_t>(key), keys_ - 1);  // rounding may give the last sum
}

}  // namespace sluice::load
