// Decides one check if at least one of its counters failed in the store or must not be decided
// there. For each such counter, the policy of its rule (`on_store_failure`) decides. All counters
// together then decide the check.
//
// One io thread. Keeps its memory between checks.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "limiter/check_answer.h"
#include "limiter/fallback.h"
#include "store/store.h"

namespace sluice {

class Limiter;

class FailurePolicy final : private StoreCheck {
 public:
  // `check` is submitted to the store by the owner. `limiter` and `check` must outlive this.
  FailurePolicy(Limiter& limiter, StoreCheck& check) : limiter_(limiter), check_(check) {}

  // Called before the check is submitted. Returns whether this server must decide the check,
  // because of a grace period (see Fallback). If so, marks the check's counters as failed. `limits`
  // has one answer for each counter of the check. `charge_decides`: as in CheckRequest.
  bool AvoidsStore(std::span<const LimitAnswer> limits, bool charge_decides) const;

  // Decides each counter that failed, and fills in the answers for all counters.
  void Apply(CheckAnswer& answer);

  // After Apply: whether a rule requires an error and no limit denies the check.
  bool requires_error() const { return error_ && !denied_; }

  // After Apply: for each counter of the check, in order, the pending charge to which the counter's
  // units were added, if any. The span is empty if no charge can be pending.
  std::span<const std::optional<PendingCharges::Added>> added_charges() const {
    return added_charges_;
  }

  // Called instead of Apply if the caller no longer waits. No policy decides; what a kConsume may
  // have taken from the store is undone.
  void GiveUp() const;

 private:
  void FollowPolicy(LimitAnswer& limit, StoreFailure failure);
  void DecideLocally();
  // The local store has decided.
  void OnDecided() override;
  void RecordCharges();
  void CountLostWrite() const;

  Limiter& limiter_;
  StoreCheck& check_;
  CheckAnswer* answer_ = nullptr;
  std::vector<Fallback::LocalCounter> local_;  // owns what `counters` of this StoreCheck point to
  std::vector<std::optional<PendingCharges::Added>> added_charges_;
  bool error_ = false;  // a rule of a failed counter requires UNAVAILABLE
  bool denied_ = false;
};

}  // namespace sluice
