// The policies of rules (`on_store_failure`) applied to one check whose counters failed in the
// store, or must not be decided there. The rule's policy decides each such counter. The check is
// then decided by all counters together.
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
  // `check` is the check that was submitted to the store. Both references must outlive this.
  FailurePolicy(Limiter& limiter, StoreCheck& check) : limiter_(limiter), check_(check) {}

  // Whether this server decides the check, which has not been submitted, because of a grace period
  // (see Fallback). If so, marks the check's counters as failed. `limits` are the answers to its
  // counters.
  bool AvoidsStore(std::span<const LimitAnswer> limits, bool charge_decides) const;

  // Decides the counters that failed and fills in their answers.
  void Apply(CheckAnswer& answer);

  // After Apply: a rule requires an error, and no limit denies the check.
  bool requires_error() const { return error_ && !denied_; }

  // After Apply: for each of the check's counters, in their order, the pending charge that its
  // units were added to, if any. Or empty.
  std::span<const std::optional<PendingCharges::Added>> added_charges() const {
    return added_charges_;
  }

  // Called instead of Apply if the caller no longer waits: no policy decides.
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
  std::vector<Fallback::LocalCounter> local_;  // of `counters`, which are decided locally
  std::vector<std::optional<PendingCharges::Added>> added_charges_;
  bool error_ = false;  // a rule of a failed counter requires UNAVAILABLE
  bool denied_ = false;
};

}  // namespace sluice
