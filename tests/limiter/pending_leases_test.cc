// Tests what must still be reported to the store about leases granted during an outage.
#include "limiter/pending_leases.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <vector>

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

const SteadyTime kNow = SteadyNow();
const std::vector<PendingLeases::Held> kSlots{{.key = "sluice:{d/r/}:concurrency", .count = 1}};

LeaseId IdOf(std::uint64_t number) {
  LeaseId id{};
  std::memcpy(id.data(), &number, sizeof number);
  return id;
}

// During an outage, leases cannot be reported. Meanwhile, callers take many leases with a long ttl
// and release them quickly.
TEST(PendingLeases, LeasesReleasedBeforeTheyAreReported_LeaveNothingBehind) {
  constexpr std::uint64_t kMany = 1'000'000;
  PendingLeases leases;
  leases.Granted({.id = IdOf(0), .held = kSlots, .expires = kNow + hours(1)});
  const auto before = mallinfo2().uordblks;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    leases.Granted({.id = IdOf(i), .held = kSlots, .expires = kNow + hours(1)});
    leases.Released(IdOf(i));
  }
  EXPECT_LT(mallinfo2().uordblks, before + 1'000'000);
  EXPECT_EQ(leases.Take(10, kNow).size(), 1u);
}

TEST(PendingLeases, Take_ReturnsEachChangeOnce_OldestFirst) {
  PendingLeases leases;
  for (std::uint64_t i = 0; i < 3; ++i)
    leases.Granted({.id = IdOf(i), .held = kSlots, .expires = kNow + seconds(9)});
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

TEST(PendingLeases, ReleaseOfAReportedLease_IsReportedUntilTheLeaseExpires) {
  PendingLeases leases;
  leases.Granted({.id = IdOf(1), .held = kSlots, .expires = kNow + seconds(9)});
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

TEST(PendingLeases, ReleasedLease_IsNotRenewed) {
  PendingLeases leases;
  leases.Granted({.id = IdOf(1), .held = kSlots, .expires = kNow + seconds(9)});
  leases.Take(10, kNow);
  leases.Released(IdOf(1));
  leases.Renewed(IdOf(1), kNow + seconds(20));
  const auto taken = leases.Take(10, kNow);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_TRUE(taken[0].released);
  EXPECT_EQ(taken[0].expires, kNow + seconds(9));
}

TEST(PendingLeases, CounterIsResetWhileALeaseIsReported_LeaseIsNotReportedAgain) {
  PendingLeases leases;
  leases.Granted({.id = IdOf(1), .held = kSlots, .expires = kNow + seconds(9)});
  leases.Granted(
      {.id = IdOf(2), .held = {{.key = "another", .count = 1}}, .expires = kNow + seconds(9)});
  const auto taken = leases.Take(10, kNow);
  ASSERT_EQ(taken.size(), 2u);
  leases.Forget(kSlots[0].key);
  for (const auto& change : taken) leases.PutBack(change);
  const auto again = leases.Take(10, kNow);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].id, IdOf(2));
}

// A check took slots of two limits under one lease.
TEST(PendingLeases, OneOfTwoCountersIsReset_TheOtherStillCountsItsSlots) {
  PendingLeases leases;
  leases.Granted({.id = IdOf(1),
                  .held = {{.key = "reset", .count = 2}, {.key = "kept", .count = 3}},
                  .expires = kNow + seconds(9)});
  leases.Forget("reset");
  const auto taken = leases.Take(10, kNow);
  ASSERT_EQ(taken.size(), 1u);
  ASSERT_EQ(taken[0].held.size(), 1u);
  EXPECT_EQ(taken[0].held[0].key, "kept");
}

TEST(PendingLeases, TooManyLeases_NewOnesAreDroppedUntilOthersEnd) {
  PendingLeases leases;
  constexpr std::size_t kMost = PendingLeases::kMaxLeases;
  for (std::size_t i = 0; i <= kMost; ++i)
    leases.Granted({.id = IdOf(i), .held = kSlots, .expires = kNow + hours(1)});
  EXPECT_EQ(leases.Take(2 * kMost, kNow).size(), kMost);
  leases.Released(IdOf(0));
  EXPECT_EQ(leases.Take(10, kNow).size(), 1u);
  leases.Granted({.id = IdOf(kMost), .held = kSlots, .expires = kNow + hours(1)});
  EXPECT_EQ(leases.Take(10, kNow).size(), 1u);
  EXPECT_TRUE(leases.Take(10, kNow + hours(1)).empty()) << "they expire";
  leases.Granted({.id = IdOf(0), .held = kSlots, .expires = kNow + hours(2)});
  EXPECT_EQ(leases.Take(10, kNow + hours(1)).size(), 1u);
}

// While there are no changes, a server need not look for them.
TEST(PendingLeases, FirstChange_IsAnnounced) {
  PendingLeases leases;
  int announced = 0;
  leases.on_first = [&] { ++announced; };
  leases.Granted({.id = IdOf(1), .held = kSlots, .expires = kNow + seconds(9)});
  leases.Granted({.id = IdOf(2), .held = kSlots, .expires = kNow + seconds(9)});
  EXPECT_EQ(announced, 1);
  EXPECT_EQ(leases.Take(10, kNow).size(), 2U);
  EXPECT_FALSE(leases.changes() > 0);
  leases.Renewed(IdOf(1), kNow + seconds(20));
  EXPECT_EQ(announced, 2);
}

// While nothing is pending, Take is not called. So Granted must erase expired leases.
TEST(PendingLeases, ExpiredLeases_MakeRoom) {
  PendingLeases leases;
  for (std::size_t i = 0; i < PendingLeases::kMaxLeases; ++i) {
    leases.Granted({.id = IdOf(i), .held = kSlots, .expires = kNow});
  }
  static_cast<void>(leases.Take(PendingLeases::kMaxLeases, kNow - seconds(1)));
  leases.Granted(
      {.id = IdOf(PendingLeases::kMaxLeases), .held = kSlots, .expires = kNow + hours(1)});
  EXPECT_TRUE(leases.Released(IdOf(PendingLeases::kMaxLeases)));
}

}  // namespace
}  // namespace sluice::test
