// The unused BatchedChecks of one io thread. Keeps as many as recent load needs, not as many as
// were ever needed.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "service/batched_check.h"

namespace sluice {

class BatchedCheckPool {
 public:
  // `limiter` must outlive the pool and its items.
  explicit BatchedCheckPool(Limiter& limiter) : limiter_(limiter) {}

  std::unique_ptr<BatchedCheck> Take();
  void PutBack(std::unique_ptr<BatchedCheck> item);

 private:
  static constexpr std::size_t kMaxIdle = 4096;
  // An item that holds more memory is not kept.
  static constexpr std::size_t kMaxItemMemory = 8192;

  Limiter& limiter_;
  std::vector<std::unique_ptr<BatchedCheck>> idle_;
};

}  // namespace sluice
