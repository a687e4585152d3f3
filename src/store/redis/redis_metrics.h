// What one io thread tells the metrics page of one Redis server.
//
// Loop thread only. The registry must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "metrics/metrics_registry.h"

namespace sluice::redis {

class RedisMetrics {
 public:
  // `labels` name the io thread and, where there may be several, the server.
  RedisMetrics(MetricsRegistry& registry, const MetricLabels& labels);

  void OnReady();
  void OnDown();
  void OnStopped() { connected_.Set(0); }
  void OnFailedAttempt() { failed_attempts_.Increment(); }

  // An error reply of Redis, or why a run of the script failed, which begins with the same words.
  void CountError(std::string_view error);

  // A reply to a check that had failed by then.
  void CountLateAnswer() { late_answers_.Increment(); }
  // A check was sent, and its connection lost before the reply.
  void CountUnknownOutcome() { unknown_outcomes_.Increment(); }
  // A counter stays charged for what was not admitted.
  void CountLostUndo() { lost_undos_.Increment(); }

  void CountScriptCall() { script_calls_.Increment(); }

  // How many checks wait for an answer.
  void ShowWaiting(std::size_t checks) { waiting_.Set(static_cast<double>(checks)); }

 private:
  // The words that begin what Redis says when something is amiss; all else is "other".
  static constexpr std::array<std::string_view, 14> kErrorWords{
      "ERR",    "NOSCRIPT",  "LOADING", "READONLY", "BUSY", "OOM",      "MISCONF",
      "NOAUTH", "WRONGTYPE", "NOPERM",  "MOVED",    "ASK",  "TRYAGAIN", "CLUSTERDOWN"};

  Counter& script_calls_;
  Counter& reconnects_;
  Counter& failed_attempts_;
  Counter& losses_;
  Counter& other_errors_;
  std::array<Counter*, kErrorWords.size()> errors_;  // by place in kErrorWords
  Counter& late_answers_;
  Counter& unknown_outcomes_;
  Counter& lost_undos_;
  Gauge& connected_;
  Gauge& waiting_;
  bool was_connected_ = false;
};

}  // namespace sluice::redis
