// The limiter: what all check calls of a server share. Rules in force, the store, and what to do
// when the store fails.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/mutex.h"
#include "match/rule_index.h"
#include "store/store.h"

namespace sluice {

class Limiter {
 public:
  struct Options {
    Duration store_timeout = std::chrono::milliseconds(10);
  };

  // `store`, `local` and `clock` must outlive the limiter. `local` decides for rules with
  // `on_store_failure: local` while the store fails.
  Limiter(Store& store, Store& local, const Clock& clock, const Options& options);

  // Puts `rules` in force for every call started from now on; calls under way keep theirs.
  void SetRules(std::shared_ptr<const RuleIndex> rules);

  // The rules in force; never null.
  std::shared_ptr<const RuleIndex> rules() const;

 private:
  friend class CheckCall;

  Store& store_;
  Store& local_;
  const Clock& clock_;
  const Options options_;
  mutable Mutex mutex_;
  std::shared_ptr<const RuleIndex> rules_ SLUICE_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> generation_{0};
};

}  // namespace sluice
