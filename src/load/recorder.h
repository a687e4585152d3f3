// Follows messages from their start to their last answer, and tallies those that start in the
// measured part of a run.
//
// One thread, but progress() may be called on any.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "load/check_result.h"
#include "load/tally.h"

namespace sluice::load {

// A message in flight.
struct Message {
  SteadyTime start;
  std::uint32_t unanswered = 0;  // of its checks; 0: it is not in flight
  bool decided = false;          // any of them
  Duration wait{};               // the last that an answer asked for
  bool counted = false;
};

// Of a run so far, its warm-up included.
struct Progress {
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t failed = 0;
};

class Recorder {
 public:
  // What starts before `time` is not counted.
  void MeasureFrom(SteadyTime time) { measure_from_ = time; }

  // When the answers that are recorded next have come.
  void set_now(SteadyTime now) { now_ = now; }
  SteadyTime now() const { return now_; }

  Message Begin(SteadyTime start, std::uint32_t checks) const;

  // The result of one of the message's checks.
  void Record(Message& message, const CheckResult& result);

  // What ends all its checks that have no result yet.
  void Fail(Message& message, const GrpcStatus& status);

  // The run lasts until `end` at least.
  void ExtendTo(SteadyTime end);

  Progress progress() const;
  Tally& tally() { return tally_; }
  const Tally& tally() const { return tally_; }

 private:
  void RecordDecision(Message& message, const CheckResult& result);
  void Finish(const Message& message);

  SteadyTime measure_from_{};
  SteadyTime now_{};
  Tally tally_;
  std::atomic<std::uint64_t> allowed_ = 0;
  std::atomic<std::uint64_t> denied_ = 0;
  std::atomic<std::uint64_t> failed_ = 0;
};

}  // namespace sluice::load
