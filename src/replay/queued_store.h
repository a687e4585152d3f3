// The embedded store of a server in virtual time. Each check is decided with the virtual time at
// which it was submitted. But several checks are decided together: it takes longer to fetch
// counters from memory than to decide, and the counters of several checks are fetched in parallel.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "store/memory/memory_store.h"
#include "store/store.h"

namespace sluice::replay {

class QueuedStore final : public Store {
 public:
  // The maximum number of waiting checks.
  static constexpr std::size_t kQueued = 16;

  explicit QueuedStore(std::size_t max_memory)
      : counters_(clock_, {.max_keys = ~std::size_t{0} >> 1, .max_memory = max_memory}) {}

  // The time of checks submitted from now on.
  void SetTime(Time now) { now_ = now; }

  void Submit(StoreCheck& check) override {
    waiting_.push_back({&check, now_});
    for (const CounterCheck& counter : check.counters) keys_.push_back(counter.key);
    if (waiting_.size() == kQueued) DecideAll();
  }
  void Reset(StoreReset& reset) override { counters_.Reset(reset); }
  void Undo(const StoreCheck& check) override { counters_.Undo(check); }
  bool Settle(const StoreCheck& settle) override { return counters_.Settle(settle); }
  std::size_t PartOf(std::string_view key) const override { return counters_.PartOf(key); }

  // Decides the waiting checks, in order.
  void DecideAll() {
    counters_.Prefetch(keys_);
    for (const Waiting& next : waiting_) {
      clock_.Set(next.at);
      deciding_ = next.check;
      counters_.Submit(*next.check);
    }
    deciding_ = nullptr;
    waiting_.clear();
    keys_.clear();
  }

  // The check that is being decided; null if none is.
  const StoreCheck* deciding() const { return deciding_; }
  std::size_t counters() const { return counters_.size(); }
  const Clock& clock() const { return clock_; }

 private:
  struct Waiting {
    StoreCheck* check = nullptr;
    Time at;
  };

  ManualClock clock_{Time()};
  MemoryStore counters_;
  Time now_;
  std::vector<Waiting> waiting_;
  std::vector<std::string_view> keys_;  // of the waiting checks
  const StoreCheck* deciding_ = nullptr;
};

}  // namespace sluice::replay
