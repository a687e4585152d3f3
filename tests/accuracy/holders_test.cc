// Tests of Judge with hand-written usage of two slots. Times in milliseconds.
#include "tests/accuracy/holders.h"

#include <gtest/gtest.h>

namespace sluice::accuracy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Holding kTwoSlots{.limit = 2};

Time At(int ms) { return Time(seconds(1'000'000) + milliseconds(ms)); }
Held From(int from, int to) { return {At(from), At(to)}; }

TEST(Holders, OneAfterTheOther_IsRight) {
  const std::vector<Held> held = {From(0, 10), From(0, 20), From(11, 30), From(21, 30)};
  const Judgement judgement =
      Judge({.certainly = held, .possibly = held, .denials = {At(5), At(25)}, .most_at_once = 2},
            kTwoSlots);
  EXPECT_EQ(judgement.Mistake(), "");
  EXPECT_EQ(judgement.checks, 6);
  EXPECT_EQ(judgement.promise.units, 2);
  EXPECT_EQ(judgement.UnderPercent(), 0);
}

TEST(Holders, ThreeAtOnce_IsWrong) {
  const std::vector<Held> held = {From(0, 10), From(5, 20), From(10, 30)};
  const Judgement judgement = Judge({.certainly = held, .possibly = held}, kTwoSlots);
  EXPECT_EQ(judgement.promise.units, 3);
  EXPECT_EQ(judgement.promise.over, 1);
  EXPECT_NE(judgement.Mistake(), "");
}

TEST(Holders, ThreeAtTheResource_IsWrong) {
  const std::vector<Held> held = {From(0, 10), From(11, 20)};
  const Judgement judgement =
      Judge({.certainly = held, .possibly = held, .most_at_once = 3}, kTwoSlots);
  EXPECT_EQ(judgement.promise.over, 1);
}

TEST(Holders, DeniedWhileASlotIsFree_IsWrong) {
  const std::vector<Held> held = {From(0, 10), From(0, 20)};
  const Usage usage{.certainly = held, .possibly = held, .denials = {At(10), At(11)}};
  const Judgement judgement = Judge(usage, kTwoSlots);
  EXPECT_EQ(judgement.missing, 1);
  EXPECT_NE(judgement.Mistake(), "");
}

TEST(Holders, DeniedDuringARelease_IsRight) {
  const Usage usage{.certainly = {From(0, 10), From(0, 20)},
                    .possibly = {From(0, 12), From(0, 20)},
                    .denials = {At(11)}};
  EXPECT_EQ(Judge(usage, kTwoSlots).Mistake(), "");
}

}  // namespace
}  // namespace sluice::accuracy
