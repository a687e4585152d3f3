// One check from a front end (gRPC, HTTP) to its answer. A front end derives from CheckCall, fills
// `request`, calls Start, and receives the answer in OnAnswer. Reusable: its memory is kept between
// calls.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "limiter/check_answer.h"
#include "limiter/check_lease.h"
#include "limiter/check_request.h"
#include "limiter/deny_cache.h"
#include "limiter/failure_policy.h"
#include "limiter/matched_limits.h"
#include "store/store.h"

namespace sluice {

class ActiveRules;
class Limiter;

class CheckCall {
 public:
  explicit CheckCall(Limiter& limiter) : limiter_(limiter) {}
  virtual ~CheckCall() = default;

  // Filled before Start. The data that the request refers to must live until OnAnswer returns.
  CheckRequest request;

  // Decides the request and calls OnAnswer exactly once, on the same thread, possibly before Start
  // returns. Once OnAnswer has been called, the call may be started again, even before OnAnswer
  // returns. `received` is when the front end started to handle the request.
  void Start(SteadyTime received = SteadyNow());

 protected:
  // Counts the error and passes it to OnAnswer. A front end calls Refuse instead of Start, for
  // example if the request cannot be parsed.
  void Refuse(Error error);

  // Called by a front end in OnAnswer. Returns a function that releases the answer's lease; empty
  // if there is no lease. If the answer cannot be delivered, the front end must call the function,
  // on an io thread: otherwise, the lease's slots or units stay taken until the lease expires. The
  // function may outlive this CheckCall, but not the limiter.
  std::function<void()> LeaseReturn() const;

  // Called by a front end in OnAnswer when the answer is ready to send.
  void ObserveDuration() const;

 private:
  struct Check final : StoreCheck {
    explicit Check(CheckCall& owner) : call(owner) {}
    void OnDecided() override { call.OnDecided(); }

    CheckCall& call;
  };

  // `answer` and its rules are valid until OnAnswer returns. Must not block.
  virtual void OnAnswer(const Result<CheckAnswer>& answer) = 0;

  // The steps of a check, in order.
  void Reset();
  void MatchRules();
  void FindUncountedAmounts();
  void DecideByRule(const RuleMatch& match);
  void AskStore();
  void OnDecided();
  void DecideByStore(Source source);
  void OnFailure();
  void ApplyPolicy();
  void DecideByVerdicts(Source source);
  void CountVerdicts(bool taken);
  void Answer(Decision decision, Source source);
  void NameLease();
  void DeliverAnswer();
  void RefuseLate();

  DenyCache::Asked Asked() const {
    return {.check = check_, .at = asked_, .charge_decides = request.charge_decides};
  }
  CheckAnswer& answer() { return answer_.value(); }

  Limiter& limiter_;
  Check check_{*this};  // in the store
  SteadyTime received_;
  SteadyTime asked_;  // when the check was submitted to the store
  std::shared_ptr<const ActiveRules> rules_;
  MatchedLimits matched_;
  CheckLease lease_;
  FailurePolicy policy_{limiter_, check_};
  Result<CheckAnswer> answer_ = CheckAnswer{};
};

}  // namespace sluice
