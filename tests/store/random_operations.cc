#include "tests/store/random_operations.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "store/redis/script_call.h"

namespace sluice::test {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Another limit of the same shape.
Limit Smaller(const Limit& limit) {
  const auto part = [](std::int64_t value) { return std::max<std::int64_t>(1, value / 5 * 2); };
  return std::visit(
      [&](auto smaller) -> Limit {
        if constexpr (requires { smaller.limit; }) smaller.limit = part(smaller.limit);
        if constexpr (requires { smaller.rate; }) smaller.rate = part(smaller.rate);
        if constexpr (requires { smaller.burst; }) smaller.burst = part(smaller.burst);
        if constexpr (requires { smaller.queue; }) smaller.queue = part(smaller.queue + 1) - 1;
        return smaller;
      },
      limit);
}

}  // namespace

RandomOperations::RandomOperations(std::uint32_t seed) : random_(seed) {
  for (int i = 0; i < 30; ++i) AddLimit(fmt::format("fixed{}", i), RandomFixedWindow());
  for (int i = 0; i < 30; ++i) AddLimit(fmt::format("log{}", i), RandomSlidingLog());
  for (int i = 0; i < 30; ++i) AddLimit(fmt::format("window{}", i), RandomSlidingWindow());
  for (int i = 0; i < 30; ++i) AddLimit(fmt::format("token{}", i), RandomTokenBucket());
  for (int i = 0; i < 30; ++i) AddLimit(fmt::format("warming{}", i), RandomWarmingBucket());
  for (int i = 0; i < 30; ++i) AddLimit(fmt::format("leaky{}", i), RandomLeakyBucket());
  for (int i = 0; i < 30; ++i) AddLimit(fmt::format("slots{}", i), RandomConcurrency());
}

Duration RandomOperations::RandomStep() {
  if (OneIn(3)) return edges_[Below(edges_.size())] - Duration(Below(2));
  const auto some = static_cast<std::int64_t>(1 + Below(1000));
  if (OneIn(50))
    return -Pick<Duration>({Duration(1), milliseconds(1), milliseconds(999), seconds(1),
                            seconds(1) + Duration(1), hours(1)});
  if (OneIn(200)) return Pick<Duration>({hours(some), days(some), minutes(some), -days(some)});
  return Pick<Duration>({Duration(0), Duration(some), milliseconds(some), seconds(some)});
}

Operation RandomOperations::RandomOperation(Time now) {
  if (!leases_.empty() && OneIn(8)) return RandomLeaseOperation();
  if (!grants_.empty() && OneIn(8)) return UndoOfSomeGrant();
  const Mode mode = Pick({Mode::kConsume, Mode::kConsume, Mode::kConsume, Mode::kConsume,
                          Mode::kPeek, Mode::kCharge, Mode::kRefund});
  Operation operation;
  operation.check = std::make_unique<BlockingCheck>(RandomCounters(mode), RandomCost(), mode);
  BlockingCheck& check = *operation.check;
  if (check.demand.cost == 0) check.demand.mode = Mode::kPeek;
  if (OneIn(3)) check.demand.max_wait = RandomWait();
  if (mode == Mode::kRefund && OneIn(2)) check.demand.charged_at = now - RandomWait();
  bool may_run = check.demand.consumes_or_peeks() || redis::MayCoalesceCharge(check);
  for (const CounterCheck& counter : check.counters) {
    may_run &= MayCoalesce(*counter.limit);
    const auto* const slots = std::get_if<Concurrency>(counter.limit);
    if (slots != nullptr && mode == Mode::kConsume) check.lease = NewLease(slots->ttl);
  }
  if (may_run && OneIn(2)) operation.n = Pick<std::int64_t>({2, 3, 10, 50});
  return operation;
}

void RandomOperations::RememberLease(const BlockingCheck& check) {
  std::vector<CounterSpec> held;
  for (const CounterCheck& counter : check.counters) {
    if (!std::holds_alternative<Concurrency>(*counter.limit)) continue;
    held.push_back({std::string(counter.key), *counter.limit});
  }
  HeldLease lease{*check.lease, std::move(held)};
  if (leases_.size() < 200) return leases_.push_back(std::move(lease));
  leases_[Below(leases_.size())] = std::move(lease);
}

void RandomOperations::RememberGrant(const StoreCheck& check) {
  auto grant = std::make_unique<UndoCheck>(check, UndoCheck::Scope::kCharged);
  if (grant->counters.empty()) return;
  if (grants_.size() < 50) return grants_.push_back(std::move(grant));
  grants_[Below(grants_.size())] = std::move(grant);
}

Operation RandomOperations::RandomLeaseOperation() {
  const HeldLease& held = leases_[Below(leases_.size())];
  Operation operation;
  const Mode mode = Pick({Mode::kRelease, Mode::kRenew, Mode::kCharge});
  operation.check =
      std::make_unique<BlockingCheck>(held.counters, Pick<std::int64_t>({1, 2, 7, 256, 257}), mode);
  operation.check->lease = held.lease;
  return operation;
}

