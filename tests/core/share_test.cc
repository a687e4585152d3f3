// If all servers of a fleet have seen the same state of a store's counter, they together admit at
// most as many units as the store would. If a limit has a rate and no warmup, they admit almost as
// many.
#include <gtest/gtest.h>

#include "core/algorithm/counter.h"
#include "tests/core/every_limit.h"
#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::days;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Share, Units_AreRoundedDown_TheLowestRanksGetTheRemainder) {
  struct Row {
    Share share;
    std::int64_t units, part;
  };
  const Row rows[] = {
      {Share::Whole(), 10, 10},
      {Share::Nothing(), 10, 0},
      {Share::OfServer(3, 0), 10, 4},
      {Share::OfServer(3, 1), 10, 3},
      {Share::OfServer(3, 2), 10, 3},
      {Share::OfServer(3, 0), 2, 1},
      {Share::OfServer(3, 2), 2, 0},
      {Share::OfServer(1, 0), 10, 10},
      {Share::OfServer(1001, 0), 10, 0},
      {Share::OfNumber(1), 10, 10},
      {Share::OfNumber(0.5), 5, 2},
      {Share::OfNumber(0.29), 100, 29},
      {Share::OfNumber(1.0 / 3), 9, 2},
      {Share::OfNumber(0.0001), 1'000'000, 0},
      {Share::OfServer(1000, 0), kMaxCost, kMaxCost / 1000 + 1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    EXPECT_EQ(row.share.Of(row.units), row.part);
  }
}

// A server's local counter, seeded with the state that the server has seen.
struct ServerCounter {
  ServerCounter(const Limit& whole, const SeenState& seen, const Share& share)
      : limit(LimitFor(whole, share)), state(Seed(whole, seen, share)) {}

  // Takes units one by one until the counter denies. Returns how many were taken.
  std::int64_t TakeAll(Time now) {
    Advance(limit, state, now);
    std::int64_t taken = 0;
    const CoalescedChecks checks{
        .demand = {}, .lease = MakeLease(0, seconds(30)), .granted = 1, .now = now};
    for (; Grants(limit, state, checks.demand, 1) == 1; ++taken) Take(limit, state, checks);
    return taken;
  }

  Limit limit;
  CounterState state;
};

class EveryShare : public testing::TestWithParam<NamedLimit> {
 protected:
  // A store's counter after some random traffic. Some counters are charged beyond their limit.
  SimulatedCounter Busy(std::uint32_t seed) const {
    SimulatedCounter store(GetParam().limit);
    Arrivals arrivals(seed);
    const std::int64_t checks = 1 + arrivals.Below(20);
    for (std::int64_t i = 0; i < checks; ++i) {
      store.now += arrivals.Gap();
      const bool charges = arrivals.Below(15) == 0 && Supports(store.limit(), Mode::kCharge);
      charges ? store.Charge(arrivals.Cost()) : store.Consume(arrivals.Cost());
    }
    return store;
  }
};

// The store's counter continues beside the fleet. It shows how many units would be admitted without
// an outage.
TEST_P(EveryShare, AllServersTogether_AdmitNoMoreThanTheStoreWould) {
  if (std::holds_alternative<Concurrency>(GetParam().limit))
    return;  // each server starts these counters without holders
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SimulatedCounter store = Busy(seed);
    Arrivals arrivals(seed + 1000);
    const std::int64_t servers = 1 + arrivals.Below(5);
    std::vector<ServerCounter> fleet;
    for (std::int64_t rank = 0; rank < servers; ++rank) {
      fleet.emplace_back(GetParam().limit, store.seen, Share::OfServer(servers, rank));
    }
    std::int64_t by_store = 0;
    std::int64_t by_fleet = 0;
    const Time reset = std::max(store.seen.reset_at, store.now + Duration(1));
    const std::int64_t strides = 1 + (reset - store.now) / minutes(1);
    while (store.now < reset) {
      while (store.Consume(1).admitted) ++by_store;
      for (ServerCounter& server : fleet) by_fleet += server.TakeAll(store.now);
      ASSERT_LE(by_fleet, by_store) << "seed " << seed << ", servers " << servers;
      store.now += strides * arrivals.Gap();
    }
  }
}

TEST_P(EveryShare, OneServer_ContinuesFromTheStoresState) {
  const Limit& limit = GetParam().limit;
  if (std::holds_alternative<Concurrency>(limit)) return;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SimulatedCounter store = Busy(seed);
    ServerCounter server(limit, store.seen, Share::Whole());
    std::int64_t by_store = 0;
    while (store.Consume(1).admitted) ++by_store;
    EXPECT_EQ(server.TakeAll(store.now), by_store) << "seed " << seed;
  }
}

