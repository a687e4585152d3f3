// Concurrency limit: at most `limit` slots are held at once. A check takes `cost` slots under a
// lease. Releasing the lease gives them back. If the holder dies, the lease expires. With `adapt`
// the limit follows the load, and `limit` is its upper bound: see adaptive_limit.h. Source: C. Gray
// and D. Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file cache
// consistency", SOSP 1989.
//
// The twin of scripts/lua/algorithm/concurrency.lua; tests/store/differential_test.cc compares the
// two. Copies of a State share their holders, which only Take, Renew and Release change. Otherwise,
// the functions are pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/algorithm/adaptive_limit.h"
#include "core/algorithm/algorithm.h"
#include "core/algorithm/holders.h"
#include "core/lease.h"
#include "core/share.h"
#include "core/vocabulary.h"

namespace sluice {

struct Concurrency : CommonFacts {
  static constexpr std::string_view kName = "concurrency";
  static constexpr Algorithm kAlgorithm{6};
  static constexpr std::int64_t kMaxLimit = 100'000;
  // The maximum number of slots of one lease. Each slot is an entry in Redis.
  static constexpr std::int64_t kMaxCost = 256;
  // A check that takes n slots removes at most n + kMaxCleared expired slots, or all slots if they
  // expired on a clock that the counter no longer uses.
  static constexpr std::int64_t kMaxCleared = 64;

  std::int64_t limit = 1;  // 1 to kMaxLimit
  Duration ttl{};          // of each lease; at least 1 ms
  Adaptation adapt;

  bool operator==(const Concurrency&) const = default;

  // See core/algorithm/limit.h.
  static constexpr std::string_view kScript = "concurrency";
  static constexpr bool kTakesLeases = true;
  // Each check takes its own lease.
  static constexpr bool kMayCoalesce = false;
  void Describe(Parameters& its) {
    its.Number("limit", limit, {.most = kMaxLimit});
    its.Length("ttl", ttl);
    adapt.Describe(its, limit, ttl);
  }
  bool Includes(const Concurrency& other) const {
    return limit <= other.limit && ttl >= other.ttl && (!other.adapt.on || *this == other);
  }
  std::string Tag() const { return "concurrency"; }
  std::array<std::int64_t, 4> ScriptParameters() const {
    return {limit, adapt.min, adapt.latency.count(), adapt.share};
  }
  // Each slot is an entry in Redis.
  static std::size_t ScriptWeight(const CounterDemand& demand) {
    return 8 + static_cast<std::size_t>(std::min(demand.units, kMaxCost)) / 2;
  }
  // Requests cannot charge or refund a lease.
  static bool Supports(Mode mode) { return mode != Mode::kCharge && mode != Mode::kRefund; }
  static bool RefundsInFull() { return false; }
  // A release can make room at any time.
  static bool DenialLasts(Mode) { return false; }
  std::int64_t MostAtOnce() const { return std::min(limit, kMaxCost); }

  // Times of holders are on the counter's own clock; `offset` is its distance from the store's
  // clock. If the clock is replaced, only the offset changes.
  struct State {
    std::shared_ptr<Holders> holders;
    Duration offset{};         // the counter's time minus the store's
    Time last;                 // the counter's time at the latest change
    Time now;                  // the counter's time
    std::int64_t counted = 0;  // slots held now
    bool moved = false;        // all holders expired, on a clock that the counter no longer uses
    LearnedLimit learned;      // if the limit follows the load
  };

  // The limit in force.
  std::int64_t LimitNow(const State& state) const {
    return adapt.on ? state.learned.Now(adapt, limit) : limit;
  }
  static std::int64_t LimitNow(const SlotsSnapshot& snapshot) { return snapshot.limit; }

  // The state of a new counter.
  State New(Time now) const {
    return {.holders = std::make_shared<Holders>(), .last = now, .now = now};
  }

  // Brings `state` forward to `now`. Returns whether it was moved to a new clock and must be
  // stored.
  bool Advance(State& state, Time now) const {
    const bool keep = ClockWasReplaced(state.last, now + state.offset);
    if (keep) state.offset = state.last - now;
    state.now = std::max(now + state.offset, state.last);
    state.counted = state.moved ? 0 : state.holders->HeldAfter(state.now);
    if (state.counted > 0) return keep;
    const bool moved = state.moved || state.offset != Duration::zero() || state.last > now;
    const bool keeps = state.now - state.last < LearnedLimit::kKept;
    state = {.holders = std::move(state.holders),
             .last = now,
             .now = now,
             .moved = moved,
             .learned = keeps ? state.learned : LearnedLimit{}};
    return false;
  }

  // How many of `n` consecutive checks are admitted.
  template <typename Counted>  // State or SlotsSnapshot
  std::int64_t Grants(const Counted& state, const CounterDemand& demand, std::int64_t n) const {
    if (demand.units > kMaxCost) return 0;
    return FitWithin(LimitNow(state), state.counted, demand.units, n);
  }

  // Takes `cost` slots under `lease`. REQUIRES: cost >= 1, and the lease holds no slots.
  void Take(State& state, std::int64_t cost, const Lease& lease) const {
    if (std::exchange(state.moved, false)) state.holders->Clear();
    if (adapt.on) state.learned.Enter(adapt, limit);
    const std::int64_t expired = state.holders->RemoveExpired(state.now, kMaxCleared + cost);
    if (adapt.on && expired > 0) LearnExpired(state, expired);
    state.holders->Set(lease.id, {state.now + lease.ttl, cost});
    state.counted += cost;
    state.last = state.now;
  }
  void Take(SlotsSnapshot& snapshot, std::int64_t cost, std::int64_t times) const {
    snapshot.counted += static_cast<std::int32_t>(cost * times);
  }

