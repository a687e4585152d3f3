#include "service/check_item_pool.h"

namespace sluice {

void CheckItemPool::Fill(Items& items, std::size_t count) {
  items.reserve(count);
  {
    const MutexLock lock(mutex_);
    for (; items.size() < count && !idle_.empty(); idle_.pop_back()) {
      items.push_back(std::move(idle_.back()));
    }
  }
  while (items.size() < count) items.push_back(std::make_unique<CheckItem>(limiter_));
}

void CheckItemPool::TakeBack(Items& items) {
  {
    const MutexLock lock(mutex_);
    for (; !items.empty() && idle_.size() < kMaxIdle; items.pop_back()) {
      idle_.push_back(std::move(items.back()));
    }
  }
  items.clear();
}

}  // namespace sluice
