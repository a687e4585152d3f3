// The limiter: state shared by all check calls of a server. The current rules, the store, and the
// fallback for store failures.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "limiter/deny_cache.h"
#include "limiter/fallback.h"
#include "limiter/limiter_metrics.h"
#include "limiter/rules_in_force.h"
#include "match/rule_index.h"
#include "metrics/metrics_registry.h"
#include "store/store.h"

namespace sluice {

class Limiter {
 public:
  struct Options {
    // The store's time per check; less if the caller's deadline is nearer.
    Duration store_timeout = std::chrono::milliseconds(10);
    // Whether to deny checks of full counters without asking the store. Not useful if the store is
    // in this process.
    bool deny_cache = false;
  };

  // What a limiter uses. All of it must outlive the limiter.
  struct Parts {
    Store& store;
    // Decides for rules with `on_store_failure: local` while `store` fails.
    Store& local;
    Fallback& fallback;
    MetricsRegistry& metrics;
  };

  // Starts with no rules.
  Limiter(const Parts& parts, const Options& options);

  // Uses `rules` for every call started from now on; running calls keep theirs.
  void SetRules(std::shared_ptr<const RuleIndex> rules);

  // The rules in force; never null.
  std::shared_ptr<const RulesInForce> rules() const;

  // Like rules(), but locks only once per thread and reload. Threads keep a weak reference:
  // replaced rules are freed with the last running call, even if a thread is idle.
  std::shared_ptr<const RulesInForce> RulesForThisThread() const;

  // For the admin commands; requests use CheckCall.
  Store& store() const { return parts_.store; }
  Store& local_store() const { return parts_.local; }
  Fallback& fallback() const { return parts_.fallback; }
  const LimiterMetrics& metrics() const { return metrics_; }

  // Releases a lease whose holder never received its id. Reports no result.
  void GiveLeaseBack(std::string_view lease_id) const;

  // Sets the deadline for the store, so that an answer to `check` reaches a caller who asked `now`
  // and waits until `deadline` in time.
  void SetDeadlines(StoreCheck& check, SteadyTime now, SteadyTime deadline) const;

 private:
  friend class CheckCall;

  // False if the store is the local one: then nothing is remembered for failures.
  bool falls_back() const { return &parts_.store != &parts_.local; }

  const Parts parts_;
  const Options options_;
  const LimiterMetrics metrics_;
  DenyCache deny_cache_{parts_.fallback.clearings};
  mutable Mutex mutex_;
  std::shared_ptr<const RulesInForce> rules_ SLUICE_GUARDED_BY(mutex_);
  // Changes with rules_; unique over all limiters of the process.
  std::atomic<std::uint64_t> generation_{0};
};

}  // namespace sluice
