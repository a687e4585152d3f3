// The leases of an outage that must still be reported.
#include "limiter/fallback_leases.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <cstring>

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr SteadyTime kNow{hours(1)};
constexpr std::array<std::string_view, 1> kKeys{"sluice:{d/r/}:concurrency"};

LeaseId IdOf(std::uint64_t number) {
  LeaseId id{};
  std::memcpy(id.data(), &number, sizeof number);
  return id;
}

// During an outage no changes are taken, while callers quickly take and release leases that would
// last long.
TEST(FallbackLeases, ReleasedBeforeTheyAreReported_LeaveNothingBehind) {
  constexpr std::uint64_t kMany = 1'000'000;
  FallbackLeases leases;
  leases.Granted(IdOf(0), kKeys, 1, kNow + hours(1));
  const auto before = mallinfo2().uordblks;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    leases.Granted(IdOf(i), kKeys, 1, kNow + hours(1));
    leases.Released(IdOf(i));
  }
  EXPECT_LT(mallinfo2().uordblks, before + 1'000'000);
  EXPECT_EQ(leases.Take(10, kNow).size(), 1u);
}

TEST(FallbackLeases, AreTakenOnceEach_OldestChangeFirst) {
  FallbackLeases leases;
  for (std::uint64_t i = 0; i < 3; ++i) leases.Granted(IdOf(i), kKeys, 1, kNow + seconds(9));
  const auto oldest = leases.Take(1, kNow);
  ASSERT_EQ(oldest.size(), 1u);
  EXPECT_EQ(oldest[0].id, IdOf(0));
  leases.Renewed(IdOf(0), kNow + seconds(20));
  leases.Renewed(IdOf(2), kNow + seconds(20));
  leases.Released(IdOf(1));
  const auto taken = leases.Take(10, kNow);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].id, IdOf(2));
  EXPECT_EQ(taken[1].id, IdOf(0));
  leases.PutBack(taken[0]);
  leases.PutBack(taken[1]);
  EXPECT_EQ(leases.Take(10, kNow + seconds(10)).size(), 2u) << "renewed";
  leases.PutBack(taken[0]);
  EXPECT_TRUE(leases.Take(10, kNow + seconds(20)).empty()) << "expired";
}

TEST(FallbackLeases, ReleaseOfAReportedOne_IsReportedUntilItExpires) {
  FallbackLeases leases;
  leases.Granted(IdOf(1), kKeys, 1, kNow + seconds(9));
  leases.Take(10, kNow);
  leases.Released(IdOf(1));
  const auto taken = leases.Take(10, kNow);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_TRUE(taken[0].released);
  leases.PutBack(taken[0]);
  leases.Released(IdOf(1));  // again
  EXPECT_EQ(leases.Take(10, kNow).size(), 1u);
  leases.PutBack(taken[0]);
  EXPECT_TRUE(leases.Take(10, kNow + seconds(9)).empty());
}

TEST(FallbackLeases, ReleasedOne_IsNotRenewed) {
  FallbackLeases leases;
  leases.Granted(IdOf(1), kKeys, 1, kNow + seconds(9));
  leases.Take(10, kNow);
  leases.Released(IdOf(1));
  leases.Renewed(IdOf(1), kNow + seconds(20));
  const auto taken = leases.Take(10, kNow);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_TRUE(taken[0].released);
  EXPECT_EQ(taken[0].expires, kNow + seconds(9));
}

TEST(FallbackLeases, CounterIsResetWhileOneIsReported_ItIsNotReportedAgain) {
  FallbackLeases leases;
  leases.Granted(IdOf(1), kKeys, 1, kNow + seconds(9));
  leases.Granted(IdOf(2), std::array{std::string_view("another")}, 1, kNow + seconds(9));
  const auto taken = leases.Take(10, kNow);
  ASSERT_EQ(taken.size(), 2u);
  leases.Forget(kKeys[0]);
  for (const auto& change : taken) leases.PutBack(change);
  const auto again = leases.Take(10, kNow);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].id, IdOf(2));
}

TEST(FallbackLeases, TooMany_AreNotReported_UntilOthersHaveEnded) {
  FallbackLeases leases;
  constexpr std::size_t kMost = FallbackLeases::kMaxLeases;
  for (std::size_t i = 0; i <= kMost; ++i) leases.Granted(IdOf(i), kKeys, 1, kNow + seconds(9));
  EXPECT_EQ(leases.Take(2 * kMost, kNow).size(), kMost);
  leases.Released(IdOf(0));
  EXPECT_EQ(leases.Take(10, kNow).size(), 1u);
  leases.Granted(IdOf(kMost), kKeys, 1, kNow + seconds(9));
  EXPECT_EQ(leases.Take(10, kNow).size(), 1u);
  EXPECT_TRUE(leases.Take(10, kNow + seconds(9)).empty()) << "they expire";
  leases.Granted(IdOf(0), kKeys, 1, kNow + seconds(20));
  EXPECT_EQ(leases.Take(10, kNow + seconds(9)).size(), 1u);
}

}  // namespace
}  // namespace sluice::test
