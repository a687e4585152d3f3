#include "limiter/limiter.h"

#include <algorithm>
#include <utility>

#include "limiter/lease_name.h"

namespace sluice {
namespace {

std::uint64_t NextGeneration() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// The maximum time reserved for sending the answer to the caller; the store gets that much less. If
// less than 5 ms are left until the deadline, a fifth of what is left is reserved.
constexpr SteadyTime::duration kMaxAnswerReserve = std::chrono::milliseconds(1);

}  // namespace

Limiter::Limiter(const Dependencies& dependencies, const Options& options)
    : uses_(dependencies), options_(options), metrics_(dependencies.metrics) {
  uses_.fallback.Attach(uses_.store, metrics_);
  SetRules(RuleIndex::Build({}, {}).value());
}

void Limiter::SetRules(std::shared_ptr<const RuleIndex> rules) {
  auto active = std::make_shared<const ActiveRules>(std::move(rules), uses_.metrics);
  {
    const MutexLock lock(mutex_);
    rules_.swap(active);
    generation_.store(NextGeneration(), std::memory_order_release);
  }
  grants_.EndAll();
}

std::shared_ptr<const ActiveRules> Limiter::rules() const {
  const MutexLock lock(mutex_);
  return rules_;
}

void Limiter::GiveLeaseBack(std::string_view lease_id) const {
  struct Granted final : StoreCheck {
    void OnDecided() override {}
  } granted;
  auto name = LeaseName::Parse(lease_id);
  if (!name) return;
  name->FillIn(granted);
  if (name->units) {
    granted.demand.mode = Mode::kSettle;
    for (CounterCheck& counter : granted.counters) counter.units = 0;
    if (!name->local) return static_cast<void>(uses_.store.Settle(granted));
    const auto shares = uses_.fallback.UseShares(granted);
    uses_.local.Settle(granted);
    return static_cast<void>(uses_.fallback.SettleLease(granted));
  }
  for (CounterCheck& counter : granted.counters) {
    counter.charged = true;
    counter.before = UsageSnapshot{};
  }
  if (name->local) uses_.fallback.leases.Released(granted.lease->id);
  (name->local ? uses_.local : uses_.store).Undo(granted);
}

void Limiter::SetDeadlines(StoreCheck& check, SteadyTime now, SteadyTime deadline) const {
  check.last_deadline = deadline;
  if (deadline != SteadyTime::max() && deadline > now) {
    check.last_deadline -= std::min(kMaxAnswerReserve, (deadline - now) / 5);
  }
  check.deadline = std::min<SteadyTime>(now + options_.store_timeout, check.last_deadline);
}

std::shared_ptr<const ActiveRules> Limiter::RulesForThisThread() const {
  thread_local std::uint64_t cached_generation = 0;
  thread_local std::weak_ptr<const ActiveRules> cached;
  if (cached_generation == generation_.load(std::memory_order_acquire)) {
    if (auto rules = cached.lock()) return rules;
  }
  const MutexLock lock(mutex_);
  cached = rules_;
  cached_generation = generation_.load(std::memory_order_relaxed);
  return rules_;
}

}  // namespace sluice
