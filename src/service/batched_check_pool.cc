#include "service/batched_check_pool.h"

#include <utility>

namespace sluice {

std::unique_ptr<BatchedCheck> BatchedCheckPool::Take() {
  if (idle_.empty()) return std::make_unique<BatchedCheck>(limiter_);
  auto item = std::move(idle_.back());
  idle_.pop_back();
  return item;
}

void BatchedCheckPool::PutBack(std::unique_ptr<BatchedCheck> item) {
  if (idle_.size() < kMaxIdle && item->memory() <= kMaxItemMemory) idle_.push_back(std::move(item));
}

}  // namespace sluice