Operation RandomOperations::UndoOfSomeGrant() {
  const std::size_t place = OneIn(2) ? grants_.size() - 1 : Below(grants_.size());
  const auto undo = std::move(grants_[place]);
  grants_.erase(grants_.begin() + static_cast<std::ptrdiff_t>(place));
  std::vector<CounterSpec> specs;
  for (const CounterCheck& counter : undo->counters) {
    specs.push_back({std::string(counter.key), *counter.limit, counter.group});
  }
  Operation operation;
  operation.check =
      std::make_unique<BlockingCheck>(std::move(specs), undo->demand.cost, Mode::kUndo);
  operation.check->lease = undo->lease;
  for (std::size_t i = 0; i < undo->counters.size(); ++i) {
    operation.check->counters[i].before = undo->counters[i].before;
  }
  return operation;
}

std::int64_t RandomOperations::RandomCost() {
  return OneIn(20) ? Pick<std::int64_t>({1000, 1'000'000, kMaxCost - 1, kMaxCost})
                   : Pick<std::int64_t>({0, 1, 1, 1, 1, 2, 3, 5, 7, 10, 20});
}

Duration RandomOperations::RandomWait() {
  constexpr Duration kMost = days(365);
  return OneIn(4) ? std::clamp(edges_[Below(edges_.size())], Duration(0), kMost)
                  : Pick<Duration>({Duration(0), Duration(1), milliseconds(20), seconds(1),
                                    minutes(1), hours(1), kMost});
}

Lease RandomOperations::NewLease(Duration ttl) {
  Lease lease{.ttl = ttl};
  for (auto& byte : lease.id) byte = static_cast<std::uint8_t>(random_());
  return lease;
}

std::vector<CounterSpec> RandomOperations::RandomCounters(Mode mode) {
  std::vector<CounterSpec> counters;
  std::uint16_t group = OneIn(10) ? 1 : 0;
  const std::size_t count = OneIn(2) ? 1 : 1 + Below(4);
  while (counters.size() < count) {
    CounterSpec spec = limits_[Below(limits_.size())];
    if (!Supports(spec.limit, mode)) continue;
    spec.key += std::to_string(Below(2));
    spec.group = group;
    bool known = false;
    for (const auto& counter : counters) known |= counter.key == spec.key;
    if (!known) counters.push_back(spec);
    if (OneIn(4)) ++group;
  }
  return counters;
}

void RandomOperations::AddLimit(const std::string& key, const Limit& limit) {
  limits_.push_back({key, limit});
  // A different limit of the same shape uses the same counters, as after a reload.
  limits_.push_back({key, Smaller(limit)});
}

Limit RandomOperations::RandomFixedWindow() {
  FixedWindow limit{.limit = Pick<std::int64_t>({1, 2, 5, 10, 100, kMaxProduct}),
                    .window = Pick<Duration>({milliseconds(1), milliseconds(1500), seconds(1),
                                              minutes(1), hours(1), days(1), days(7), days(30)}),
                    .align = Pick({FixedWindow::Align::kFirst, FixedWindow::Align::kClock,
                                   FixedWindow::Align::kMonth, FixedWindow::Align::kEpoch})};
  if (limit.align == FixedWindow::Align::kClock || limit.align == FixedWindow::Align::kMonth) {
    limit.utc_offset = minutes(Pick({0, 60, 480, -210, 845}));
  }
  return limit;
}

Limit RandomOperations::RandomSlidingLog() {
  return SlidingLog{
      .limit = Pick<std::int64_t>({1, 2, 5, 20, 1000, SlidingLog::kMaxLimit}),
      .window = Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)})};
}

Limit RandomOperations::RandomTokenBucket() {
  TokenBucket limit{
      .rate = Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
      .period = Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
      .burst = Pick<std::int64_t>({1, 2, 10, 97}),
      .starts_empty = OneIn(4),
      .borrows = OneIn(3)};
  if (OneIn(5)) limit.burst = TokenBucket::kMaxCapacity / limit.period.count();
  if (OneIn(10)) limit.rate = TokenBucket::kMaxRate;
  return limit;
}

Limit RandomOperations::RandomSlidingWindow() {
  return SlidingWindow{
      .limit = Pick<std::int64_t>({1, 2, 5, 20, 1000, kMaxProduct}),
      .window = Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
      .segments = Pick<std::int64_t>({1, 2, 7, 10, SlidingWindow::kMaxSegments})};
}

Limit RandomOperations::RandomWarmingBucket() {
  return WarmingBucket{.rate = Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
                       .period = Pick<Duration>({seconds(1), minutes(1), hours(1), days(1)}),
                       .warmup = Pick<Duration>(
                           {milliseconds(1), milliseconds(700), seconds(3), minutes(1), hours(1)})};
}

Limit RandomOperations::RandomLeakyBucket() {
  LeakyBucket limit{
      .rate = Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
      .period = Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
      .queue = Pick<std::int64_t>({0, 1, 4, 97}),
      .delays = OneIn(2)};
  if (OneIn(5)) limit.queue = TokenBucket::kMaxCapacity / limit.period.count() - 1;
  return limit;
}

Limit RandomOperations::RandomConcurrency() {
  return Concurrency{.limit = Pick<std::int64_t>({1, 2, 5, 20, 1000}),
                     .ttl = Pick<Duration>(
                         {milliseconds(1), milliseconds(50), seconds(1), seconds(30), hours(1)})};
}

}  // namespace sluice::test
