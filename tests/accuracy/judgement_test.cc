// Tests that subjects which admit too much or too little, or do not answer, are judged wrong.
#include "tests/accuracy/judgement.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::accuracy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Size kSize{.limit = 5, .window = seconds(1)};

// A check every 10 ms for three windows, on each of two keys. Every algorithm denies some of them.
Passages Checks() {
  Passages checks;
  for (int i = 0; i < 300; ++i) checks.push_back({Time(seconds(1'000'000) + milliseconds(10 * i))});
  return checks;
}

// The earliest time at which a check decided at `at` can start after the checks in `started`
// without breaking the promise.
Time EarliestStart(const Subject& subject, Passages started, Time at) {
  started.push_back({started.empty() ? at : std::max(at, started.back().at)});
  while (subject.promise(started).over > 0) started.back().at += milliseconds(1);
  return started.back().at;
}

// The history of the algorithm if `ideal` decides. Checks that may wait, wait as long as necessary.
History Ask(const Subject& subject, const Ideal& ideal) {
  const bool waits = subject.name == "leaky_bucket" || subject.max_wait;
  History history;
  for (int key = 0; key < 2; ++key) {
    Passages seen;
    Passages started;
    std::int64_t before = 0;
    for (const Passage& check : Checks()) {
      seen.push_back(check);
      const std::int64_t now = ideal(seen);
      Outcome outcome{.key = key, .decided_at = check.at, .admitted = now > before};
      if (waits && outcome.admitted) {
        started.push_back({EarliestStart(subject, started, check.at)});
        outcome.wait = started.back().at - check.at;
      }
      history.outcomes.push_back(outcome);
      before = now;
    }
  }
  return history;
}

class EverySubject : public testing::TestWithParam<Subject> {};

TEST_P(EverySubject, AnsweredByItsIdeal_IsRight) {
  const Judgement judgement = Judge(GetParam(), Ask(GetParam(), GetParam().ideal));
  EXPECT_EQ(judgement.Mistake(), "");
  EXPECT_EQ(judgement.checks, 600);
  EXPECT_EQ(judgement.admitted, judgement.ideal);
  EXPECT_GT(judgement.admitted, 20);
}

TEST_P(EverySubject, AdmitsAll_IsWrong) {
  const auto all = [](const Passages& checks) { return static_cast<std::int64_t>(checks.size()); };
  EXPECT_NE(Judge(GetParam(), Ask(GetParam(), all)).Mistake(), "");
}

TEST_P(EverySubject, AdmitsOneTooMany_IsWrong) {
  History history = Ask(GetParam(), GetParam().ideal);
  const auto denied = std::find_if(history.outcomes.begin(), history.outcomes.end(),
                                   [](const Outcome& outcome) { return !outcome.admitted; });
  denied->admitted = true;
  EXPECT_NE(Judge(GetParam(), history).Mistake(), "");
}

TEST_P(EverySubject, AdmitsNothing_IsWrong) {
  const auto nothing = [](const Passages&) { return std::int64_t{0}; };
  const Judgement judgement = Judge(GetParam(), Ask(GetParam(), nothing));
  EXPECT_EQ(judgement.promise.over, 0);
  EXPECT_DOUBLE_EQ(judgement.UnderPercent(), 100);
  EXPECT_NE(judgement.Mistake(), "");
}

INSTANTIATE_TEST_SUITE_P(Subjects, EverySubject, testing::ValuesIn(Subjects(kSize)),
                         [](const auto& param) {
                           std::string name = param.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Judgement, FewUnknownChecks_ExplainAsManyMissingUnits) {
  Judgement judgement{.checks = 1000, .unknown = 2, .missing = 2};
  EXPECT_EQ(judgement.Mistake(), "");
  judgement.missing = 3;
  EXPECT_NE(judgement.Mistake(), "");
}

TEST(Judgement, ManyUnknownChecks_AreWrong) {
  EXPECT_NE((Judgement{.checks = 1000, .unknown = 11}).Mistake(), "");
}

TEST(Judgement, SharedDecisionTime_GrantsMayHaveComeFirst) {
  const Subject log = Subjects(kSize)[1];
  History history;
  for (int i = 0; i < 10; ++i) {
    history.outcomes.push_back({.decided_at = Time(seconds(1'000'000)), .admitted = i % 2 == 1});
  }
  EXPECT_EQ(Judge(log, history).Mistake(), "");
}

}  // namespace
}  // namespace sluice::accuracy
