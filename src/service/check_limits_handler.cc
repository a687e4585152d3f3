#include "service/check_limits_handler.h"

#include <functional>
#include <utility>

#include "api/check_message.h"

namespace sluice {

void BatchQueue::Add(CheckLimitsHandler& batch) {
  batches_.push_back(&batch);
  if (!posted_) Post();
}

void BatchQueue::Post() {
  posted_ = true;
  loop_.Post([this] { Run(); });
}

// A batch is removed from the queue before its checks are started: when StartSome has started the
// last check, the batch may already be in the queue again, for another call.
void BatchQueue::Run() {
  std::size_t budget = kChecksPerIteration;
  while (budget > 0 && !batches_.empty()) {
    CheckLimitsHandler& batch = *batches_.front();
    batches_.pop_front();
    if (batch.StartSome(budget)) batches_.push_front(&batch);
  }
  posted_ = false;
  if (!batches_.empty()) Post();
}

void CheckLimitsHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  context_ = {.received = call.received(), .deadline = call.deadline(), .in_order = true};
  if (access_ != nullptr) {
    const auto caller = access_->Identify(call);
    if (!caller) return Finish(ToStatus(caller.error()));
    context_.access = access_;
    context_.caller = *caller;
  }
  if (const auto parsed = ParseChecks(bytes, checks_); !parsed) {
    return Finish(ToStatus(parsed.error()));
  }
  canceled_ = false;
  unanswered_ = checks_.size();
  if (checks_.size() > kShort) return queue_.Add(*this);
  std::size_t budget = kShort;
  StartSome(budget);
}

// A refund makes room for the checks that follow it, so these checks ask the store even if this
// server remembers a denial.
bool CheckLimitsHandler::StartSome(std::size_t& budget) {
  ++unanswered_;
  if (canceled_) {
    CountAnswered(checks_.size() - items_.size());
    checks_.resize(items_.size());
  }
  for (; budget > 0 && items_.size() < checks_.size(); --budget) {
    const std::string_view check = checks_[items_.size()];
    items_.push_back(pool_.Take());
    context_.ask_store |= items_.back()->Start(check, context_, *this);
  }
  const bool more = items_.size() < checks_.size();
  CountAnswered(1);
  return more;
}

void CheckLimitsHandler::OnAnswered(BatchedCheck&) { CountAnswered(1); }

void CheckLimitsHandler::CountAnswered(std::size_t count) {
  unanswered_ -= count;
  if (unanswered_ == 0) FinishWithResults();
}

void CheckLimitsHandler::FinishWithResults() {
  constexpr std::size_t kMaxKeptResponse = 256 * 1024;  // a larger buffer is freed
  response_.clear();
  std::vector<std::function<void()>> lease_returns;
  for (auto& item : items_) {
    response_ += item->result();
    if (item->lease_return()) lease_returns.push_back(item->lease_return());
    pool_.PutBack(std::move(item));
  }
  items_.clear();
  std::function<void()> on_lost;
  if (!lease_returns.empty()) {
    on_lost = [returns = std::move(lease_returns)] {
      for (const auto& give_back : returns) give_back();
    };
  }
  Finish(response_, std::move(on_lost));
  if (response_.capacity() > kMaxKeptResponse) response_ = std::string();
}

}  // namespace sluice
