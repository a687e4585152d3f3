// A load generator: sends what a Plan says to one server, and tallies the outcome.
//
// Thread-safe. Runs from its start on, on threads of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "load/plan.h"
#include "load/tally.h"
#include "load/worker.h"
#include "net/io_threads.h"

namespace sluice::load {

class Generator {
 public:
  // Returns when all connections stand. Errors: kUnavailable if one cannot be made, and
  // kInvalidArgument if the plan's TLS files cannot be used, or if the server allows fewer messages
  // in flight than the plan asks for.
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
  Generator(const Plan& plan, std::unique_ptr<net::TlsClientContext> tls);

  Result<void> Connect();
  Result<void> CheckStreams(std::uint32_t max_streams) const;
  void Begin();
  void OnChange(std::size_t worker, Worker::State state);
  bool WaitForAll(Worker::State state, SteadyTime deadline);
  Schedule ScheduleOf(std::uint32_t worker, SteadyTime begin) const;
  std::uint32_t QuotaOf(std::size_t connection) const;

  const Plan plan_;
  const std::unique_ptr<net::TlsClientContext> tls_;  // null: plain text
  net::IoThreads io_;
  std::vector<std::unique_ptr<Worker>> workers_;  // worker i lives on thread i

  Mutex mutex_;
  CondVar changed_;
  std::vector<Worker::State> states_ SLUICE_GUARDED_BY(mutex_);  // of the workers
};

}  // namespace sluice::load
