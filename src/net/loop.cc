#include "net/loop.h"

#include <utility>

namespace sluice::net {
namespace {

thread_local Loop* current = nullptr;

}  // namespace

Loop::Loop(std::size_t index, std::uint64_t seed)
    : index_(index), now_(SteadyNow()), random_(seed), timers_(now_) {}

Loop::~Loop() = default;

Loop* Loop::Current() { return current; }

void Loop::SetCurrent(Loop* loop) { current = loop; }

void Loop::PostLong(LongWork kind, Task task) {
  std::deque<Task>& queue = long_tasks_[static_cast<std::size_t>(kind)];
  queue.push_back(std::move(task));
  if (queue.size() == 1) Post([this, kind] { RunLongTask(kind); });
}

void Loop::RunLongTask(LongWork kind) {
  std::deque<Task>& queue = long_tasks_[static_cast<std::size_t>(kind)];
  const Task task = std::move(queue.front());
  task();
  queue.pop_front();
  if (!queue.empty()) Post([this, kind] { RunLongTask(kind); });
}

void Loop::RequestFlush(Flushable& flushable) {
  if (std::exchange(flushable.requested_, true)) return;
  to_flush_[static_cast<std::size_t>(flushable.stage_)].push_back(&flushable);
}

void Loop::DisposeLater(std::unique_ptr<Disposable> object) {
  disposed_.push_back(std::move(object));
}

void Loop::BeginIteration(SteadyTime now) { now_ = now; }

void Loop::EndIteration() {
  timers_.Advance(now_);
  FlushAll();
  DisposeAll();
}

void Loop::DropAll() {
  for (std::deque<Task>& queue : long_tasks_) queue.clear();
  DisposeAll();
}

// Destructors may call DisposeLater.
void Loop::DisposeAll() {
  while (!disposed_.empty()) std::exchange(disposed_, {}).clear();
}

// A flush may request further flushes. Requests for the store stage always come first.
void Loop::FlushAll() {
  constexpr auto kStore = static_cast<std::size_t>(FlushStage::kStore);
  constexpr auto kCallers = static_cast<std::size_t>(FlushStage::kCallers);
  const auto pending = [this](std::size_t stage) {
    return flushed_[stage] < to_flush_[stage].size();
  };
  while (pending(kStore) || pending(kCallers)) {
    const std::size_t stage = pending(kStore) ? kStore : kCallers;
    Flushable& flushable = *to_flush_[stage][flushed_[stage]++];
    flushable.requested_ = false;
    flushable.Flush();
  }
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    to_flush_[stage].clear();
    flushed_[stage] = 0;
  }
}

void TransportDeleter::operator()(Transport* transport) const {
  transport->Close();
  loop->DisposeLater(std::unique_ptr<Disposable>(transport));
}

}  // namespace sluice::net
