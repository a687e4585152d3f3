// The long batches of one io thread, in order of arrival. A batch starts its checks after those of
// earlier batches. So an iteration of the loop starts a bounded number of checks, and few batches
// hold results.
//
// Loop thread only. Must outlive its batches.
#pragma once

#include <cstddef>
#include <deque>

#include "net/loop.h"

namespace sluice {

class BatchQueue {
 public:
  static constexpr std::size_t kChecksPerIteration = 128;

  class Batch {
   public:
    // Starts at most `budget` more checks and subtracts them from `budget`. Returns whether checks
    // are left.
    virtual bool StartSome(std::size_t& budget) = 0;

   protected:
    ~Batch() = default;
  };

  explicit BatchQueue(net::Loop& loop) : loop_(loop) {}

  // Calls `batch.StartSome` in later iterations until no check is left.
  void Add(Batch& batch);

 private:
  void Run();
  void Post();

  net::Loop& loop_;
  std::deque<Batch*> batches_;
  bool posted_ = false;
};

}  // namespace sluice
