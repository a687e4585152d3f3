#include "tests/accuracy/subject.h"

#include <fmt/format.h>

#include "tests/accuracy/ideal.h"

namespace sluice::accuracy {

namespace {

constexpr int kSegments = 10;

// A limit in YAML, with this algorithm and these parameters.
template <typename... Parameters>
std::string LimitOf(const char* algorithm, const Parameters&... parameters) {
  std::string limit = fmt::format("{{algorithm: {}", algorithm);
  ((limit += fmt::format(", {}", parameters)), ...);
  return limit + "}";
}

std::string InWindow(const Size& size) {
  return fmt::format("limit: {}, window: {}s", size.limit, size.window.count());
}
std::string AtRate(const Size& size) {
  return fmt::format("rate: {}/h", size.limit * 3600 / size.window.count());
}
std::string Burst(const Size& size) { return fmt::format("burst: {}", size.limit); }
std::string Queue(const Size& size) { return fmt::format("queue: {}", size.limit - 1); }

Promise EveryLength(const Drip& drip) {
  return [=](const Passages& admitted) { return CheckEveryLength(admitted, drip); };
}
Promise EveryWindow(const Size& size) {
  return
      [=](const Passages& admitted) { return CheckEveryWindow(admitted, size.limit, size.window); };
}
Ideal SlidingLogIdeal(std::int64_t limit, Duration window) {
  return [=](const Passages& checks) { return IdealSlidingLog(checks, limit, window); };
}
Ideal BucketIdeal(const Bucket& bucket) {
  return [=](const Passages& checks) { return IdealTokenBucket(checks, bucket); };
}

Subject FixedWindow(const Size& size) {
  return {.name = "fixed_window",
          .limit = LimitOf("fixed_window", InWindow(size), "align: clock"),
          .size = size,
          .promise =
              [=](const Passages& admitted) {
                return CheckClockWindows(admitted, size.limit, size.window);
              },
          .ideal =
              [=](const Passages& checks) {
                return IdealClockWindows(checks, size.limit, size.window);
              }};
}

Subject SlidingLog(const Size& size) {
  return {.name = "sliding_log",
          .limit = LimitOf("sliding_log", InWindow(size)),
          .size = size,
          .promise = EveryWindow(size),
          .ideal = SlidingLogIdeal(size.limit, size.window)};
}

// Units leave the window at most one sub-window later than they would leave a sliding log.
Subject SlidingWindow(const Size& size) {
  const Duration window = size.window;
  const Duration longest = window + window / kSegments;
  const std::string segments = fmt::format("segments: {}", kSegments);
  return {.name = "sliding_window",
          .limit = LimitOf("sliding_window", InWindow(size), segments),
          .size = size,
          .promise = EveryWindow(size),
          .ideal = SlidingLogIdeal(size.limit, window),
          .least = SlidingLogIdeal(size.limit, longest)};
}

Subject TokenBucket(const Size& size) {
  return {.name = "token_bucket",
          .limit = LimitOf("token_bucket", AtRate(size), Burst(size)),
          .size = size,
          .promise = EveryLength({.burst = size.limit, .rate = size.limit, .period = size.window}),
          .ideal = BucketIdeal({.burst = size.limit, .rate = size.limit, .period = size.window})};
}

Subject EmptyTokenBucket(const Size& size) {
  Subject subject = TokenBucket(size);
  subject.name = "token_bucket-empty";
  subject.limit = LimitOf("token_bucket", AtRate(size), Burst(size), "initial: empty");
  subject.ideal = BucketIdeal(
      {.burst = size.limit, .rate = size.limit, .period = size.window, .starts_empty = true});
  return subject;
}

Subject BorrowingTokenBucket(const Size& size) {
  return {.name = "token_bucket-borrow",
          .limit = LimitOf("token_bucket", AtRate(size), Burst(size), "borrow: true"),
          .size = size,
          .promise = EveryLength(
              {.burst = size.limit, .rate = size.limit, .period = size.window, .pays_later = true}),
          .ideal = BucketIdeal(
              {.burst = size.limit, .rate = size.limit, .period = size.window, .borrows = true})};
}

// Checks may wait half a window. They count when they start.
Subject WaitingTokenBucket(const Size& size) {
  const Duration max_wait = Duration(size.window) / 2;
  Subject subject = TokenBucket(size);
  subject.name = "token_bucket-wait";
  subject.promise = EveryLength(
      {.burst = size.limit, .rate = size.limit, .period = size.window, .step = Duration(1)});
  subject.ideal = BucketIdeal(
      {.burst = size.limit, .rate = size.limit, .period = size.window, .max_wait = max_wait});
  subject.max_wait = max_wait;
  return subject;
}

// This is the only algorithm in floating point. So its promise allows a rounding error of 2 µs per
// unit.
Subject WarmingTokenBucket(const Size& size) {
  const Duration rounding(2 * size.limit);
  const std::string warmup = fmt::format("warmup: {}s", size.window.count());
  const Ideal ideal = [=](const Passages& checks) {
    return IdealWarmingBucket(checks,
                              {.rate = size.limit, .period = size.window, .warmup = size.window});
  };
  return {.name = "token_bucket-warmup",
          .limit = LimitOf("token_bucket", AtRate(size), warmup),
          .size = size,
          .promise = EveryLength(
              {.rate = size.limit, .period = size.window - rounding, .pays_later = true}),
          .ideal = ideal,
          .least = [=](const Passages& checks) { return ideal(checks) * 99 / 100 - 3; },
          .most = [=](const Passages& checks) { return ideal(checks) * 101 / 100 + 3; }};
}

// Admitted checks start evenly spaced. A leaky bucket admits as many checks as a token bucket.
Subject LeakyBucket(const Size& size) {
  return {.name = "leaky_bucket",
          .limit = LimitOf("leaky_bucket", AtRate(size), Queue(size)),
          .size = size,
          .promise = EveryLength(
              {.rate = size.limit, .period = size.window, .pays_later = true, .step = Duration(1)}),
          .ideal = BucketIdeal({.burst = size.limit, .rate = size.limit, .period = size.window})};
}

Subject LeakyBucketWithoutDelay(const Size& size) {
  Subject subject = TokenBucket(size);
  subject.name = "leaky_bucket-nodelay";
  subject.limit = LimitOf("leaky_bucket", AtRate(size), Queue(size), "delay: false");
  return subject;
}

// Takes leases and does not release them. At most a fifth of the limit is held at once, and each
// lease lasts a fifth of the window. So at most `limit` leases begin in every interval of the
// window's length. holders.h tests releases.
Subject Concurrency(const Size& size) {
  const std::int64_t slots = size.limit / 5;
  const Duration ttl = Duration(size.window) / 5;
  return {
      .name = "concurrency",
      .limit = LimitOf("concurrency", fmt::format("limit: {}", slots),
                       fmt::format("ttl: {}ms", ttl.count() / 1000)),
      .size = size,
      .promise = [=](const Passages& admitted) { return CheckEveryWindow(admitted, slots, ttl); },
      .ideal = SlidingLogIdeal(slots, ttl)};
}

}  // namespace

std::string Subject::Rule() const { return fmt::format("{}-{}s", name, size.window.count()); }

std::vector<Subject> Subjects(const Size& size) {
  return {FixedWindow(size),        SlidingLog(size),
          SlidingWindow(size),      TokenBucket(size),
          EmptyTokenBucket(size),   BorrowingTokenBucket(size),
          WaitingTokenBucket(size), WarmingTokenBucket(size),
          LeakyBucket(size),        LeakyBucketWithoutDelay(size),
          Concurrency(size)};
}

std::string RulesOf(const std::vector<Subject>& subjects, DenyCache deny_cache) {
  std::string rules = fmt::format("domain: {}\nrules:\n", kDomain);
  for (const Subject& subject : subjects) {
    rules += fmt::format(
        "  - name: {0}\n"
        "    match: {{endpoint: {0}}}\n"
        "    per: [user]\n"
        "    on_store_failure: error\n"
        "    deny_cache: {1}\n"
        "    limits: [{2}]\n",
        subject.Rule(), deny_cache == DenyCache::kOn, subject.limit);
  }
  return rules;
}

}  // namespace sluice::accuracy
