// CheckLimits: many checks, one answer with all of their results, in order.
//
// Loop thread only. At most kChecksPerIteration checks are started per loop iteration, so that a
// long batch does not delay other callers. When the call is cancelled, no more are started.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/loop.h"
#include "rpc/handler.h"
#include "service/batched_check_pool.h"

namespace sluice {

class CheckLimitsHandler final : public rpc::UnaryHandler, private BatchedCheck::Owner {
 public:
  static constexpr std::size_t kChecksPerIteration = 64;

  // `items` and the buffer `response` belong to the loop. Without `access` every caller is
  // admitted. All must outlive the handler.
  CheckLimitsHandler(net::Loop& loop, BatchedCheckPool& items, std::string& response,
                     const CallerAccess* access = nullptr)
      : loop_(loop), pool_(items), response_(response), access_(access) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;
  void OnCancel() override { cancelled_ = true; }

 private:
  void OnAnswered(BatchedCheck& item) override;
  void StartSome();
  void CountAnswered(std::size_t count);
  void FinishWithResults();

  net::Loop& loop_;
  BatchedCheckPool& pool_;
  std::string& response_;
  const CallerAccess* const access_;

  // State of the current call.
  BatchedCheck::Terms terms_;
  bool cancelled_ = false;
  std::vector<std::string_view> checks_;
  std::vector<std::unique_ptr<BatchedCheck>> items_;  // one for each of checks_
  std::size_t started_ = 0;
  std::size_t unanswered_ = 0;  // including those not started; one more while StartSome runs
};

}  // namespace sluice
