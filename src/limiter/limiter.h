// The limiter: what all calls of a server share, such as the current rules, the store, and the
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
#include "limiter/active_rules.h"
#include "limiter/deny_cache.h"
#include "limiter/fallback.h"
#include "limiter/grant_table.h"
#include "limiter/limiter_metrics.h"
#include "limiter/top_keys.h"
#include "match/rule_index.h"
#include "metrics/metrics_registry.h"
#include "store/store.h"

namespace sluice {

class Limiter {
 public:
  struct Options {
    // How long a check waits for the store; less if the caller's deadline is nearer.
    Duration store_timeout = std::chrono::milliseconds(10);
    // Whether remembered denials, and grants that this server holds, decide checks without the
    // store. Not useful if the store is in this process.
    bool deny_cache = false;
  };

  // What a limiter uses. All of it must outlive the limiter.
  struct Dependencies {
    Store& store;
    // Decides for rules with `on_store_failure: local` while `store` fails. Answers a check before
    // its Submit returns.
    Store& local;
    Fallback& fallback;
    MetricsRegistry& metrics;
  };

  // Starts with no rules.
  Limiter(const Dependencies& dependencies, const Options& options);

  // Uses `rules` for every call started from now on; running calls keep theirs.
  void SetRules(std::shared_ptr<const RuleIndex> rules);

  // The rules in force; never null.
  std::shared_ptr<const ActiveRules> rules() const;

  // Like rules(), but locks only once per thread and reload. Threads keep only a weak reference, so
  // replaced rules are freed after the last call that uses them, even if a thread is idle.
  std::shared_ptr<const ActiveRules> RulesForThisThread() const;

  // For the calls of this folder and the admin commands.
  Store& store() const { return uses_.store; }
  Store& local_store() const { return uses_.local; }
  Fallback& fallback() const { return uses_.fallback; }
  DenyCache& deny_cache() { return deny_cache_; }
  // Only useful if the store is in another process.
  GrantTable& grants() { return grants_; }
  TopKeys& top_keys() { return top_keys_; }
  const LimiterMetrics& metrics() const { return metrics_; }
  const Options& options() const { return options_; }

  // False if the store is the local store: then nothing is remembered for outages.
  bool falls_back() const { return &uses_.store != &uses_.local; }

  // Settles a lease whose holder never received its id, as if nothing had been taken. Reports no
  // result.
  void GiveLeaseBack(std::string_view lease_id) const;

  // Sets the deadlines by which the store must decide `check`, so that a caller who asked at `now`
  // and waits until `deadline` gets the answer in time.
  void SetDeadlines(StoreCheck& check, SteadyTime now, SteadyTime deadline) const;

 private:
  const Dependencies uses_;
  const Options options_;
  const LimiterMetrics metrics_;
  DenyCache deny_cache_{uses_.fallback.clearings};
  GrantTable grants_{uses_.store, uses_.fallback.clearings, uses_.metrics};
  TopKeys top_keys_;
  mutable Mutex mutex_;
  std::shared_ptr<const ActiveRules> rules_ SLUICE_GUARDED_BY(mutex_);
  // Changes with rules_; unique over all limiters of the process.
  std::atomic<std::uint64_t> generation_{0};
};

}  // namespace sluice
