// A set of in-order checks of a Cluster that are delayed. It finds the checks that must wait for
// them: later in-order checks that share a counter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

#include "store/redis/pending_check.h"

namespace sluice::redis {

class DelayedChecks {
 public:
  // The check must outlive this object.
  void Add(const PendingCheck& check) {
    for (const CounterCheck& counter : CountersOf(check)) {
      std::uint64_t& first = first_.try_emplace(counter.key, check.number).first->second;
      first = std::min(first, check.number);
    }
  }

  // Whether a check of the set arrived before `check` and shares a counter with it.
  bool MustPrecede(const PendingCheck& check) const {
    return std::ranges::any_of(CountersOf(check), [&](const CounterCheck& counter) {
      const auto first = first_.find(counter.key);
      return first != first_.end() && first->second < check.number;
    });
  }

 private:
  static std::span<const CounterCheck> CountersOf(const PendingCheck& check) {
    if (!check.check->in_order) return {};
    return check.check->counters;
  }

  std::unordered_map<std::string_view, std::uint64_t> first_;  // by key: the first check's number
};

}  // namespace sluice::redis
