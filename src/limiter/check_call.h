// One check from a front end (gRPC, HTTP) to its answer. A front end derives from CheckCall, fills
// `request`, calls Start, and receives the answer in OnAnswer. Reusable: its memory is kept between
// calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "limiter/check_answer.h"
#include "limiter/check_request.h"
#include "limiter/deny_cache.h"
#include "limiter/fallback.h"
#include "match/rule_index.h"
#include "store/store.h"

namespace sluice {

class Limiter;
class RulesInForce;

class CheckCall {
 public:
  explicit CheckCall(Limiter& limiter) : limiter_(limiter) {}
  virtual ~CheckCall() = default;
  CheckCall(const CheckCall&) = delete;
  CheckCall& operator=(const CheckCall&) = delete;

  // Filled before Start. The data it refers to must live until OnAnswer returns.
  CheckRequest request;

  // Decides the request and calls OnAnswer exactly once, on the same thread, possibly before Start
  // returns. The call may be started again from then on. `received` is when the front end started
  // to handle the request.
  void Start(SteadyTime received = SteadyNow());

 protected:
  // Counts the error and passes it to OnAnswer. Called by a front end instead of Start if the
  // request cannot be parsed.
  void Refuse(Error error);

  // Called by a front end in OnAnswer. Returns a function that releases the answer's lease, for
  // answers that cannot be delivered; otherwise the slots stay taken until the lease expires. Empty
  // if there is no lease. May outlive the call, but not the limiter; io threads only.
  std::function<void()> LeaseReturn() const;

  // Called by a front end in OnAnswer when the answer is ready to send.
  void ObserveDuration() const;

 private:
  struct Check final : StoreCheck {
    using Step = void (CheckCall::*)();
    Check(CheckCall& owner, Step then) : call(owner), next_step(then) {}
    void OnDecided() override { (call.*next_step)(); }

    CheckCall& call;
    const Step next_step;
  };

  // `answer` and its rules are valid until OnAnswer returns. Must not block.
  virtual void OnAnswer(const Result<CheckAnswer>& answer) = 0;

  // The steps of a check, in order.
  void Reset();
  void AskStore();
  void OnDecided();
  void LearnStates(SteadyTime now);
  void DecideByVerdicts();
  void Answer(Decision decision, Source source);
  void HandOver();

  // Matching the rules; in check_rules.cc.
  void ReplaceLimits();
  void NoteMissingAttributes();
  bool DecideByRules();
  void CollectCounters();
  void AddCounter(const RuleMatch& match, const IndexedLimit& limit, std::uint16_t group);
  bool HasNoLimitForMode() const { return check_.counters.empty() && skipped_; }
  // The decision, and its source, if no enforced limit applies.
  Decision DecisionWithoutLimits() const;
  Source SourceWithoutLimits() const { return exempt_ ? Source::kRule : Source::kNoRule; }

  // Denials that this server remembers; in check_deny_cache.cc.
  bool DenyFromCache();
  bool MarkKnownDenials();
  bool AnotherLimitNeverAdmits() const;
  void RememberDenials(SteadyTime now);
  void RememberPassed(const CounterCheck& counter, SteadyTime now);
  DenyCache::Denial DenialOf(const CounterCheck& counter, const Demand& demand,
                             SteadyTime now) const;

  // Leases of concurrency limits; in check_lease.cc. Fails if the counters do not fit into a lease
  // id.
  Result<void> PrepareLease();
  void NameLease();
  void CollectSlots(Source taken_by, std::vector<std::string_view>& keys) const;

  // Handling of store failures; in check_fallback.cc.
  void OnFailure(SteadyTime now);
  bool StaysLocal();
  bool HasRecovered();
  std::size_t PartOf(const CounterCheck& counter) const;
  void RefuseLate();
  void FallBack();
  void FollowPolicy(LimitAnswer& limit, StoreFailure failure);
  void DecideLocally();
  void OnLocallyDecided();
  void FinishFallback();
  void DetachedUndo();
  void RecordFallbackCharges();
  void CountLostWrite() const;

  CheckAnswer& answer() { return answer_.value(); }

  Limiter& limiter_;
  Check check_{*this, &CheckCall::OnDecided};               // by the store
  Check local_check_{*this, &CheckCall::OnLocallyDecided};  // by the local store, where it fails
  SteadyTime received_;
  SteadyTime asked_;  // when the store was asked
  std::shared_ptr<const RulesInForce> rules_;
  MatchResult matched_;
  std::string keys_;                           // backs the keys of check_.counters
  std::vector<Fallback::LocalCounter> local_;  // of local_check_
  std::array<std::uint8_t, 16> lease_bits_{};  // the random part of check_.lease's id
  bool has_enforced_ = false;                  // an enforced limit applies
  bool exempt_ = false;                        // an enforced rule matches, but no limit applies
  bool skipped_ = false;                       // an enforced limit does not support the mode
  bool falling_back_ = false;
  bool fallback_error_ = false;  // a rule of a failed counter requires UNAVAILABLE
  Result<CheckAnswer> answer_ = CheckAnswer{};
};

}  // namespace sluice
