// A run of equal checks against one server, and what came of them. Open loop with a rate: each
// check has its time, and its latency counts from then even if it could be sent only later, so a
// server that stalls cannot hide it (no coordinated omission). Closed loop without: the next check
// goes out when an earlier one is answered.
//
// Thread-safe. Runs from construction on, on threads of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/mutex.h"
#include "base/thread.h"
#include "client/check_loop.h"
#include "tools/latency_histogram.h"

namespace sluice::tools {

struct LoadOptions {
  std::uint64_t checks = 1;
  std::size_t concurrency = 1;  // checks under way at once, at most
  double rate = 0;              // checks a second; 0: as fast as answers come
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
  LatencyHistogram latencies;  // of answers, not of errors
  Duration elapsed{};          // until the last answer

  std::uint64_t finished() const { return allowed + denied + failed; }
  double rate() const;  // checks finished a second
};

class LoadRun {
 public:
  // `client` must outlive the run.
  LoadRun(Client& client, v1::CheckLimitRequest request, const LoadOptions& options);

  // Stops, and waits for the checks under way.
  ~LoadRun();

  // Whether all is answered; waits for it until `deadline`.
  bool WaitUntil(SteadyTime deadline);

  // Sends no more.
  void Stop();

  // As of now.
  LoadTally tally() const;

 private:
  void Send();
  bool WaitForTurn(SteadyTime due);
  void Record(const Result<v1::CheckLimitResponse>& answer, SteadyTime since);

  const v1::CheckLimitRequest request_;
  const LoadOptions options_;
  const SteadyTime start_;

  mutable Mutex mutex_;
  CondVar room_;   // under_way_ fell
  CondVar ended_;  // stopped_ or complete_
  LoadTally tally_ SLUICE_GUARDED_BY(mutex_);
  std::size_t under_way_ SLUICE_GUARDED_BY(mutex_) = 0;
  bool stopped_ SLUICE_GUARDED_BY(mutex_) = false;
  bool all_sent_ SLUICE_GUARDED_BY(mutex_) = false;
  bool complete_ SLUICE_GUARDED_BY(mutex_) = false;

  CheckLoop loop_;
  Thread sender_;
};

}  // namespace sluice::tools
