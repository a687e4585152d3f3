#include "tests/accuracy/subject.h"

#include <fmt/format.h>

#include "tests/accuracy/ideal.h"

namespace sluice::accuracy {

namespace {

// A limit in YAML, of the algorithm and `parameters`.
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

Subject TokenBucket(const Size& size) {
  return {.name = "token_bucket",
          .limit = LimitOf("token_bucket", AtRate(size), Burst(size)),
          .size = size,
          .promise = EveryLength({.burst = size.limit, .rate = size.limit, .period = size.window}),
          .ideal = BucketIdeal({.burst = size.limit, .rate = size.limit, .period = size.window})};
}

}  // namespace

std::string Subject::Rule() const { return fmt::format("{}-{}s", name, size.window.count()); }

std::vector<Subject> Subjects(const Size& size) {
  return {FixedWindow(size), SlidingLog(size), TokenBucket(size)};
}

std::string RulesOf(const std::vector<Subject>& subjects) {
  std::string rules = fmt::format("domain: {}\nrules:\n", kDomain);
  for (const Subject& subject : subjects) {
    rules += fmt::format(
        "  - name: {0}\n"
        "    match: {{endpoint: {0}}}\n"
        "    per: [user]\n"
        "    on_store_failure: error\n"
        "    limits: [{1}]\n",
        subject.Rule(), subject.limit);
  }
  return rules;
}

}  // namespace sluice::accuracy
