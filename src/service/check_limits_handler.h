// CheckLimits: decides many checks, and answers with all results, in the order of the checks.
//
// Loop thread only. A batch of more than kShort checks waits for its turn (BatchQueue). When the
// call is canceled, no more checks are started.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/loop.h"
#include "rpc/handler.h"
#include "service/batched_check.h"

namespace sluice {

class CheckLimitsHandler;

// The long batches of one io thread, in order of arrival. A batch starts its checks after
// all earlier batches have started theirs, so few batches hold results at the same time. An
// iteration of the loop starts at most kChecksPerIteration of these checks. Must outlive its
// batches.
class BatchQueue {
 public:
  static constexpr std::size_t kChecksPerIteration = 128;

  explicit BatchQueue(net::Loop& loop) : loop_(loop) {}

  // Starts the checks of `batch` in later iterations.
  void Add(CheckLimitsHandler& batch);

 private:
  void Run();
  void Post();

  net::Loop& loop_;
  std::deque<CheckLimitsHandler*> batches_;
  bool posted_ = false;
};

class CheckLimitsHandler final : public rpc::UnaryHandler, private BatchedCheck::Owner {
 public:
  static constexpr std::size_t kShort = 64;

  // `queue`, `items` and the buffer `response` belong to the loop. If `access` is null, every
  // caller is admitted. All arguments must outlive the handler.
  CheckLimitsHandler(BatchQueue& queue, BatchedCheckPool& items, std::string& response,
                     const CallerAccess* access = nullptr)
      : queue_(queue), pool_(items), response_(response), access_(access) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;
  void OnCancel() override { canceled_ = true; }

 private:
  friend class BatchQueue;

  void OnAnswered(BatchedCheck& item) override;
  // Starts at most `budget` more checks and subtracts their number from `budget`. Returns whether
  // checks are left to start.
  bool StartSome(std::size_t& budget);
  void CountAnswered(std::size_t count);
  void FinishWithResults();

  BatchQueue& queue_;
  BatchedCheckPool& pool_;
  std::string& response_;
  const CallerAccess* const access_;

  // State of the current call.
  BatchContext context_;
  bool canceled_ = false;
  std::vector<std::string_view> checks_;
  std::vector<std::unique_ptr<BatchedCheck>> items_;  // one for each check that has been started
  std::size_t unanswered_ = 0;  // including checks not yet started; StartSome adds 1 while it runs
};

}  // namespace sluice
