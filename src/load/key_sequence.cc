#include "load/key_sequence.h"

#include <algorithm>
#include <cmath>

namespace sluice::load {
namespace {

// log1p(x) / x and expm1(x) / x. Uses their series near 0, where the quotients are inaccurate.
double Log1pOverX(double x) {
  return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x * (0.5 - x * (1.0 / 3 - x * 0.25));
}
double Expm1OverX(double x) {
  return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x * 0.5 * (1 + x / 3 * (1 + x * 0.25));
}

}  // namespace

// Rejection-inversion: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from
// monotone discrete distributions", ACM TOMACS 6 (1996) 169-184.
KeySequence::KeySequence(std::uint32_t keys, double exponent, std::uint64_t seed)
    : keys_(keys), exponent_(exponent), random_(seed) {
  if (exponent_ == 0) return;
  area_of_first_ = Area(1.5) - 1;
  area_of_all_ = Area(keys_ + 0.5);
  sure_within_ = 2 - InverseArea(Area(2.5) - Weight(2));
}

std::uint32_t KeySequence::NextUniform() {
  return std::uniform_int_distribution<std::uint32_t>(0, keys_ - 1)(random_);
}

std::uint32_t KeySequence::NextZipf() {
  for (;;) {
    const double share = static_cast<double>(random_() >> 11) * 0x1p-53;  // [0, 1)
    const double area = area_of_all_ + share * (area_of_first_ - area_of_all_);
    const double x = InverseArea(area);
    const double number = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(keys_));
    if (number - x <= sure_within_ || area >= Area(number + 0.5) - Weight(number)) {
      return static_cast<std::uint32_t>(number) - 1;
    }
  }
}

double KeySequence::Weight(double x) const { return std::exp(-exponent_ * std::log(x)); }

double KeySequence::Area(double x) const {
  const double log = std::log(x);
  return Expm1OverX((1 - exponent_) * log) * log;
}

double KeySequence::InverseArea(double area) const {
  const double t = std::max(area * (1 - exponent_), -1.0);  // smaller only by rounding
  return std::exp(Log1pOverX(t) * area);
}

}  // namespace sluice::load
