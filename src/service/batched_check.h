// One check of a message with many checks. It is decided separately, and its answer is one of the
// message's results. A pool reuses it for other calls.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller_access.h"
#include "api/check_message.h"
#include "limiter/check_call.h"

namespace sluice {

// The parameters shared by all checks of a message.
struct BatchContext {
  SteadyTime received;
  SteadyTime deadline = SteadyTime::max();
  bool in_order = false;   // as in CheckRequest
  bool ask_store = false;  // as in CheckRequest
  // Access control for the checks. Null: every caller is admitted.
  const CallerAccess* access = nullptr;
  const Caller* caller = nullptr;
};

class BatchedCheck final : private CheckCall {
 public:
  class Owner {
   public:
    // `item` has its result, and belongs to the owner again. May be called before Start returns.
    virtual void OnAnswered(BatchedCheck& item) = 0;

   protected:
    ~Owner() = default;
  };

  // `limiter` must outlive the item.
  explicit BatchedCheck(Limiter& limiter) : CheckCall(limiter) {}

  // Decides the serialized CheckLimitRequest in `bytes`. If it is malformed, the result is an
  // error. Returns whether the check is a refund.
  bool Start(std::string_view bytes, const BatchContext& context, Owner& owner);

  // Keeps a copy of `bytes`, for an owner that cannot keep them until Start.
  void Keep(std::string_view bytes) { kept_ = bytes; }
  const std::string& kept() const { return kept_; }

  // From OnAnswered on: a serialized CheckLimitsResponse with one result.
  const std::string& result() const { return result_; }

  // From OnAnswered on: a function that releases the lease in the result, or empty if there is no
  // lease. The owner calls the function if the caller does not receive the result.
  const std::function<void()>& lease_return() const { return lease_return_; }

  // Bytes that the item keeps for its next check. message_ is small and not counted.
  std::size_t memory() const { return kept_.capacity() + result_.capacity(); }

 private:
  void OnAnswer(const Result<CheckAnswer>& answer) override;

  Owner* owner_ = nullptr;
  CheckMessage message_;
  std::string kept_;
  std::string result_;
  std::function<void()> lease_return_;
};

// The unused BatchedChecks of one io thread. Keeps at most kMaxIdle of them, and after a Trim only
// those that recent load has needed.
class BatchedCheckPool {
 public:
  // `limiter` must outlive the pool and its items.
  explicit BatchedCheckPool(Limiter& limiter) : limiter_(limiter) {}

  std::unique_ptr<BatchedCheck> Take();
  void PutBack(std::unique_ptr<BatchedCheck> item);

  // Destroys the items that have been unused all the time since the last Trim.
  void Trim();

 private:
  static constexpr std::size_t kMaxIdle = 4096;
  // An item that holds more memory is not kept.
  static constexpr std::size_t kMaxItemMemory = 8192;

  Limiter& limiter_;
  std::vector<std::unique_ptr<BatchedCheck>> idle_;  // the last one is used next
  std::size_t least_idle_ = 0;                       // since the last Trim
};

}  // namespace sluice
