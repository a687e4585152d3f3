#include "service/check_item_pool.h"

#include <utility>

namespace sluice {

std::unique_ptr<CheckItem> CheckItemPool::Take() {
  if (idle_.empty()) return std::make_unique<CheckItem>(limiter_);
  auto item = std::move(idle_.back());
  idle_.pop_back();
  return item;
}

void CheckItemPool::PutBack(std::unique_ptr<CheckItem> item) {
  if (idle_.size() < kMaxIdle && item->memory() <= kMaxItemMemory) idle_.push_back(std::move(item));
}

}  // namespace sluice
