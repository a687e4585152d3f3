// The statistics of a run: decisions, errors, latencies, and the generator's own CPU time.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "client/grpc_status.h"
#include "load/latency_histogram.h"

namespace sluice::load {

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
  Duration elapsed{};  // measured time, until the load and all answers and waits have ended
  std::chrono::duration<double> cpu{};  // CPU time of the generator's threads in `elapsed`
  std::uint64_t messages = 0;           // messages sent
  std::uint64_t late = 0;               // messages that the generator sent over kLate too late
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

}  // namespace sluice::load
