#include "net/epoll_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <random>

namespace sluice::net {

EpollLoop::EpollLoop(std::size_t index, Resolver& resolver)
    : Loop(index, std::random_device{}()),
      resolver_(resolver),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      last_end_(SteadyNow()) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

// Tasks that did not run may own transports, so these tasks are destroyed before DropAll.
EpollLoop::~EpollLoop() {
  std::vector<Task> dropped;
  {
    const MutexLock lock(mutex_);
    dropped.swap(tasks_);
  }
  dropped.clear();
  DropAll();
  ::close(wake_);
  ::close(epoll_);
}

void EpollLoop::Run() {
  SetCurrent(this);
  while (!stopped_.load(std::memory_order_relaxed)) {
    const SteadyTime wake = timers().NextWake();
    ready_ = std::max(0, epoll_wait(epoll_, events_.data(), kMaxEvents, WaitMilliseconds(wake)));
    const SteadyTime began = SteadyNow();
    BeginIteration(began);
    Dispatch();
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
  constexpr std::uint64_t kOne = 1;
  if (was_empty) static_cast<void>(!::write(wake_, &kOne, sizeof kOne));
}

// Tasks posted by tasks run in the next iteration, so that they cannot starve connections.
void EpollLoop::RunTasks() {
  {
    const MutexLock lock(mutex_);
    if (tasks_.empty()) return;
    running_.swap(tasks_);
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake_, &count, sizeof count));
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
  constexpr std::chrono::seconds kIdle(1);
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

void EpollLoop::Dispatch() {
  for (int i = 0; i < ready_; ++i) {
    auto* const handler = static_cast<EventHandler*>(events_[i].data.ptr);
    if (handler != nullptr) handler->OnEvents(events_[i].events);
  }
  ready_ = 0;
}

void EpollLoop::Watch(int fd, std::uint32_t events, EventHandler& handler) {
  epoll_event event{.events = events, .data = {.ptr = &handler}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void EpollLoop::ChangeEvents(int fd, std::uint32_t events, EventHandler& handler) {
  epoll_event event{.events = events, .data = {.ptr = &handler}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
}

void EpollLoop::Unwatch(int fd, EventHandler& handler) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  for (int i = 0; i < ready_; ++i) {
    if (events_[i].data.ptr == &handler) events_[i].data.ptr = nullptr;
  }
}

}  // namespace sluice::net
