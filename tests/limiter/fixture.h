// A limiter on embedded stores that fail on demand, with a clock that the test controls.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "limiter/check_call.h"
#include "limiter/lease_call.h"
#include "limiter/limiter.h"
#include "store/memory/memory_store.h"
#include "store/owned_check.h"

namespace sluice::test {

inline FixedWindow PerMinute(std::int64_t limit) {
  return {.limit = limit, .window = std::chrono::seconds(60)};
}

// A MemoryStore that fails on demand and records the deadlines of checks.
class FragileStore final : public Store {
 public:
  struct Late {
    bool undo = false;
  };

  explicit FragileStore(const Clock& clock) : counters_(clock, {}) {}

  void Submit(StoreCheck& check) override {
    ++submitted;
    deadline = check.deadline;
    last_deadline = check.last_deadline;
    if (!failing) return holds ? Decide(check) : counters_.Submit(check);
    if (!failing_key.empty()) return Decide(check);
    late = sent ? std::make_shared<Late>() : nullptr;
    check.undo_late = nullptr;
    if (late) check.undo_late = [its = late] { its->undo = true; };
    if (decides_unheard) DecideUnheard(check);
    check.Fail(*failing);
    check.OnDecided();
  }

  void Reset(StoreReset& reset) override {
    if (!failing) return counters_.Reset(reset);
    reset.failure = failing;
    reset.OnReset();
  }

  void Undo(const StoreCheck& check) override {
    if (check.undo_late) check.undo_late();
    const bool charged = std::any_of(check.counters.begin(), check.counters.end(),
                                     [](const CounterCheck& it) { return it.charged; });
    if (!charged) return;
    if (listener == nullptr) return counters_.Undo(check);
    OwnedCheck peek(check);
    peek.demand.mode = Mode::kPeek;
    listener->OnUndoStarted(peek);
    counters_.Undo(check);
    counters_.Submit(peek);
    listener->OnUndoEnded(peek);
  }

  bool Settle(const StoreCheck& settle) override {
    OwnedCheck settlement(settle);
    counters_.Submit(settlement);
    if (listener != nullptr) listener->OnSettled(settlement);
    return true;
  }

  std::size_t PartOf(std::string_view key) const override {
    const bool is_other = failing != StoreFailure::kCounterRejected && !failing_key.empty();
    return is_other && key.find(failing_key) != std::string_view::npos ? 1 : 0;
  }

  std::optional<StoreFailure> failing;
  // If `failing` is set, the counters whose keys contain this text fail. If the text is empty, all
  // counters fail. If it is not empty, the counters whose keys contain it are in a separate part of
  // the store, unless `failing` is kCounterRejected.
  std::string failing_key;
  bool holds = false;  // decided checks are held, not returned
  std::vector<StoreCheck*> held;
  bool sent = false;                  // failed checks were sent and may be answered late
  bool decides_unheard = false;       // the store decides failed checks nevertheless
  std::shared_ptr<Late> late;         // the last failed check, if `sent`
  StoreListener* listener = nullptr;  // is notified of undos and settlements
  SteadyTime deadline;
  SteadyTime last_deadline;
  int submitted = 0;

 private:
  // A copy of a check, with only the counters that the store decides.
  struct Part final : StoreCheck {
    void OnDecided() override {}
  };

  void DecideUnheard(const StoreCheck& check) {
    Part part;
    part.demand = check.demand;
    part.lease = check.lease;
    part.leases_units = check.leases_units;
    part.concerns_grants = check.concerns_grants;
    part.counters = check.counters;
    counters_.Submit(part);
  }

