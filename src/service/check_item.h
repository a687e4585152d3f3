// One check of a message that carries many: decided by itself, answered as one of the results.
// Reused from call to call; see CheckItemPool.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "limiter/check_call.h"

namespace sluice {

class CheckItem final : private CheckCall {
 public:
  class Owner {
   public:
    // `item` has its result, and is the owner's again. Possibly before Start returns.
    virtual void OnAnswered(CheckItem& item) = 0;

   protected:
    ~Owner() = default;
  };

  // What is the same for all checks of a message.
  struct Terms {
    SteadyTime received;
    SteadyTime deadline = SteadyTime::max();
    bool in_order = false;   // as in CheckRequest
    bool ask_store = false;  // as in CheckRequest
  };

  // `limiter` must outlive the item.
  explicit CheckItem(Limiter& limiter) : CheckCall(limiter) {}

  // Decides the CheckLimitRequest that `bytes` are, which must live until OnAnswered. If it is
  // malformed, the result says so. Returns whether the check is a refund.
  bool Start(std::string_view bytes, const Terms& terms, Owner& owner);

  // Keeps a copy of `bytes`, for an owner whose own copy does not live until OnAnswered.
  void Keep(std::string_view bytes) { kept_ = bytes; }
  const std::string& kept() const { return kept_; }

  // From OnAnswered on: a serialized CheckLimitsResponse with one result.
  const std::string& result() const { return result_; }

  // From OnAnswered on: gives back the lease that the result names, for an owner whose caller does
  // not get the result. Empty if there is no lease.
  const std::function<void()>& lease_return() const { return lease_return_; }

  // Bytes that the item holds for its next check, too.
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
