// Tests of the checkers with hand-written histories. Each checker accepts a history that just keeps
// a promise, and counts the units of a history that just breaks it.
#include "tests/accuracy/promise.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

namespace sluice::accuracy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kLimit = 3;
constexpr Duration kWindow = seconds(1);
constexpr Drip kBucket{.burst = 3, .rate = 2, .period = seconds(1)};
// Units must be half a second apart, to the microsecond.
constexpr Drip kSpaced{.rate = 2, .period = seconds(1), .pays_later = true, .step = Duration(1)};

// Pairs: microseconds after a whole second, and the units admitted then.
Passages At(const std::vector<std::pair<std::int64_t, std::int64_t>>& units) {
  Passages passages;
  for (const auto& [at, cost] : units) {
    passages.push_back({Time(seconds(1'000'000) + Duration(at)), cost});
  }
  return passages;
}

struct Row {
  std::string name;
  std::function<Findings(const Passages&)> check;
  Passages admitted;
  Findings expected;

  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
};

Findings ClockWindows(const Passages& admitted) {
  return CheckClockWindows(admitted, kLimit, kWindow);
}
Findings EveryWindow(const Passages& admitted) {
  return CheckEveryWindow(admitted, kLimit, kWindow);
}
Findings EveryLength(const Passages& admitted) { return CheckEveryLength(admitted, kBucket); }
Findings Spaced(const Passages& admitted) { return CheckEveryLength(admitted, kSpaced); }

class PromiseTest : public testing::TestWithParam<Row> {};

TEST_P(PromiseTest, EveryHistory_WorstIntervalAndUnitsOverTheLimitAreFound) {
  const Row& row = GetParam();
  const Findings findings = row.check(row.admitted);
  EXPECT_EQ(findings.units, row.expected.units);
  EXPECT_EQ(findings.limit, row.expected.limit);
  EXPECT_EQ(findings.over, row.expected.over);
}

INSTANTIATE_TEST_SUITE_P(
    Histories, PromiseTest,
    testing::Values(
        Row{"ClockWindows_Nothing", ClockWindows, {}, {0, 0, 0}},
        Row{"ClockWindows_Full", ClockWindows, At({{0, 1}, {500'000, 2}}), {3, 3, 0}},
        Row{"ClockWindows_TwiceTheLimitAroundAnEdge",
            ClockWindows,
            At({{999'999, 3}, {1'000'000, 3}}),
            {3, 3, 0}},
        Row{"ClockWindows_OneTooMany", ClockWindows, At({{0, 3}, {999'999, 1}}), {4, 3, 1}},
        Row{"ClockWindows_TooManyAtOnce", ClockWindows, At({{0, 5}}), {5, 3, 2}},
        Row{"ClockWindows_TooManyInTwoWindows",
            ClockWindows,
            At({{0, 4}, {1'000'000, 3}, {1'000'001, 2}}),
            {5, 3, 3}},

        Row{"EveryWindow_Nothing", EveryWindow, {}, {0, 0, 0}},
        Row{"EveryWindow_AWindowApart", EveryWindow, At({{0, 3}, {1'000'000, 3}}), {3, 3, 0}},
        Row{"EveryWindow_OneTickTooEarly", EveryWindow, At({{0, 3}, {999'999, 1}}), {4, 3, 1}},
        Row{"EveryWindow_AroundAnEdge", EveryWindow, At({{900'000, 3}, {1'100'000, 3}}), {6, 3, 3}},
        Row{"EveryWindow_OnlyPartHasLeft",
            EveryWindow,
            At({{0, 1}, {500'000, 2}, {1'000'000, 2}}),
            {4, 3, 1}},

        Row{"EveryLength_Nothing", EveryLength, {}, {0, 0, 0}},
        Row{"EveryLength_BurstAndRefill", EveryLength, At({{0, 3}, {500'000, 1}}), {4, 4, 0}},
        Row{"EveryLength_OneTickTooEarly", EveryLength, At({{0, 3}, {499'999, 1}}), {4, 3, 1}},
        Row{"EveryLength_TooManyAtOnce", EveryLength, At({{0, 5}}), {5, 3, 2}},
        // The burst comes after a pause. The interval that begins with the burst exceeds its limit;
        // the interval that begins with the first unit does not.
        Row{"EveryLength_BurstAfterRest",
            EveryLength,
            At({{0, 1}, {10'000'000, 3}, {10'100'000, 1}}),
            {4, 3, 1}},
        Row{"EveryLength_SlowExcess",
            EveryLength,
            At({{0, 3}, {500'000, 1}, {1'000'000, 1}, {1'400'000, 1}}),
            {6, 5, 1}},

        Row{"Spaced_AtOnce", Spaced, At({{0, 1}, {0, 1}}), {2, 1, 1}},
        Row{"Spaced_Evenly", Spaced, At({{0, 1}, {500'000, 1}, {1'000'000, 1}}), {3, 3, 0}},
        Row{"Spaced_OneStepTooEarly", Spaced, At({{0, 1}, {499'999, 1}}), {2, 2, 0}},
        Row{"Spaced_TwoStepsTooEarly", Spaced, At({{0, 1}, {499'998, 1}}), {2, 1, 1}},
        Row{"Spaced_CostIsPaidByTheNext", Spaced, At({{0, 3}, {1'500'000, 3}}), {6, 6, 0}},
        Row{"Spaced_CostIsNotPaid", Spaced, At({{0, 3}, {1'400'000, 1}}), {4, 3, 1}}),
    [](const auto& param) { return param.param.name; });

TEST(Findings, Add_KeepsTheWorseIntervalAndSumsTheUnitsOverTheLimit) {
  Findings findings{.units = 3, .limit = 3, .over = 0};
  findings.Add({.units = 7, .limit = 5, .over = 2});
  findings.Add({.units = 9, .limit = 10, .over = 0});
  EXPECT_EQ(findings.units, 7);
  EXPECT_EQ(findings.limit, 5);
  EXPECT_EQ(findings.over, 2);
}

}  // namespace
}  // namespace sluice::accuracy
