#include "load/generator.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace sluice::load {

Result<std::unique_ptr<Generator>> Generator::Start(const Plan& plan) {
  std::unique_ptr<Generator> generator(new Generator(plan));
  auto connections = generator->Connect();
  if (!connections) return connections.error();
  generator->StartWorkers(std::move(*connections));
  return generator;
}

Generator::~Generator() {
  Stop();
  for (Thread& thread : threads_) thread.Join();
}

Result<Generator::Connections> Generator::Connect() const {
  const SteadyTime deadline = SteadyNow() + plan_.timeout;
  Connections connections;
  for (std::uint32_t i = 0; i < plan_.connections; ++i) {
    auto connection = Http2Connection::Open(plan_.address, deadline);
    if (!connection) return connection.error();
    connections.push_back(std::move(*connection));
  }
  const std::uint32_t streams = connections.front()->max_streams();
  if (plan_.rate == 0 && plan_.rpc != Rpc::kStream && QuotaOf(0) > streams) {
    return InvalidArgument(
        fmt::format("--in-flight {} over --connections {}: the server allows {} calls a connection",
                    plan_.in_flight, plan_.connections, streams));
  }
  return connections;
}

void Generator::StartWorkers(Connections connections) {
  const SteadyTime begin = SteadyNow();
  for (std::uint32_t i = 0; i < plan_.threads; ++i) {
    workers_.push_back(
        std::make_unique<Worker>(plan_, i, ScheduleOf(i, begin), begin + plan_.warm_up));
  }
  for (std::size_t i = 0; i < connections.size(); ++i) {
    workers_[i % workers_.size()]->Add(std::move(connections[i]), QuotaOf(i));
  }
  const MutexLock lock(mutex_);
  running_ = workers_.size();
  for (const auto& worker : workers_) {
    threads_.emplace_back("sluice-load", [this, &worker = *worker] {
      worker.Run();
      const MutexLock worker_lock(mutex_);
      --running_;
      ended_.NotifyAll();
    });
  }
}

Schedule Generator::ScheduleOf(std::uint32_t worker, SteadyTime begin) const {
  const SteadyTime end = begin + plan_.warm_up + plan_.duration;
  if (plan_.rate == 0) return Schedule(end);
  const std::chrono::duration<double> interval(plan_.checks / plan_.rate);
  return Schedule(begin, end, {.interval = interval, .first = worker, .step = plan_.threads});
}

std::uint32_t Generator::QuotaOf(std::size_t connection) const {
  const std::uint32_t in_flight = plan_.rate > 0 ? kMaxInFlight : plan_.in_flight;
  const std::uint32_t remainder = in_flight % plan_.connections;
  return in_flight / plan_.connections + (connection < remainder ? 1 : 0);
}

bool Generator::WaitUntil(SteadyTime deadline) {
  const MutexLock lock(mutex_);
  return ended_.WaitUntil(mutex_, deadline,
                          [this]() SLUICE_REQUIRES(mutex_) { return running_ == 0; });
}

void Generator::Stop() {
  for (const auto& worker : workers_) worker->Stop();
}

Progress Generator::progress() const {
  Progress sum;
  for (const auto& worker : workers_) {
    const Progress progress = worker->progress();
    sum.allowed += progress.allowed;
    sum.denied += progress.denied;
    sum.failed += progress.failed;
  }
  return sum;
}

Tally Generator::tally() const {
  Tally sum;
  bool all_lost = true;
  for (const auto& worker : workers_) {
    sum.Merge(worker->tally());
    all_lost &= !worker->tally().lost.empty();
  }
  if (!all_lost) sum.lost.clear();
  return sum;
}

}  // namespace sluice::load
