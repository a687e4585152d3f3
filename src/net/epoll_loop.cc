#include "net/epoll_loop.h"

#include <algorithm>
#include <random>

#include "metrics/histogram.h"
#include "net/socket_transport.h"

namespace sluice::net {
namespace {

constexpr std::chrono::seconds kIdle(1);

}  // namespace

EpollLoop::EpollLoop(std::size_t index, Resolver& resolver)
    : Loop(index, std::random_device{}()), resolver_(resolver), last_end_(SteadyNow()) {}

// Tasks that did not run may own transports, so they are destroyed before DisposeAll.
EpollLoop::~EpollLoop() {
  std::vector<Task> dropped;
  {
    const MutexLock lock(mutex_);
    dropped.swap(tasks_);
  }
  dropped.clear();
  DisposeAll();
}

void EpollLoop::Run() {
  SetCurrent(this);
  while (!stopped_.load(std::memory_order_relaxed)) {
    const SteadyTime wake = timers().NextWake();
    poller_.Wait(WaitMilliseconds(wake));
    const SteadyTime began = SteadyNow();
    BeginIteration(began);
    poller_.Dispatch();
    RunTasks();
    EndIteration();
    const SteadyTime ended = SteadyNow();
    NoteLoad(began, ended);
    const auto late_by = ended - std::min(began, wake);
    if (late_by >= kNoticed && lateness_ != nullptr) lateness_->Observe(late_by);
  }
  SetCurrent(nullptr);
}

void EpollLoop::Stop() {
  Post([this] { stopped_.store(true, std::memory_order_relaxed); });
}

void EpollLoop::Post(Task task) {
  bool was_empty = false;
  {
    const MutexLock lock(mutex_);
    was_empty = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (was_empty) poller_.Wake();
}

// Tasks posted by tasks run in the next iteration, so that they cannot starve connections.
void EpollLoop::RunTasks() {
  {
    const MutexLock lock(mutex_);
    if (tasks_.empty()) return;
    running_.swap(tasks_);
    poller_.ClearWake();
  }
  for (Task& task : running_) task();
  running_.clear();
}

int EpollLoop::WaitMilliseconds(SteadyTime wake) const {
  if (wake == SteadyTime::max()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake - last_end_.load()).count();
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 60'000));
}

// An idle loop runs no iterations, so load_ is out of date.
std::uint32_t EpollLoop::load() const {
  const bool idle = SteadyNow() - last_end_.load(std::memory_order_relaxed) > kIdle;
  return idle ? 0 : load_.load(std::memory_order_relaxed);
}

// Updates an exponentially weighted average with a half-life of about 0.7 s.
void EpollLoop::NoteLoad(SteadyTime began, SteadyTime ended) {
  using Seconds = std::chrono::duration<double>;
  const double total = Seconds(ended - last_end_.load(std::memory_order_relaxed)).count();
  const double busy = Seconds(ended - began).count();
  last_end_.store(ended, std::memory_order_relaxed);
  const double weight = std::min(1.0, total);
  const double share = total > 0 ? busy / total : 0;
  const double before = load_.load(std::memory_order_relaxed) / 1024.0;
  const double now = before + weight * (share - before);
  load_.store(static_cast<std::uint32_t>(now * 1024 + 0.5), std::memory_order_relaxed);
}

TransportPtr EpollLoop::Adopt(Socket socket, FlushStage stage) {
  return TransportPtr(new SocketTransport(*this, poller_, std::move(socket), stage),
                      TransportDeleter{.loop = this});
}

}  // namespace sluice::net
