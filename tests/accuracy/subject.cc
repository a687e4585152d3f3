#include "tests/accuracy/subject.h"

#include <fmt/format.h>

#include "tests/accuracy/ideal.h"

namespace sluice::accuracy {

namespace {

Subject FixedWindow(const Size& size) {
  const auto ideal = [=](const Passages& checks) {
    return IdealClockWindows(checks, size.limit, size.window);
  };
  return {.name = "fixed_window",
          .limit = fmt::format("{{algorithm: fixed_window, limit: {}, window: {}s, align: clock}}",
                               size.limit, size.window.count()),
          .size = size,
          .promise =
              [=](const Passages& admitted) {
                return CheckClockWindows(admitted, size.limit, size.window);
              },
          .ideal = ideal,
          .floor = ideal};
}

Subject SlidingLog(const Size& size) {
  const auto ideal = [=](const Passages& checks) {
    return IdealSlidingLog(checks, size.limit, size.window);
  };
  return {.name = "sliding_log",
          .limit = fmt::format("{{algorithm: sliding_log, limit: {}, window: {}s}}", size.limit,
                               size.window.count()),
          .size = size,
          .promise =
              [=](const Passages& admitted) {
                return CheckEveryWindow(admitted, size.limit, size.window);
              },
          .ideal = ideal,
          .floor = ideal};
}

Subject TokenBucket(const Size& size) {
  const Rate rate{.rate = size.limit, .period = size.window};
  const auto ideal = [=](const Passages& checks) {
    return IdealTokenBucket(checks, size.limit, rate);
  };
  return {
      .name = "token_bucket",
      .limit = fmt::format("{{algorithm: token_bucket, rate: {}/m, burst: {}}}",
                           size.limit * 60 / size.window.count(), size.limit),
      .size = size,
      .promise =
          [=](const Passages& admitted) { return CheckEveryLength(admitted, size.limit, rate); },
      .ideal = ideal,
      .floor = ideal};
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