  // Decides the counters that do not fail.
  void Decide(StoreCheck& check) {
    Part part;
    part.demand = check.demand;
    part.lease = check.lease;
    part.leases_units = check.leases_units;
    part.concerns_grants = check.concerns_grants;
    for (CounterCheck& counter : check.counters) {
      const bool fails =
          failing && std::string_view(counter.key).find(failing_key) != std::string_view::npos;
      counter.failure = fails ? failing : std::nullopt;
      if (!fails) part.counters.push_back(counter);
    }
    if (!part.counters.empty()) counters_.Submit(part);
    auto decided = part.counters.begin();
    for (CounterCheck& counter : check.counters) {
      if (!counter.failure) counter = *decided++;
    }
    check.decided_at = part.decided_at;
    check.settled = part.settled;
    check.lease_ends = part.lease_ends;
    holds ? held.push_back(&check) : check.OnDecided();
  }

  MemoryStore counters_;
};

class Call final : public CheckCall {
 public:
  using CheckCall::CheckCall;

  std::optional<Result<CheckAnswer>> answer;

 private:
  void OnAnswer(const Result<CheckAnswer>& heard) override { answer = heard; }
};

class Holder final : public LeaseCall {
 public:
  using LeaseCall::LeaseCall;

  std::optional<Result<LeaseReport>> report;

 private:
  void OnLease(const Result<LeaseReport>& heard) override { report = heard; }
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

  static Rule RuleOf(std::string name, std::vector<RuleLimit> limits) {
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
    CheckRequest request;
    request.attributes = attributes;
    request.cost = static_cast<std::int64_t>(cost);
    return TryAsk(request);
  }

  // Like Check and TryCheck, but with any request. The domain is replaced by the domain of the
  // rules.
  CheckAnswer Ask(const CheckRequest& request) {
    const auto answer = TryAsk(request);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? *answer : CheckAnswer{};
  }

  Result<CheckAnswer> TryAsk(const CheckRequest& request) {
    call_.request = request;
    call_.request.domain = "shop";
    call_.Start();
    return call_.answer.value();
  }

  static CheckRequest RequestOf(Mode mode, std::uint64_t cost = 1) {
    CheckRequest request;
    request.demand.mode = mode;
    request.cost = static_cast<std::int64_t>(cost);
    return request;
  }

  Result<Duration> Renew(std::string_view lease_id) { return Renew(limiter_, lease_id); }
  Result<Duration> Release(std::string_view lease_id) { return Release(limiter_, lease_id); }
  static Result<Duration> Renew(Limiter& at, std::string_view lease_id) {
    return Keep(at, LeaseCall::Action::kRenew, lease_id);
  }
  static Result<Duration> Release(Limiter& at, std::string_view lease_id) {
    return Keep(at, LeaseCall::Action::kRelease, lease_id);
  }

  static Result<LeaseReport> CallLease(Limiter& at, LeaseCall::Action action,
                                       std::string_view lease_id,
                                       const LeaseCall::Usage& usage = {}) {
    Holder holder(at);
    holder.Start(action, lease_id, SteadyTime::max(), usage);
    return holder.report.value();
  }

  // The value of a series, or -1 if there is no such series. `series`: as on the metrics page.
  double Value(const std::string& series) const {
    const std::string page = "\n" + metrics_.Render();
    const std::size_t line = page.find("\n" + series + " ");
    return line == std::string::npos ? -1 : std::stod(page.substr(line + series.size() + 2));
  }

  ManualClock clock_{Time(std::chrono::seconds(1'000'000))};
  MetricsRegistry metrics_;
  FragileStore store_{clock_};
  FragileStore local_{clock_};
  Fallback fallback_{clock_};
  Limiter limiter_{{.store = store_, .local = local_, .fallback = fallback_, .metrics = metrics_},
                   {}};
  Call call_{limiter_};

 private:
  // Renews or releases a lease. Returns the ttl if the lease was renewed, otherwise zero.
  static Result<Duration> Keep(Limiter& at, LeaseCall::Action action, std::string_view lease_id) {
    const auto report = CallLease(at, action, lease_id);
    if (!report) return report.error();
    return action == LeaseCall::Action::kRenew ? report->ttl : Duration::zero();
  }
};

}  // namespace sluice::test
