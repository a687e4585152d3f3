#include "tests/store/random_rules.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

namespace sluice::test {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kSubjectsOfEach = 30;
constexpr std::size_t kBusySubjects = 4;

// Gives `to` the shape of `from`. Both are limits of the same algorithm.
template <typename Algorithm>
void KeepShape(const Algorithm& from, Algorithm& to) {
  if constexpr (requires { to.window; }) to.window = from.window;
  if constexpr (requires { to.segments; }) to.segments = from.segments;
  if constexpr (requires { to.align; }) to.align = from.align;
  if constexpr (requires { to.utc_offset; }) to.utc_offset = from.utc_offset;
  if constexpr (requires { to.period; }) to.period = from.period;
  if constexpr (requires { to.burst; }) {
    to.burst = std::min(to.burst, TokenBucket::kMaxCapacity / to.period.count());
  }
  if constexpr (requires { to.queue; }) {
    to.queue = std::min(to.queue, TokenBucket::kMaxCapacity / to.period.count() - 1);
  }
}

Limit AnyFixedWindow(Random& random) {
  FixedWindow limit{
      .limit = random.Pick<std::int64_t>({1, 2, 5, 10, 100, 1000, kMaxProduct}),
      .window = random.Pick<Duration>({milliseconds(1), milliseconds(1500), seconds(1), minutes(1),
                                       hours(1), days(1), days(7), days(30)}),
      .align = random.Pick({FixedWindow::Align::kFirst, FixedWindow::Align::kClock,
                            FixedWindow::Align::kMonth, FixedWindow::Align::kEpoch})};
  if (limit.align == FixedWindow::Align::kClock || limit.align == FixedWindow::Align::kMonth) {
    limit.utc_offset = minutes(random.Pick({0, 60, 480, -210, 845}));
  }
  return limit;
}

Limit AnySlidingLog(Random& random) {
  return SlidingLog{.limit = random.Pick<std::int64_t>({1, 2, 5, 20, 1000, SlidingLog::kMaxLimit}),
                    .window = random.Pick<Duration>(
                        {milliseconds(1), seconds(1), minutes(1), hours(1), days(1)})};
}

Limit AnyTokenBucket(Random& random) {
  TokenBucket limit{
      .rate = random.Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
      .period = random.Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
      .burst = random.Pick<std::int64_t>({1, 2, 10, 97, 1000}),
      .starts_empty = random.OneIn(4),
      .borrows = random.OneIn(3)};
  if (random.OneIn(5)) limit.burst = TokenBucket::kMaxCapacity / limit.period.count();
  if (random.OneIn(10)) limit.rate = TokenBucket::kMaxRate;
  return limit;
}

Limit AnySlidingWindow(Random& random) {
  return SlidingWindow{
      .limit = random.Pick<std::int64_t>({1, 2, 5, 20, 1000, kMaxProduct}),
      .window = random.Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
      .segments = random.Pick<std::int64_t>({1, 2, 7, 10, SlidingWindow::kMaxSegments})};
}

Limit AnyWarmingBucket(Random& random) {
  return WarmingBucket{.rate = random.Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
                       .period = random.Pick<Duration>({seconds(1), minutes(1), hours(1), days(1)}),
                       .warmup = random.Pick<Duration>(
                           {milliseconds(1), milliseconds(700), seconds(3), minutes(1), hours(1)})};
}

Limit AnyLeakyBucket(Random& random) {
  LeakyBucket limit{
      .rate = random.Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
      .period = random.Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
      .queue = random.Pick<std::int64_t>({0, 1, 4, 97}),
      .delays = random.OneIn(2)};
  if (random.OneIn(5)) limit.queue = TokenBucket::kMaxCapacity / limit.period.count() - 1;
  return limit;
}

Limit AnyConcurrency(Random& random) {
  Concurrency limit{.limit = random.Pick<std::int64_t>({1, 2, 5, 20, 1000}),
                    .ttl = random.Pick<Duration>(
                        {milliseconds(1), milliseconds(50), seconds(1), seconds(30), hours(1)})};
  if (random.OneIn(3)) return limit;
  limit.adapt = {.on = true,
                 .min = std::min(limit.limit, random.Pick<std::int64_t>({1, 2, 15})),
                 .latency = std::min<Duration>(
                     limit.ttl, random.Pick<Duration>({milliseconds(1), seconds(1), hours(1)})),
                 .share = random.Pick<std::int64_t>({50, 67, 90, 95})};
  return limit;
}

// A random limit. `algorithm` is the index of its algorithm in the variant Limit.
Limit AnyLimit(std::size_t algorithm, Random& random) {
  constexpr Limit (*kLimits[])(Random&) = {&AnyFixedWindow, &AnySlidingLog,    &AnySlidingWindow,
                                           &AnyTokenBucket, &AnyWarmingBucket, &AnyLeakyBucket,
                                           &AnyConcurrency};
  static_assert(std::size(kLimits) == std::variant_size_v<Limit>);
  return kLimits[algorithm](random);
}

}  // namespace

RandomRules::RandomRules(Random& random) : random_(random) {
  for (std::size_t i = 0; i < std::variant_size_v<Limit> * kSubjectsOfEach; ++i) {
    const Limit limit = AnyLimit(i % std::variant_size_v<Limit>, random_);
    subjects_.push_back({fmt::format("subject{}", i), {Keep(limit), Keep(Changed(limit))}});
  }
}

RandomRules::Rule RandomRules::Next() {
  if (random_.OneIn(300)) busy_ = random_.Below(subjects_.size() - kBusySubjects);
  const bool is_busy = random_.OneIn(2);
  Subject& subject =
      subjects_[is_busy ? busy_ + random_.Below(kBusySubjects) : random_.Below(subjects_.size())];
  const Limit*& limit = subject.limits[random_.Below(subject.limits.size())];
  if (random_.OneIn(20)) limit = Keep(Changed(*limit));
  return {fmt::format("{}/{}:{}", subject.name, random_.Below(2), CounterTag(*limit)), limit};
}

const Limit* RandomRules::Keep(const Limit& limit) { return &kept_.emplace_back(limit); }

Limit RandomRules::Changed(const Limit& limit) {
  Limit changed = AnyLimit(limit.index(), random_);
  if (random_.OneIn(8)) return changed;
  std::visit([&](auto& to) { KeepShape(std::get<std::decay_t<decltype(to)>>(limit), to); },
             changed);
  return changed;
}

}  // namespace sluice::test