  bool Holds(const State& state, const Lease& lease) const {
    const Holder* const holder = state.counted > 0 ? state.holders->Find(lease.id) : nullptr;
    return holder != nullptr && holder->expires > state.now;
  }

  // Extends the lease until state.now + lease.ttl. REQUIRES: Holds(state, lease).
  void Renew(State& state, const Lease& lease) const {
    const std::int64_t slots = state.holders->Find(lease.id)->slots;
    state.holders->Set(lease.id, {state.now + lease.ttl, slots});
    state.last = state.now;
  }

  // Takes `cost` slots, but at most kMaxCost, under `lease`, without testing the limit. If the
  // lease already holds slots, renews it instead. Returns how many slots exceed kMaxCost; 0 if it
  // renews.
  std::int64_t Charge(State& state, std::int64_t cost, const Lease& lease) const {
    if (Holds(state, lease)) {
      Renew(state, lease);
      return 0;
    }
    const std::int64_t charged = std::min(cost, kMaxCost);
    if (charged > 0) Take(state, charged, lease);
    return cost - charged;
  }

  // Releases the slots of the lease, if it holds any.
  ChangeResult Release(State& state, const Lease& lease) const {
    if (!Holds(state, lease)) return {.changed = false};
    const std::int64_t slots = state.holders->Find(lease.id)->slots;
    const std::int64_t before = LimitNow(state);
    if (adapt.on && lease.report) Learn(state, *lease.report, slots);
    state.counted -= slots;
    state.holders->Remove(lease.id);
    state.last = state.now;
    return {.dropped = LimitNow(state) - before};
  }

  // The data needed to answer a check of `cost` slots. If `taken` is 1, the check takes them under
  // `lease`.
  using Snapshot = SlotsSnapshot;
  Snapshot Summarize(const State& state, std::int64_t cost, std::int64_t taken,
                     const std::optional<Lease>& lease, Time now) const {
    SlotsSnapshot snapshot{.counted = static_cast<std::int32_t>(state.counted),
                           .limit = static_cast<std::int32_t>(LimitNow(state)),
                           .reset_at = now,
                           .retry_at = now};
    const bool held = state.counted > 0;
    if (held) snapshot.reset_at = state.holders->ExpiryAfter(state.now, 1) - state.offset;
    const bool takes = cost * taken > 0;
    if (takes) {
      const Time expires = state.now + lease->ttl - state.offset;
      snapshot.reset_at = held ? std::min(snapshot.reset_at, expires) : expires;
    }
    const std::int64_t excess = state.counted + cost - snapshot.limit;
    if (!takes && cost <= limit && excess > state.counted) {
      snapshot.retry_at = now + adapt.latency;  // the limit may have risen by then
    } else if (!takes && cost <= limit && excess > 0) {
      snapshot.retry_at = state.holders->ExpiryAfter(state.now, excess) - state.offset;
    }
    return snapshot;
  }

  // The verdict at `now`. REQUIRES: `snapshot` was made at `now`.
  Verdict Judge(const SlotsSnapshot& snapshot, const CounterDemand& demand, bool admitted,
                Time now) const {
    Verdict verdict = snapshot.usage().Judge(limit, demand.units, admitted, now);
    verdict.limit = snapshot.limit;
    verdict.remaining = std::max(0, snapshot.limit - snapshot.counted);
    if (demand.units > kMaxCost) verdict.retry_after = Verdict::kNever;
    return verdict;
  }

  // Time from `now` until the state equals that of a new counter.
  Duration Lifetime(const State& state, Time now) const {
    const Time kept = state.learned.limit > 0 ? state.last + LearnedLimit::kKept : Time{};
    const Time held = state.counted > 0 ? state.holders->LatestExpiry() : Time{};
    return std::max(Duration::zero(), std::max(kept, held) - state.offset - now);
  }

  // The limit for `share`.
  Concurrency For(const Share& share) const {
    Concurrency shared = *this;
    shared.limit = share.Of(limit);
    shared.adapt.min = share.Of(adapt.min);
    return shared;
  }
  // The counter for `share`. It is unknown who holds slots, so the counter starts without holders.
  State Seed(const SlotsSnapshot& snapshot, Time at, const Share& share) const {
    State state = New(at);
    if (adapt.on) {
      state.learned.limit = state.learned.top = share.Of(snapshot.limit) * LearnedLimit::kSlot;
    }
    return state;
  }

  // See core/algorithm/counter.h.
  std::size_t MemoryOf(const State& state) const {
    return Holders::kOwnBytes + state.holders->size() * Holders::kBytes;
  }
  static bool MayGrow(const State&) { return true; }

  // Slots held.
  std::int64_t Used(const State& state) const { return state.counted; }

 private:
  // Learns from a hold that ends. Learns nothing if the clock has moved back since the hold began.
  void Learn(State& state, const HoldReport& report, std::int64_t slots) const {
    const Duration took = state.now - state.offset - report.taken;
    if (took < Duration::zero()) return;
    const bool too_slow = report.duration.value_or(took) > adapt.latency;
    state.learned.Learn(adapt, limit, {took, too_slow, slots, state.counted});
  }
  void LearnExpired(State& state, std::int64_t slots) const {
    state.learned.Learn(adapt, limit, {adapt.latency, true, slots, state.counted + slots});
  }
};

}  // namespace sluice
