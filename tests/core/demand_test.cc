#include "core/demand.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

TEST(Demand, ModeMaxWaitOrTimeOfChargeDiffers_DemandsAndHashesDiffer) {
  const Demand demands[] = {
      {},
      {.mode = Mode::kPeek},
      {.max_wait = Duration(0)},
      {.max_wait = Duration(1)},
      {.mode = Mode::kRefund},
      {.mode = Mode::kRefund, .charged_at = Time(Duration(0))},
      {.mode = Mode::kRefund, .charged_at = Time(Duration(1))},
  };
  std::set<std::size_t> hashes;
  for (const Demand& demand : demands) {
    for (const Demand& other : demands) EXPECT_EQ(demand == other, &demand == &other);
    const Demand copy = demand;
    EXPECT_EQ(Hash(copy), Hash(demand));
    hashes.insert(Hash(demand));
  }
  EXPECT_EQ(hashes.size(), std::size(demands));
}

}  // namespace
}  // namespace sluice