TEST_P(EveryShare, ExhaustedCounter_DeniesAtFirst_AfterResetSharesAddUpToTheLimit) {
  const Limit& limit = GetParam().limit;
  if (std::holds_alternative<Concurrency>(limit)) return;
  SimulatedCounter store(limit);
  while (store.Consume(1).admitted) continue;
  std::int64_t later = 0;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    ServerCounter server(limit, store.seen, Share::OfServer(3, rank));
    EXPECT_EQ(server.TakeAll(store.now), 0);
    later += server.TakeAll(store.seen.reset_at + days(40));
  }
  const std::int64_t full = SimulatedCounter(limit).Peek().limit;
  const auto* const tokens = std::get_if<TokenBucket>(&limit);
  const std::int64_t borrowed = tokens != nullptr && tokens->borrows ? 1 : 0;
  EXPECT_EQ(later, std::holds_alternative<WarmingBucket>(limit) ? 1 : full + borrowed);
}

TEST_P(EveryShare, EmptyShare_AdmitsNothing) {
  const Limit& limit = GetParam().limit;
  SimulatedCounter store(limit);
  store.Peek();
  ServerCounter server(limit, store.seen, Share::Nothing());
  EXPECT_EQ(server.TakeAll(store.now), 0);
  EXPECT_EQ(server.TakeAll(store.now + days(40)), 0);
}

TEST_P(EveryShare, Rate_TwoServersTogether_AdmitAlmostAsMuchAsTheStore) {
  if (GetParam().longest >= seconds(10)) return;  // not a bucket
  const Limit& limit = GetParam().limit;
  SimulatedCounter store(limit);
  for (int i = 0; i < 40; ++i) store.Consume(1);
  std::int64_t by_store = 0;
  std::int64_t by_fleet = 0;
  std::vector<ServerCounter> fleet;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    fleet.emplace_back(limit, store.seen, Share::OfServer(2, rank));
  }
  for (Time end = store.now + minutes(5); store.now < end;) {
    store.now += std::chrono::milliseconds(20);
    while (store.Consume(1).admitted) ++by_store;
    for (ServerCounter& server : fleet) by_fleet += server.TakeAll(store.now);
  }
  EXPECT_LE(by_fleet, by_store);
  // If the bucket has a warmup, only one server gets tokens, at half of the rate.
  const bool divides = !std::holds_alternative<WarmingBucket>(limit);
  EXPECT_GE(by_fleet, (divides ? by_store : by_store / 2) - 2);
}

TEST_P(EveryShare, Used_IsTheChargedUnits_AfterResetZero) {
  const Limit& limit = GetParam().limit;
  if (std::holds_alternative<Concurrency>(limit)) return;
  if (std::holds_alternative<WarmingBucket>(limit)) return;
  const auto* const tokens = std::get_if<TokenBucket>(&limit);
  if (tokens != nullptr && tokens->starts_empty) return;
  CounterState state;
  Open(limit, state, Time(days(10)));
  EXPECT_EQ(Used(limit, state), 0);
  Change(limit, state, {.demand = {{.mode = Mode::kCharge}, 13}, .now = Time(days(10))});
  EXPECT_EQ(Used(limit, state), 13);
  Advance(limit, state, Time(days(50)));
  EXPECT_EQ(Used(limit, state), 0);
}

INSTANTIATE_TEST_SUITE_P(Limits, EveryShare, testing::ValuesIn(EveryLimit()),
                         [](const auto& each) { return each.param.name; });

TEST(LimitFor, LargeNumbers_RateIsRoundedDownInsteadOfOverflowing) {
  struct Row {
    TokenBucket bucket;
    Share share;
  };
  const Row rows[] = {
      {{.rate = 1, .period = days(1), .burst = 20'000}, Share::OfNumber(0.3)},
      {{.rate = 1'000'000, .period = seconds(1), .burst = 2'000'000'000}, Share::OfNumber(0.999)},
      {{.rate = TokenBucket::kMaxRate, .period = seconds(1), .burst = 5}, Share::OfNumber(0.7)},
      {{.rate = 1, .period = days(1), .burst = 1}, Share::OfServer(1000, 0)},
      {{.rate = 3, .period = days(365), .burst = 70}, Share::OfServer(700, 3)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    const auto shared = std::get<TokenBucket>(LimitFor(row.bucket, row.share));
    EXPECT_LE(shared.burst, row.share.Of(row.bucket.burst));
    EXPECT_LE(shared.burst * shared.period.count(), TokenBucket::kMaxCapacity);
    EXPECT_GE(shared.rate, 1);
    EXPECT_LE(shared.rate, TokenBucket::kMaxRate);
    const auto of_all =
        static_cast<DripRate::Wide>(row.bucket.rate) * row.share.parts * shared.period.count();
    const auto mine =
        static_cast<DripRate::Wide>(shared.rate) * row.share.of * row.bucket.period.count();
    EXPECT_TRUE(mine <= of_all) << "the rate is above its share";
    EXPECT_TRUE(mine * 100 >= of_all * 99) << "the rate is far below its share";
  }
}

}  // namespace
}  // namespace sluice
