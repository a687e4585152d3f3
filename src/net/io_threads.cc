#include "net/io_threads.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/notification.h"

namespace sluice::net {

IoThreads::IoThreads(std::size_t count, Resolver::Lookup lookup) : resolver_(std::move(lookup)) {
  for (std::size_t i = 0; i < count; ++i) {
    threads_.push_back(std::make_unique<IoThread>(i, resolver_));
  }
}

void IoThreads::MeasureLateness(Histogram& histogram) {
  for (auto& it : threads_) it->loop.MeasureLateness(histogram);
}

void IoThreads::Start() {
  for (auto& it : threads_) {
    it->thread = Thread(fmt::format("io-{}", it->loop.index()), [&loop = it->loop] { loop.Run(); });
  }
}

void IoThreads::Stop() {
  for (auto& it : threads_) it->loop.Stop();
  for (auto& it : threads_) it->thread.Join();
}

void IoThreads::RunOn(std::size_t index, const std::function<void(EpollLoop&)>& task) {
  Notification done;
  loop(index).Post([&] {
    task(loop(index));
    done.Notify();
  });
  done.Wait();
}

void IoThreads::RunOnEach(const std::function<void(EpollLoop&)>& task) {
  for (std::size_t i = 0; i < size(); ++i) RunOn(i, task);
}

LoopAssignment IoThreads::AssignConnection() {
  constexpr std::uint32_t kLoadStep = 128;  // loads are compared in steps of 1/8 of a thread
  const auto rank = [](const auto& it) {
    return std::pair(it->loop.load() / kLoadStep, it->connections.load(std::memory_order_relaxed));
  };
  IoThread& least = **std::ranges::min_element(threads_, {}, rank);
  return LoopAssignment(least.loop, least.connections);
}

}  // namespace sluice::net
