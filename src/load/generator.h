// A load generator: sends what a Plan says to one server, and tallies what comes of it.
//
// Thread-safe. Runs from its start on, on threads of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/thread.h"
#include "load/plan.h"
#include "load/tally.h"
#include "load/worker.h"

namespace sluice::load {

class Generator {
 public:
  // Returns when all connections stand, or fails: kUnavailable if one cannot be made, and
  // kInvalidArgument if the server lets fewer messages be under way than the plan wants.
  static Result<std::unique_ptr<Generator>> Start(const Plan& plan);

  // Stops, and waits for the end.
  ~Generator();

  // Whether all messages are answered or have failed; waits for it until `deadline`.
  bool WaitUntil(SteadyTime deadline);

  // Starts no more messages.
  void Stop();

  // As of now.
  Progress progress() const;

  // REQUIRES: it has ended
  Tally tally() const;

 private:
  explicit Generator(const Plan& plan) : plan_(plan) {}

  using Connections = std::vector<std::unique_ptr<Http2Connection>>;
  Result<Connections> Connect() const;
  void StartWorkers(Connections connections);
  Schedule ScheduleOf(std::uint32_t worker, SteadyTime begin) const;
  std::uint32_t QuotaOf(std::size_t connection) const;

  const Plan plan_;
  std::vector<std::unique_ptr<Worker>> workers_;

  mutable Mutex mutex_;
  CondVar ended_;
  std::size_t running_ SLUICE_GUARDED_BY(mutex_) = 0;  // workers
  std::vector<Thread> threads_;
};

}  // namespace sluice::load
