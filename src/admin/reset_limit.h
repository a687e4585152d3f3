// Makes the counters a request leads to as new: for operators who let somebody go on.
//
// Loop thread only, as checks are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "limiter/check_request.h"
#include "store/store.h"

namespace sluice {

class Limiter;

// One reset. Derived classes call Start and are answered by OnReset. May be started again from then
// on.
class ResetCall {
 public:
  explicit ResetCall(Limiter& limiter) : limiter_(limiter), local_(*this), shared_(*this) {}
  virtual ~ResetCall() = default;
  ResetCall(const ResetCall&) = delete;
  ResetCall& operator=(const ResetCall&) = delete;

  // Resets the counters of every rule that matches `request`, or of `rule` alone unless that is
  // empty: in the store, for the whole fleet, and this server's own copies of them for outages.
  // What is viewed must live until OnReset, which is called exactly once, at most about two seconds
  // later, possibly before Start returns.
  void Start(const CheckRequest& request, std::string_view rule);

 private:
  struct LocalReset final : StoreReset {
    explicit LocalReset(ResetCall& owner) : call(owner) {}
    void OnReset() override { call.ResetShared(); }

    ResetCall& call;
  };
  struct SharedReset final : StoreReset {
    explicit SharedReset(ResetCall& owner) : call(owner) {}
    void OnReset() override { call.OnSharedReset(); }

    ResetCall& call;
  };

  // The counters' keys, used or not. Fails with kNotFound if `rule` does not match or lacks an
  // attribute, with kUnavailable if the store did not do it.
  virtual void OnReset(Result<std::vector<std::string>> keys) = 0;

  void ResetIn(Store& store, StoreReset& reset);
  void ResetShared();
  void OnSharedReset();

  Limiter& limiter_;
  std::string_view domain_;
  SteadyTime deadline_;
  std::vector<std::string> keys_;
  LocalReset local_;
  SharedReset shared_;
};

}  // namespace sluice
