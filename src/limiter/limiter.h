// The limiter: what all check calls of a server share. The rules in force, the store, and what
// decides when the store fails.
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
    // What the store is given per check; less if the caller's deadline is nearer.
    Duration store_timeout = std::chrono::milliseconds(10);
    // Whether to deny what is known to be full without asking the store. Not worth it where the
    // store is this process' own.
    bool deny_cache = false;
  };

  // What a limiter needs; all of it must outlive the limiter.
  struct Parts {
    Store& store;
    // Decides for rules with `on_store_failure: local` while `store` fails.
    Store& local;
    Fallback& fallback;
    MetricsRegistry& metrics;
  };

  // Starts with no rules.
  Limiter(const Parts& parts, const Options& options);

  // Puts `rules` in force for every call started from now on; calls under way keep theirs.
  void SetRules(std::shared_ptr<const RuleIndex> rules);

  // The rules in force; never null.
  std::shared_ptr<const RulesInForce> rules() const;

  // For what operators ask; requests go through CheckCall.
  Store& store() const { return parts_.store; }
  Store& local_store() const { return parts_.local; }
  Fallback& fallback() const { return parts_.fallback; }
  const LimiterMetrics& metrics() const { return metrics_; }

  // Units were given back to a counter: what is known of it holds no more.
  void ForgetState(std::string_view key) {
    deny_cache_.Forget(key);
    parts_.fallback.Forget(key);
  }

  // Releases a lease of this server that its holder was never told of. Tells nobody.
  void GiveLeaseBack(std::string_view lease_id) const;

  // Says by when the store must have answered `check` for a caller who asks `now` and waits until
  // `deadline`: so that the answer, too, reaches the caller in time.
  void SetDeadlines(StoreCheck& check, SteadyTime now, SteadyTime deadline) const;

 private:
  friend class CheckCall;

  // False if the store is the local one: then nothing has to be remembered for its failures.
  bool falls_back() const { return &parts_.store != &parts_.local; }

  // As rules(), but locks only once per thread and change. Threads remember the rules without
  // holding on to them: replaced ones die with the last call under way, however idle a thread is.
  std::shared_ptr<const RulesInForce> RulesForThisThread() const;

  const Parts parts_;
  const Options options_;
  const LimiterMetrics metrics_;
  DenyCache deny_cache_;
  mutable Mutex mutex_;
  std::shared_ptr<const RulesInForce> rules_ SLUICE_GUARDED_BY(mutex_);
  // Changes with rules_; unique over all limiters of the process.
  std::atomic<std::uint64_t> generation_{0};
};

}  // namespace sluice
