// What came of a run: decisions, errors, latencies, and what the generator itself used.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "load/grpc_status.h"
#include "load/latency_histogram.h"

namespace sluice::load {

struct Tally {
  struct Failures {
    std::uint64_t count = 0;
    std::string first;  // the first message
  };

  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t failed = 0;
  std::map<int, Failures> errors;          // of checks, by gRPC code
  std::array<std::uint64_t, 6> sources{};  // of decisions, by the API's number of the source
  LatencyHistogram latencies;              // of messages with any decision
  LatencyHistogram waits;                  // that answers asked for
  Duration waited{};                       // sum of `waits`
  Duration elapsed{};  // of the measured part, until its last answer or the end of its last wait
  std::chrono::duration<double> cpu{};  // of the generator's threads in that time
  std::uint64_t messages = 0;           // sent
  std::uint64_t late = 0;               // of these, later than kLate, by the generator's fault
  Duration latest{};                    // the most such a message was late
  std::string lost;                     // why no connection was left, if none was

  static constexpr Duration kLate = std::chrono::milliseconds(1);

  std::uint64_t answered() const { return allowed + denied; }
  std::uint64_t checks() const { return answered() + failed; }
  double checks_per_second() const;  // answered
  double cpu_us_per_check() const;

  void Fail(const GrpcStatus& status, std::uint64_t checks);

  // Adds another thread's.
  void Merge(const Tally& other);
};

}  // namespace sluice::load
