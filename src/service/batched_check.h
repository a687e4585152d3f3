// One check of a message with many checks: decided separately, answered as one of the results.
// Reused between calls; see BatchedCheckPool.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "api/caller_access.h"
#include "limiter/check_call.h"

namespace sluice {

class BatchedCheck final : private CheckCall {
 public:
  class Owner {
   public:
    // `item` has its result, and belongs to the owner again. Possibly called before Start returns.
    virtual void OnAnswered(BatchedCheck& item) = 0;

   protected:
    ~Owner() = default;
  };

  // The parameters shared by all checks of a message.
  struct Terms {
    SteadyTime received;
    SteadyTime deadline = SteadyTime::max();
    bool in_order = false;   // as in CheckRequest
    bool ask_store = false;  // as in CheckRequest
    // Access control for the checks. Null: every caller is admitted.
    const CallerAccess* access = nullptr;
    const Caller* caller = nullptr;
  };

  // `limiter` must outlive the item.
  explicit BatchedCheck(Limiter& limiter) : CheckCall(limiter) {}

  // Decides the serialized CheckLimitRequest in `bytes`, which must live until OnAnswered. If it is
  // malformed, the result is an error. Returns whether the check is a refund.
  bool Start(std::string_view bytes, const Terms& terms, Owner& owner);

  // Keeps a copy of `bytes`, for an owner whose own copy does not live until OnAnswered.
  void Keep(std::string_view bytes) { kept_ = bytes; }
  const std::string& kept() const { return kept_; }

  // From OnAnswered on: a serialized CheckLimitsResponse with one result.
  const std::string& result() const { return result_; }

  // From OnAnswered on: releases the lease in the result, for an owner whose caller does not
  // receive the result. Empty if there is no lease.
  const std::function<void()>& lease_return() const { return lease_return_; }

  // Bytes that the item keeps for its next check.
  std::size_t memory() const { return kept_.capacity() + result_.capacity(); }

 private:
  void OnAnswer(const Result<CheckAnswer>& answer) override;

  Owner* owner_ = nullptr;
  std::string_view request_id_;
  std::string kept_;
  std::string result_;
  std::function<void()> lease_return_;
};

}  // namespace sluice
