#include "replay/queued_store.h"

namespace sluice::replay {

void QueuedStore::Submit(StoreCheck& check) {
  waiting_.push_back({&check, now_});
  for (const CounterCheck& counter : check.counters) keys_.push_back(counter.key);
  if (waiting_.size() == kQueued) DecideAll();
}

void QueuedStore::DecideAll() {
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

}  // namespace sluice::replay
