// Keeps the active rules equal to the rule files, and to the sets of a control plane. One thread
// ("rules") waits until a file changes (RuleWatch), a reload is requested or a set is offered. It
// then reads, parses and indexes the files and the set at low priority. It activates the new rules
// as a whole, or keeps the old rules and logs the mistakes.
//
// A change is read when the files have not changed for `settle`, or two seconds after the first
// change. Files with mistakes may be half written. So, unless the two seconds have passed, they are
// read again after `second_look` before the mistakes are reported. Explicit requests (Reload,
// RequestReload) are answered from the current files.
//
// Thread-safe. Memory: during a reload, the old and the new rules exist. The old rules are freed on
// this thread, when the last call that uses them has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/rule_source.h"
#include "app/rule_reading.h"
#include "app/rule_watch.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "limiter/limiter.h"
#include "metrics/metrics_registry.h"

namespace sluice {

class RuleReloader {
 public:
  struct Options {
    RuleSources sources;
    std::chrono::milliseconds settle{100};
    std::chrono::milliseconds second_look{400};
    // Called on the reloader's thread after each requested reload.
    std::function<void(const ReloadResult&)> on_reloaded = [](const ReloadResult&) {};
    // Called with true when rules are activated, also at the start, and with false when rules are
    // refused.
    std::function<void(bool activated)> on_loaded = [](bool) {};
  };

  // All of these must outlive the reloader.
  struct Dependencies {
    Limiter& limiter;
    MetricsRegistry& metrics;
    const Clock& clock;
  };

  // Activates `first` before it returns. REQUIRES: first.ok()
  RuleReloader(const Dependencies& dependencies, Options options, RuleReading first);

  // If Reload is still waiting, it ends with an error.
  ~RuleReloader();

  // As in RuleSource.
  ReloadResult Reload();

  // Like Reload, but does not wait.
  void RequestReload();

  // Replaces the rules of the control plane by `set`, unless `set` has mistakes. If rule files have
  // mistakes, `set` waits until they are fixed. Calls `done` on the reloader's thread with the
  // mistakes, when `set` is in force or refused. If a newer set is offered before that, `done` is
  // not called. An empty set is valid.
  using Done = std::function<void(const std::vector<std::string>& mistakes)>;
  void Offer(envoy::RuleResources set, Done done);

 private:
  // Why the files are read. The reason determines whether mistakes are reported.
  enum class Reason {
    kChanged,       // the files may be half written
    kStillChanged,  // the files are complete; their mistakes may be logged already
    kAsked,
    kOffered,  // by a control plane
  };
  struct Offered {
    std::shared_ptr<const envoy::RuleResources> set;
    Done done;
  };

  std::uint64_t Ask();

  // The thread's function.
  void Run();
  void WaitForWork();
  void NoteChanges();
  bool AnswerRequests();
  void LookIfDue();
  void FreeReplaced();
  void TakeOffered();

  ReloadResult Load(Reason reason);
  ReloadResult LoadWith(std::shared_ptr<const envoy::RuleResources> resources, Reason reason);
  RuleReading Read(RuleFiles files) const;
  void RenewWatches();
  void Replace(RuleReading reading);
  void Activate(RuleReading reading);
  void Refuse(const std::vector<std::string>& mistakes, Reason reason);
  void NoteSuccess();
  std::size_t active_rules() const;

  const Dependencies dependencies_;
  const Options options_;
  Gauge& last_success_;
  Gauge& last_time_;
  Gauge& loaded_;
  Gauge& shown_fingerprint_;
  const int wake_;  // an eventfd

  // Used only by the thread.
  RuleWatch watch_;
  RuleWatch envoy_watch_;
  bool watch_failed_ = false;
  std::optional<SteadyTime> first_change_;  // of the changes not handled yet
  std::optional<SteadyTime> due_;           // when the files will be read
  bool second_look_ = false;                // whether `due_` is the second reading
  RuleReading active_;                      // without its index, which the limiter has
  std::shared_ptr<const envoy::RuleResources> resources_;  // active; null: none
  std::optional<Offered> waiting_;     // not active, because the files have mistakes
  std::vector<std::string> mistakes_;  // last logged; cleared by a reload without mistakes
  std::vector<std::shared_ptr<const ActiveRules>> replaced_;  // freed when no call uses them
  Time loaded_at_;

  Mutex mutex_;
  CondVar answered_;
  std::uint64_t asked_ SLUICE_GUARDED_BY(mutex_) = 0;   // requests so far
  std::uint64_t served_ SLUICE_GUARDED_BY(mutex_) = 0;  // how many of these have been answered
  bool stopping_ SLUICE_GUARDED_BY(mutex_) = false;
  std::optional<Offered> offered_ SLUICE_GUARDED_BY(mutex_);  // not compiled yet
  ReloadResult result_ SLUICE_GUARDED_BY(mutex_);

  Thread thread_;  // declared last: it uses all of the above
};

}  // namespace sluice
