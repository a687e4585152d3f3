#include "rpc/http2/shared_state.h"

#include <algorithm>

#include "base/log.h"

namespace sluice::rpc::http2 {
namespace {

constexpr std::int64_t kMaxChunk = 64;
constexpr std::chrono::seconds kLogPause(1);
constexpr std::array<const char*, static_cast<std::size_t>(Refusal::kCount)> kReasons = {
    "connections",
    "replaced",
    "calls",
    "unfinished_messages",
    "untaken_responses",
    "rapid_reset",
    "flood",
    "incomplete",
    "stalled"};

}  // namespace

bool ConnectionCount::TryAdd(std::size_t max) {
  const MutexLock lock(mutex_);
  if (count_ >= max) return false;
  ++count_;
  return true;
}

void ConnectionCount::Remove() {
  const MutexLock lock(mutex_);
  if (--count_ == 0) none_.NotifyAll();
}

bool ConnectionCount::WaitForNone(SteadyTime deadline) {
  const MutexLock lock(mutex_);
  return none_.WaitUntil(mutex_, deadline,
                         [this]() SLUICE_REQUIRES(mutex_) { return count_ == 0; });
}

ServerMetrics::ServerMetrics(MetricsRegistry* registry)
    : own_(registry == nullptr ? std::make_unique<MetricsRegistry>() : nullptr),
      registry_(registry == nullptr ? *own_ : *registry),
      connections(registry_.GaugeFor("sluice_grpc_connections", "Open gRPC connections")),
      connections_total(registry_.CounterFor("sluice_grpc_connections_total",
                                             "gRPC connections that were accepted")),
      open_calls(registry_.GaugeFor("sluice_grpc_calls_open", "Open gRPC calls")),
      moved_connections(
          registry_.CounterFor("sluice_grpc_moved_connections_total",
                               "gRPC connections closed to rebalance the io threads")) {
  for (std::size_t i = 0; i < refused_.size(); ++i) {
    refused_[i] = &registry_.CounterFor("sluice_grpc_refused_total",
                                        "Rejected gRPC connections and calls, by reason",
                                        {{"reason", kReasons[i]}});
  }
}

void ServerMetrics::Count(Refusal refusal) {
  const auto reason = static_cast<std::size_t>(refusal);
  refused_[reason]->Increment();
  const SteadyTime now = SteadyNow();
  SteadyTime next = next_log_.load(std::memory_order_relaxed);
  if (now < next || !next_log_.compare_exchange_strong(next, now + kLogPause)) return;
  spdlog::warn("gRPC: a connection or call was refused: {} (sluice_grpc_refused_total counts all)",
               kReasons[reason]);
}

// If max_calls is small, quota is borrowed one by one, so that none is unused in another loop.
CallQuota::CallQuota(SharedState& shared, std::size_t loops)
    : shared_(shared),
      chunk_(std::clamp(static_cast<std::int64_t>(shared.options.max_calls / (loops * 64)),
                        std::int64_t{1}, kMaxChunk)) {}

bool CallQuota::Borrow() {
  std::int64_t available = shared_.free_calls.load(std::memory_order_relaxed);
  std::int64_t taken = 0;
  do {
    taken = std::min(chunk_, available);
    if (taken <= 0) return false;
  } while (!shared_.free_calls.compare_exchange_weak(available, available - taken,
                                                     std::memory_order_relaxed));
  left_ += taken;
  return left_ > 0;
}

void CallQuota::GiveBack() {
  left_ -= chunk_;
  shared_.free_calls.fetch_add(chunk_, std::memory_order_relaxed);
}

}  // namespace sluice::rpc::http2
