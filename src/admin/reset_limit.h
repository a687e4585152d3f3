// Resets the counters of a request: for operators who lift a caller's denial.
//
// Loop thread only, like checks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "limiter/check_request.h"
#include "store/store.h"

namespace sluice {

class Limiter;

// One reset. Derived classes call Start and receive the result in OnReset. From then on, Start may
// be called again.
class ResetCall {
 public:
  explicit ResetCall(Limiter& limiter) : limiter_(limiter), local_(*this), shared_(*this) {}
  virtual ~ResetCall() = default;
  ResetCall(const ResetCall&) = delete;
  ResetCall& operator=(const ResetCall&) = delete;

  // Resets the counters of every rule that matches `request`. If `rule` is not empty, resets only
  // the counters of `rule`. Resets them in this server's fallback, and in the store for the whole
  // fleet. The data that `request` refers to must live until OnReset. OnReset is called exactly
  // once, at most about two seconds later, possibly before Start returns.
  void Start(CheckRequest request, std::string_view rule);

 private:
  struct Reset final : StoreReset {
    explicit Reset(ResetCall& owner) : call(owner) {}
    void OnReset() override { call.OnStoreReset(*this); }

    ResetCall& call;
  };

  // The keys of the counters, also of counters that do not exist yet. Fails with kInvalidArgument
  // if the request is not valid, with kNotFound if `rule` does not match or the request lacks an
  // attribute that `rule` needs, and with kUnavailable if the store failed.
  virtual void OnReset(Result<std::vector<std::string>> keys) = 0;

  void ForgetHere();
  void ResetIn(Store& store, Reset& reset);
  void OnStoreReset(const Reset& reset);

  Limiter& limiter_;
  std::string_view domain_;
  SteadyTime deadline_;
  std::vector<std::string> keys_;
  Reset local_;   // in this server's fallback; comes first
  Reset shared_;  // in the store, for the whole fleet
};

}  // namespace sluice
