// Keeps the rules in force what the rule files say. One thread ("rules") waits until a file changes
// (RuleWatch), or somebody asks; then it reads, parses and indexes there, at low priority, and puts
// the new set in force whole, or keeps the old one and logs every mistake.
//
// A change is read when the files have been at rest for `settle`. A set with mistakes may be half
// written: it is read once more after `second_look` before anybody hears of it. Who asks (Reload,
// RequestReload) is answered from what is there at that moment.
//
// Thread-safe. Memory: while a set is being replaced, the old and the new one exist; the old one is
// freed, on this thread, when the last call that began with it is over.
#pragma once

#include <chrono>
#include <cstdint>
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

class RuleReloader final : public RuleSource {
 public:
  struct Options {
    std::string directory;  // empty: there is nothing to reload
    RuleIndex::Options index;
    std::chrono::milliseconds settle{100};
    std::chrono::milliseconds second_look{400};
  };

  // All of it must outlive the reloader.
  struct Parts {
    Limiter& limiter;
    MetricsRegistry& metrics;
    const Clock& clock;
  };

  // Puts `first` in force before it returns. REQUIRES: first.ok()
  RuleReloader(const Parts& parts, Options options, RuleReading first);

  // A Reload under way ends with an error.
  ~RuleReloader() override;

  ReloadResult Reload() override;

  // The same, without waiting.
  void RequestReload();

 private:
  // Why the files are read, which decides whether mistakes are worth a word.
  enum class Reason {
    kChanged,       // they may be half written
    kStillChanged,  // they are not; but the mistakes may be those already told of
    kAsked,
  };

  std::uint64_t Ask();

  // The thread's.
  void Run();
  void WaitForWork();
  void NoteChanges();
  bool AnswerRequests();
  void LookIfDue();
  void FreeReplaced();

  ReloadResult Load(Reason reason);
  void RenewWatch();
  void Replace(RuleReading reading);
  void PutInForce(RuleReading reading);
  void Refuse(const std::vector<std::string>& mistakes, Reason reason);
  void NoteSuccess();
  std::size_t RulesInForceNow() const;

  const Parts parts_;
  const Options options_;
  Gauge& last_success_;
  Gauge& last_time_;
  Gauge& loaded_;
  const int wake_;  // an eventfd

  // Of the thread alone.
  RuleWatch watch_;
  bool watch_failed_ = false;
  std::optional<SteadyTime> first_change_;  // since the last look
  std::optional<SteadyTime> due_;           // the next look
  bool second_look_ = false;                // it is one
  std::string fingerprint_;                 // of the texts in force
  std::vector<std::string> mistakes_;       // last logged; empty if the last set was good
  std::vector<std::shared_ptr<const RulesInForce>> replaced_;  // not free yet
  Time loaded_at_;

  Mutex mutex_;
  CondVar answered_;
  std::uint64_t asked_ SLUICE_GUARDED_BY(mutex_) = 0;   // requests so far
  std::uint64_t served_ SLUICE_GUARDED_BY(mutex_) = 0;  // of these, answered by result_
  bool stopping_ SLUICE_GUARDED_BY(mutex_) = false;
  ReloadResult result_ SLUICE_GUARDED_BY(mutex_);

  Thread thread_;  // last: it uses all of the above
};

}  // namespace sluice
