// CheckItems of one io thread that are not in use. Keeps what a busy moment needs again, not what
// the busiest one ever needed.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "service/check_item.h"

namespace sluice {

class CheckItemPool {
 public:
  // `limiter` must outlive the pool and its items.
  explicit CheckItemPool(Limiter& limiter) : limiter_(limiter) {}

  std::unique_ptr<CheckItem> Take();
  void PutBack(std::unique_ptr<CheckItem> item);

 private:
  static constexpr std::size_t kMaxIdle = 4096;
  // An item that holds more is not kept.
  static constexpr std::size_t kMaxItemMemory = 8192;

  Limiter& limiter_;
  std::vector<std::unique_ptr<CheckItem>> idle_;
};

}  // namespace sluice
