#include "load/generator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace sluice::load {

Result<std::unique_ptr<Generator>> Generator::Start(const Plan& plan) {
  auto tls = LoadTls(plan.target);
  if (!tls) return tls.error();
  std::unique_ptr<Generator> generator(new Generator(plan, std::move(*tls)));
  if (auto connected = generator->Connect(); !connected) return connected.error();
  generator->Begin();
  return generator;
}

Generator::Generator(const Plan& plan, std::unique_ptr<net::TlsClientContext> tls)
    : plan_(plan),
      tls_(std::move(tls)),
      io_(plan.threads),
      states_(plan.threads, Worker::State::kConnecting) {
  io_.Start();
  io_.RunOnEach([this](net::EpollLoop& loop) {
    workers_.push_back(std::make_unique<Worker>(
        loop, plan_, [this, i = loop.index()](Worker::State state) { OnChange(i, state); }));
  });
}

Generator::~Generator() {
  Stop();
  const bool has_begun = [this] {
    const MutexLock lock(mutex_);
    return states_.front() >= Worker::State::kRunning;
  }();
  if (has_begun) WaitForAll(Worker::State::kEnded, SteadyTime::max());
  io_.RunOnEach(
      [this](net::EpollLoop& loop) { loop.DisposeLater(std::move(workers_[loop.index()])); });
  io_.Stop();
}

Result<void> Generator::Connect() {
  for (std::uint32_t i = 0; i < plan_.connections; ++i) {
    const std::uint32_t number = i % plan_.threads;
    io_.RunOn(number, [&](net::EpollLoop&) { workers_[number]->Connect(tls_.get(), QuotaOf(i)); });
  }
  const bool all_ready = WaitForAll(Worker::State::kReady, SteadyNow() + plan_.timeout);
  Result<void> result;
  io_.RunOnEach([&](net::EpollLoop& loop) {
    const Worker& worker = *workers_[loop.index()];
    if (result && !worker.connect_error().empty()) {
      result = Error{ErrorCode::kUnavailable, worker.connect_error()};
    } else if (result && all_ready) {
      result = CheckStreams(worker.max_streams());
    }
  });
  if (!result || all_ready) return result;
  return Error{ErrorCode::kUnavailable, "the server does not answer in HTTP/2"};
}

Result<void> Generator::CheckStreams(std::uint32_t max_streams) const {
  if (plan_.rate > 0 || plan_.rpc == Rpc::kStream || QuotaOf(0) <= max_streams) return {};
  return InvalidArgument(
      fmt::format("--in-flight {} with --connections {}: the server allows {} calls per connection",
                  plan_.in_flight, plan_.connections, max_streams));
}

void Generator::Begin() {
  const SteadyTime begin = SteadyNow();
  io_.RunOnEach([&](net::EpollLoop& loop) {
    const auto number = static_cast<std::uint32_t>(loop.index());
    workers_[number]->Begin(ScheduleOf(number, begin), begin + plan_.warm_up);
  });
}

void Generator::OnChange(std::size_t worker, Worker::State state) {
  const MutexLock lock(mutex_);
  states_[worker] = state;
  changed_.NotifyAll();
}

bool Generator::WaitForAll(Worker::State state, SteadyTime deadline) {
  const MutexLock lock(mutex_);
  return changed_.WaitUntil(mutex_, deadline, [this, state]() SLUICE_REQUIRES(mutex_) {
    return std::ranges::all_of(states_, [state](auto reached) { return reached >= state; });
  });
}

Schedule Generator::ScheduleOf(std::uint32_t worker, SteadyTime begin) const {
  const SteadyTime end = begin + plan_.warm_up + plan_.duration;
  const std::chrono::duration<double> interval(plan_.checks / plan_.rate);
  Schedule schedule =
      plan_.rate == 0
          ? Schedule(end)
          : Schedule(begin, end, {.interval = interval, .first = worker, .step = plan_.threads});
  if (plan_.messages > 0) {
    schedule.LimitTo((plan_.messages + plan_.threads - 1 - worker) / plan_.threads);
  }
  return schedule;
}

std::uint32_t Generator::QuotaOf(std::size_t connection) const {
  const std::uint32_t remainder = plan_.in_flight % plan_.connections;
  return plan_.in_flight / plan_.connections + (connection < remainder ? 1 : 0);
}

bool Generator::WaitUntil(SteadyTime deadline) {
  return WaitForAll(Worker::State::kEnded, deadline);
}

void Generator::Stop() {
  io_.RunOnEach([this](net::EpollLoop& loop) { workers_[loop.index()]->Stop(); });
}

Progress Generator::progress() {
  Progress sum;
  io_.RunOnEach([&](net::EpollLoop& loop) {
    const Progress& progress = workers_[loop.index()]->progress();
    sum.allowed += progress.allowed;
    sum.denied += progress.denied;
    sum.failed += progress.failed;
  });
  return sum;
}

LoadStats Generator::stats() const {
  LoadStats sum;
  bool all_lost = true;
  for (const auto& worker : workers_) {
    sum.Merge(worker->stats());
    all_lost &= !worker->stats().lost.empty();
  }
  if (!all_lost) sum.lost.clear();
  return sum;
}

}  // namespace sluice::load
