// One check of a message that carries many: decided by itself, answered as one of the results.
// Meant to be reused, from whichever call: its memory is kept.
#pragma once

#include <string>
#include <string_view>

#include "limiter/check_call.h"

namespace sluice {

class CheckItem final : private CheckCall {
 public:
  // Who has messages of checks answered.
  class Owner {
   public:
    // `item` has its result, and is the owner's again. On any thread, possibly before Start
    // returns; of many items, on many threads at once. Must not block.
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
    Owner& owner;
  };

  // `limiter` must outlive the item.
  explicit CheckItem(Limiter& limiter) : CheckCall(limiter) {}

  // Decides the CheckLimitRequest that `bytes` are, which must live until OnAnswered. What is wrong
  // with it is its result, too. Returns whether it is one that gives back.
  bool Start(std::string_view bytes, const Terms& terms);

  // A copy of `bytes` to Start with, for an owner who will not have them so long.
  std::string_view Keep(std::string_view bytes);
  std::size_t kept_bytes() const { return kept_bytes_; }

  // From OnAnswered on: a serialized CheckLimitsResponse with one result. Such messages one after
  // the other are a message with all of their results.
  const std::string& result() const { return result_; }

 private:
  void OnAnswer(const Result<CheckAnswer>& answer) override;

  Owner* owner_ = nullptr;
  std::string_view request_id_;
  std::string kept_;
  std::size_t kept_bytes_ = 0;
  std::string result_;
};

}  // namespace sluice
