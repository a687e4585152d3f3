// A run of equal checks against one server, and what came of them. Open loop with a rate: each
// check has its time, and its latency counts from then even if it could be sent only later, so a
// server that stalls cannot hide it (no coordinated omission). Closed loop without: the next check
// goes out when an earlier one is answered. With `sleep` the callers do as answers say: whoever is
// told to wait is busy until then, as in Guava's RateLimiter.acquire().
//
// Thread-safe. Runs from construction on, on threads of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "client/check_loop.h"
#include "load/latency_histogram.h"

namespace sluice::tools {

struct LoadOptions {
  std::uint64_t checks = 1;
  std::size_t concurrency = 1;  // callers: each has one check under way, or sleeps
  double rate = 0;              // checks a second; 0: as fast as answers come
  bool sleep = false;           // callers sleep as long as an answer says `wait`
  Duration timeout = std::chrono::seconds(1);
};

struct LoadTally {
  struct Failures {
    std::uint64_t count = 0;
    std::string first;  // the first message
  };
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t failed = 0;
  std::map<ErrorCode, Failures> errors;
  load::LatencyHistogram latencies;  // of answers, not of errors
  load::LatencyHistogram waits;      // that answers asked for
  Duration waited{};                 // sum of `waits`
  Duration elapsed{};                // until the last answer, or the end of the last sleep

  std::uint64_t finished() const { return allowed + denied + failed; }
  double rate() const;  // checks finished a second
};

class LoadRun {
 public:
  // `client` must outlive the run.
  LoadRun(Client& client, v1::CheckLimitRequest request, const LoadOptions& options);

  // Stops, and waits for the checks under way (not for sleeps).
  ~LoadRun();

  // Whether all is answered and slept; waits for it until `deadline`.
  bool WaitUntil(SteadyTime deadline);

  // Sends no more, and wakes who sleeps.
  void Stop();

  // As of now.
  LoadTally tally() const;

 private:
  void Send();
  bool WaitForTurn(SteadyTime due);
  void WaitForCallers();
  void SleepUntil(const std::function<bool()>& done) SLUICE_REQUIRES(mutex_);
  void Record(const Result<v1::CheckLimitResponse>& answer, SteadyTime since);

  const v1::CheckLimitRequest request_;
  const LoadOptions options_;
  const SteadyTime start_;

  mutable Mutex mutex_;
  CondVar room_;   // under_way_ fell, or stopped_
  CondVar ended_;  // stopped_ or complete_
  LoadTally tally_ SLUICE_GUARDED_BY(mutex_);
  std::size_t under_way_ SLUICE_GUARDED_BY(mutex_) = 0;
  // When each sleeping caller wakes, the first on top.
  std::priority_queue<SteadyTime, std::vector<SteadyTime>, std::greater<>> asleep_
      SLUICE_GUARDED_BY(mutex_);
  bool stopped_ SLUICE_GUARDED_BY(mutex_) = false;
  bool complete_ SLUICE_GUARDED_BY(mutex_) = false;

  CheckLoop loop_;
  Thread sender_;
};

}  // namespace sluice::tools
