// Records messages from their start to their last answer. The statistics include only messages that
// start in the measured part of a run.
//
// Not thread-safe.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "load/check_result.h"
#include "load/load_stats.h"

namespace sluice::load {

// A message in flight.
struct Message {
  SteadyTime start;
  std::uint32_t unanswered = 0;  // number of its checks without a result; 0: not in flight
  bool decided = false;          // whether any check has a decision
  Duration wait{};               // the last wait that an answer requested
  bool counted = false;          // whether the message is in the measured part
};

// The counts of a run so far, including its warm-up.
struct Progress {
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t failed = 0;
};

class Recorder {
 public:
  // Messages that start before `time` are not counted.
  void MeasureFrom(SteadyTime time) { measure_from_ = time; }

  // Sets the arrival time of the answers that are recorded next.
  void set_now(SteadyTime now) { now_ = now; }
  SteadyTime now() const { return now_; }

  Message Begin(SteadyTime start, std::uint32_t checks) const;

  // Records the result of one check of the message.
  void Record(Message& message, const CheckResult& result);

  // Fails all checks of the message that have no result yet.
  void Fail(Message& message, const GrpcStatus& status);

  // Makes the run last at least until `end`.
  void ExtendTo(SteadyTime end);

  const Progress& progress() const { return progress_; }
  LoadStats& stats() { return stats_; }
  const LoadStats& stats() const { return stats_; }

 private:
  void RecordDecision(Message& message, const CheckResult& result);
  void Finish(const Message& message);

  SteadyTime measure_from_{};
  SteadyTime now_{};
  LoadStats stats_;
  Progress progress_;
};

}  // namespace sluice::load
