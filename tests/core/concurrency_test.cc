// The promise of concurrency: no more slots are held than the limit allows, regardless of how
// leases end.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::seconds;

constexpr Concurrency kFive{.limit = 5, .ttl = seconds(10)};

TEST(Concurrency, Slots_AreFreeWhenTheirLeaseExpires_NotBefore) {
  SimulatedCounter counter(kFive);
  const Lease first = MakeLease(1, seconds(10));
  EXPECT_EQ(counter.Take(first, 3).remaining, 2);
  EXPECT_FALSE(counter.Take(MakeLease(2, seconds(10)), 3).admitted);
  EXPECT_EQ(counter.Take(MakeLease(3, seconds(4)), 2).reset_after, seconds(4));
  counter.now += seconds(4) - Duration(1);
  EXPECT_EQ(counter.Peek().remaining, 0);
  counter.now += Duration(1);
  EXPECT_EQ(counter.Peek().remaining, 2);
}

TEST(Concurrency, ReleasedLease_IsGone) {
  SimulatedCounter counter(kFive);
  const Lease first = MakeLease(1, seconds(10));
  counter.Take(first, 3);
  counter.Take(MakeLease(2, seconds(10)), 2);
  EXPECT_EQ(counter.Release(first).remaining, 3);
  EXPECT_EQ(counter.Release(first).remaining, 3) << "releasing twice must not create slots";
  EXPECT_FALSE(counter.Renew(first).admitted);
}

TEST(Concurrency, RenewedLease_LastsAnotherTtl_ExpiredLeaseIsGone) {
  SimulatedCounter counter(kFive);
  const Lease lease = MakeLease(1, seconds(10));
  counter.Take(lease, 5);
  counter.now += seconds(9);
  EXPECT_TRUE(counter.Renew(lease).admitted);
  counter.now += seconds(10) - Duration(1);
  EXPECT_FALSE(counter.Peek().admitted);
  counter.now += Duration(1);
  EXPECT_FALSE(counter.Renew(lease).admitted);
  EXPECT_EQ(counter.Peek().remaining, 5) << "renewing an expired lease must not take slots";
}

TEST(Concurrency, LeaseOfTooManySlots_IsNeverTaken) {
  SimulatedCounter counter(Concurrency{.limit = 1000, .ttl = seconds(10)});
  EXPECT_TRUE(counter.Take(MakeLease(1, seconds(10)), Concurrency::kMaxCost).admitted);
  const Verdict verdict = counter.Take(MakeLease(2, seconds(10)), Concurrency::kMaxCost + 1);
  EXPECT_FALSE(verdict.admitted);
  EXPECT_EQ(verdict.retry_after, Verdict::kNever);
}

TEST(Concurrency, ManyStepsBackWithinSkew_LeasesStillExpire) {
  SimulatedCounter counter(kFive);
  const Lease renewed = MakeLease(1, seconds(10));
  counter.Take(renewed, 2);
  counter.Take(MakeLease(2, seconds(10)), 3);
  for (int i = 0; i < 200; ++i) {
    counter.now -= std::chrono::milliseconds(900);
    EXPECT_TRUE(counter.Renew(renewed).admitted);
  }
  EXPECT_LE(counter.Peek(5).retry_after, seconds(10) + kMaxSkew);
}

// A model of the holders.
class Book {
 public:
  explicit Book(const Time& now) : now_(now) {}

  struct Line {
    Lease lease;
    std::int64_t slots;
    Time expires;
  };
  std::int64_t held() const {
    std::int64_t slots = 0;
    for (const auto& [number, line] : lines_) slots += Holds(line) ? line.slots : 0;
    return slots;
  }
  bool Holds(const Line& line) const { return line.expires > now_; }
  std::map<std::int64_t, Line>& lines() { return lines_; }

 private:
  const Time& now_;
  std::map<std::int64_t, Line> lines_;
};

TEST(Concurrency, RandomOperations_HoldTheSameSlotsAsAModel_NeverMoreThanTheLimit) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Arrivals arrivals(seed);
    const Concurrency limit{.limit = 7, .ttl = seconds(1)};
    SimulatedCounter counter(limit);
    Book book(counter.now);
    int taken = 0, refused = 0, renewed = 0, lost = 0;
    for (std::int64_t i = 0; i < 3000; ++i) {
      counter.now += arrivals.Gap();
      ASSERT_EQ(counter.Peek(0).remaining, limit.limit - book.held());
      if (book.lines().empty() || arrivals.Below(2) == 0) {
        const Lease lease = MakeLease(i, Duration(1 + arrivals.Below(1'000'000)));
        const std::int64_t cost = arrivals.Cost();
        const Verdict verdict = counter.Take(lease, cost);
        ASSERT_EQ(verdict.admitted, book.held() + cost <= limit.limit);
        if (verdict.admitted) book.lines()[i] = {lease, cost, counter.now + lease.ttl};
        (verdict.admitted ? taken : refused) += 1;
      } else {
        // Renews or releases one of the latest leases, even if that lease has ended.
        auto at = book.lines().end();
        for (auto back = arrivals.Below(8); back >= 0 && at != book.lines().begin(); --back) --at;
        if (arrivals.Below(3) > 0) {
          const bool holds = book.Holds(at->second);
          ASSERT_EQ(counter.Renew(at->second.lease).admitted, holds);
          if (holds) at->second.expires = counter.now + at->second.lease.ttl;
          (holds ? renewed : lost) += 1;
        } else {
          counter.Release(at->second.lease);
          at->second.expires = counter.now;
        }
      }
      ASSERT_LE(book.held(), limit.limit);
      ASSERT_EQ(counter.Peek(0).remaining, limit.limit - book.held());
    }
    EXPECT_GT(std::min({taken, refused, renewed, lost}), 50);
  }
}

}  // namespace
}  // namespace sluice
