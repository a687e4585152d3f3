// Records messages from their start to their last answer. The statistics include only messages that
// start in the measured part of a run.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "client/grpc_status.h"
#include "load/check_result.h"
#include "load/latency_histogram.h"

namespace sluice::load {

// A message in flight.
struct Message {
  SteadyTime start;
  std::uint32_t unanswered = 0;  // number of its checks without a result; 0: not in flight
  bool decided = false;          // whether any check has a decision
  Duration wait{};               // the wait that the last decision requests; 0: none
  bool counted = false;          // whether the message started in the measured part
};

// The counts of a run so far, including its warm-up.
struct Progress {
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t failed = 0;
};

// The statistics of a run: decisions, errors, latencies, and the generator's own CPU time.
struct LoadStats {
  struct Failures {
    std::uint64_t count = 0;
    std::string first;  // the first message
  };

  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t failed = 0;
  std::map<int, Failures> errors;          // of checks, by gRPC code
  std::array<std::uint64_t, 7> sources{};  // of decisions, by number of v1.Source
  LatencyHistogram latencies;              // of messages with at least one decision
  LatencyHistogram waits;                  // requested by answers
  Duration waited{};                       // sum of `waits`
  // The measured time, until the last message and the last wait have ended. An open loop without a
  // maximum number of messages is measured at least until its planned end, unless all connections
  // are lost.
  Duration elapsed{};
  std::chrono::duration<double> cpu{};  // CPU time of the generator's threads in `elapsed`
  std::uint64_t messages = 0;           // messages sent
  std::uint64_t late = 0;               // sent more than kLate late although a channel had room
  Duration latest{};                    // the largest such delay
  std::string lost;                     // why all connections were lost; empty if some remain

  static constexpr Duration kLate = std::chrono::milliseconds(1);

  std::uint64_t answered() const { return allowed + denied; }
  std::uint64_t checks() const { return answered() + failed; }
  double checks_per_second() const;  // answered checks only
  double cpu_us_per_check() const;

  void Fail(const GrpcStatus& status, std::uint64_t checks);

  // Adds the statistics of another thread.
  void Merge(const LoadStats& other);
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

  // Fails the message's checks that have no result yet.
  void Fail(Message& message, const GrpcStatus& status);

  // If the measured time ends before `end`, extends it to `end`.
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
