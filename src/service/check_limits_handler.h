// CheckLimits: many checks, one answer with all of their results, in order.
//
// Loop thread only. At most kChecksPerTurn checks are started per turn of the loop, so that a long
// batch does not hold up other callers. When the call is cancelled, no more are started.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/loop.h"
#include "rpc/handler.h"
#include "service/check_item_pool.h"

namespace sluice {

class CheckLimitsHandler final : public rpc::UnaryHandler, private CheckItem::Owner {
 public:
  static constexpr std::size_t kChecksPerTurn = 64;

  // `items` and `response`, a buffer, are the loop's; all must outlive the handler.
  CheckLimitsHandler(net::Loop& loop, CheckItemPool& items, std::string& response)
      : loop_(loop), pool_(items), response_(response) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;
  void OnCancel() override { cancelled_ = true; }

 private:
  void OnAnswered(CheckItem& item) override;
  void StartSome();
  void CountAnswered(std::size_t count);
  void FinishWithResults();

  net::Loop& loop_;
  CheckItemPool& pool_;
  std::string& response_;

  // Of one call.
  CheckItem::Terms terms_;
  bool cancelled_ = false;
  std::vector<std::string_view> checks_;
  std::vector<std::unique_ptr<CheckItem>> items_;  // one for each of checks_
  std::size_t started_ = 0;
  std::size_t unanswered_ = 0;  // with those that are not started; one more while StartSome runs
};

}  // namespace sluice
