#include "net/connection_age.h"

#include <cstdint>

namespace sluice::net {

SteadyTime EndOfAge(Loop& loop, Duration max_age) {
  if (max_age == Duration::zero()) return SteadyTime::max();
  const auto percent = static_cast<std::int64_t>(90 + loop.Random() % 21);
  return loop.now() + max_age * percent / 100;
}

}  // namespace sluice::net
