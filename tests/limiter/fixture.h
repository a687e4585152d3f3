// A limiter on embedded stores and a clock of the test's own, whose shared store fails on demand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "limiter/check_call.h"
#include "limiter/limiter.h"
#include "store/memory/memory_store.h"

namespace sluice::test {

// A MemoryStore that can be told to fail, and remembers the deadline it was given.
class FragileStore final : public Store {
 public:
  explicit FragileStore(const Clock& clock) : counters_(clock, {}) {}

  void Submit(StoreCheck& check) override {
    ++submitted;
    deadline = check.deadline;
    if (!failing) return counters_.Submit(check);
    check.failure = failing;
    check.OnDecided();
  }

  void Reset(StoreReset& reset) override {
    if (!failing) return counters_.Reset(reset);
    reset.failure = failing;
    reset.OnReset();
  }

  std::optional<StoreFailure> failing;
  SteadyTime deadline;
  int submitted = 0;

 private:
  MemoryStore counters_;
};

class Call final : public CheckCall {
 public:
  using CheckCall::CheckCall;

  std::optional<Result<CheckAnswer>> answer;

 private:
  void OnAnswer(const Result<CheckAnswer>& heard) override { answer = heard; }
};

class LimiterTest : public testing::Test {
 protected:
  using Attributes = std::vector<Attribute>;

  void SetRules(std::vector<Rule> rules, const RuleIndex::Options& options = {}) {
    Domain domain;
    domain.name = "shop";
    domain.rules = std::move(rules);
    limiter_.SetRules(RuleIndex::Build({domain}, options).value());
  }

  static Rule RuleOf(std::string name, std::vector<Limit> limits) {
    Rule rule;
    rule.name = std::move(name);
    rule.limits.limits = std::move(limits);
    return rule;
  }

  // REQUIRES: the request is valid.
  CheckAnswer Check(const Attributes& attributes = {}, std::uint64_t cost = 1) {
    const auto answer = TryCheck(attributes, cost);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? *answer : CheckAnswer{};
  }

  Result<CheckAnswer> TryCheck(const Attributes& attributes = {}, std::uint64_t cost = 1) {
    call_.request.Clear();
    call_.request.domain = "shop";
    call_.request.attributes = attributes;
    call_.request.cost = cost;
    call_.Start();
    return call_.answer.value();
  }

  ManualClock clock_{Time(std::chrono::seconds(1'000'000))};
  MetricsRegistry metrics_;
  FragileStore store_{clock_};
  MemoryStore local_{clock_, {}};
  Limiter limiter_{{.store = store_, .local = local_, .clock = clock_, .metrics = metrics_}, {}};
  Call call_{limiter_};
};

}  // namespace sluice::test
