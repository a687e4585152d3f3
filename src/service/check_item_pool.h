// CheckItems that are not in use, for all calls that need some. Keeps what a busy moment needs
// again, not what the busiest ever needed.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "service/check_item.h"

namespace sluice {

class CheckItemPool {
 public:
  using Items = std::vector<std::unique_ptr<CheckItem>>;

  // `limiter` must outlive the pool and its items.
  explicit CheckItemPool(Limiter& limiter) : limiter_(limiter) {}

  // Adds items to `items` until there are `count`.
  void Fill(Items& items, std::size_t count);

  // Takes all of `items` back.
  void TakeBack(Items& items);

 private:
  static constexpr std::size_t kMaxIdle = 4096;

  Limiter& limiter_;
  Mutex mutex_;
  Items idle_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
