// One check on its way from a door (gRPC, HTTP) to its answer. A door derives from CheckCall, fills
// `request`, calls Start, and hears the answer in OnAnswer. Meant to be reused call after call: its
// memory is kept.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "limiter/check_answer.h"
#include "limiter/check_request.h"
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

  // To be filled before Start; what it views must live until OnAnswer returns.
  CheckRequest request;

  // Decides the request and calls OnAnswer exactly once, on the same thread, possibly before
  // Start returns. The call may be started again from then on. `received` is when the door
  // began with the request.
  void Start(SteadyTime received = SteadyNow());

 protected:
  // Counts the error and hands it to OnAnswer. For a door: instead of Start, if there is no
  // request.
  void Refuse(Error error);

  // For a door to call in OnAnswer. Gives the answer's lease back when it is called: if the caller
  // does not get the answer, the lease would keep its slots until its time is over. Empty if there
  // is no lease. May outlive the call, not the limiter; io threads only.
  std::function<void()> LeaseReturn() const;

  // For a door to call in OnAnswer, when the answer is ready to leave.
  void ObserveDuration() const;

 private:
  struct Check final : StoreCheck {
    using Step = void (CheckCall::*)();
    Check(CheckCall& owner, Step then) : call(owner), next_step(then) {}
    void OnDecided() override { (call.*next_step)(); }

    CheckCall& call;
    const Step next_step;
  };

  // `answer`, and the rules it names, are valid until OnAnswer returns. Must not block.
  virtual void OnAnswer(const Result<CheckAnswer>& answer) = 0;

  // The steps of a check, in the order they are taken.
  void Reset();
  void AskStore();
  void OnDecided();
  void LearnStates(SteadyTime now);
  void DecideByVerdicts();
  void Answer(Decision decision, Source source);
  void HandOver();

  // What the rules say; in check_rules.cc.
  bool DecideByRules();
  void CollectCounters();
  void AddCounter(const RuleMatch& match, const IndexedLimit& limit, std::uint16_t group);
  bool HasNoLimitForMode() const { return check_.counters.empty() && skipped_; }
  // The decision where no enforced limit has a say, and its source.
  Decision DecisionWithoutLimits() const;
  Source SourceWithoutLimits() const { return exempt_ ? Source::kRule : Source::kNoRule; }

  // What this server knows without the store; in check_deny_cache.cc.
  bool DenyFromCache();
  void RememberDenials();

  // What concurrency limits need; in check_lease.cc. Fails if no lease could name their counters.
  Result<void> PrepareLease();
  void NameLease();
  void CollectSlots(Source taken_by, std::vector<std::string_view>& keys) const;

  // What is done instead when the store fails; in check_fallback.cc.
  void OnFailure();
  bool StaysLocal();
  void RefuseLate();
  void FallBack();
  void FollowPolicy(LimitAnswer& limit, StoreFailure failure);
  void DecideLocally();
  void OnLocallyDecided();
  void FinishFallback();
  void TakeBack();
  void OweStore();
  void CountLostWrite() const;

  CheckAnswer& answer() { return answer_.value(); }

  Limiter& limiter_;
  Check check_{*this, &CheckCall::OnDecided};               // by the store
  Check local_check_{*this, &CheckCall::OnLocallyDecided};  // by the local store, where it fails
  SteadyTime received_;
  SteadyTime asked_;  // the store
  std::shared_ptr<const RulesInForce> rules_;
  MatchResult matched_;
  std::string keys_;                           // backs the keys of check_.counters
  std::vector<Fallback::LocalCounter> local_;  // of local_check_
  std::array<std::uint8_t, 16> lease_bits_{};  // what check_.lease was named by
  bool has_enforced_ = false;                  // an enforced limit has a say
  bool exempt_ = false;                        // an enforced rule matches whose limits have no say
  bool skipped_ = false;                       // an enforced limit does not support the mode
  bool falling_back_ = false;
  bool fallback_error_ = false;  // a rule of a failed counter wants UNAVAILABLE
  Result<CheckAnswer> answer_ = CheckAnswer{};
};

}  // namespace sluice
