// A load generator: sends the messages of a Plan to one server and collects statistics.
//
// Thread-safe. Sends on threads of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "load/plan.h"
#include "load/recorder.h"
#include "load/worker.h"
#include "net/io_threads.h"

namespace sluice::load {

class Generator {
 public:
  // Returns when all connections are established. Errors: kUnavailable if a connection fails;
  // kInvalidArgument if the plan's TLS files are invalid, or if the server allows fewer messages in
  // flight than the plan requires.
  static Result<std::unique_ptr<Generator>> Start(const Plan& plan);

  // Stops, and waits until all messages have ended.
  ~Generator();

  // Waits until all messages are answered or have failed. Returns false at `deadline`.
  bool WaitUntil(SteadyTime deadline);

  // Sends no more messages.
  void Stop();

  // The counts so far.
  Progress progress();

  // REQUIRES: WaitUntil has returned true
  LoadStats stats() const;

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
  const std::unique_ptr<net::TlsClientContext> tls_;  // null: plaintext
  net::IoThreads io_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by thread

  Mutex mutex_;
  CondVar changed_;
  std::vector<Worker::State> states_ SLUICE_GUARDED_BY(mutex_);  // by worker
};

}  // namespace sluice::load
