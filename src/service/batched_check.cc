#include "service/batched_check.h"

#include <algorithm>
#include <utility>

#include "api/answer_writer.h"

namespace sluice {

bool BatchedCheck::Start(std::string_view bytes, const BatchContext& context, Owner& owner) {
  owner_ = &owner;
  if (const auto parsed = message_.Parse(bytes, request); !parsed) {
    Refuse(parsed.error());
    return false;
  }
  if (context.access != nullptr) {
    if (const auto may = context.access->MayCheck(*context.caller, request); !may) {
      Refuse(may.error());
      return false;
    }
  }
  request.deadline = context.deadline;
  request.in_order = context.in_order;
  request.ask_store = context.ask_store;
  const bool is_refund = request.demand.mode == Mode::kRefund;
  CheckCall::Start(context.received);
  return is_refund;
}

void BatchedCheck::OnAnswer(const Result<CheckAnswer>& answer) {
  result_.clear();
  AppendResult(answer, message_.request_id(), result_);
  message_.Release();
  lease_return_ = LeaseReturn();
  if (answer) ObserveDuration();
  owner_->OnAnswered(*this);
}

std::unique_ptr<BatchedCheck> BatchedCheckPool::Take() {
  if (idle_.empty()) return std::make_unique<BatchedCheck>(limiter_);
  auto item = std::move(idle_.back());
  idle_.pop_back();
  least_idle_ = std::min(least_idle_, idle_.size());
  return item;
}

void BatchedCheckPool::PutBack(std::unique_ptr<BatchedCheck> item) {
  if (idle_.size() < kMaxIdle && item->memory() <= kMaxItemMemory) idle_.push_back(std::move(item));
}

void BatchedCheckPool::Trim() {
  idle_.erase(idle_.begin(), idle_.begin() + static_cast<std::ptrdiff_t>(least_idle_));
  least_idle_ = idle_.size();
}

}  // namespace sluice
