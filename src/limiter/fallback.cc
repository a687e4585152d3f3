#include "limiter/fallback.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "base/hash.h"
#include "base/log.h"
#include "limiter/lease_name.h"

namespace sluice {
namespace {

// The version differs whenever the initial state of the counter differs.
std::uint64_t VersionOf(const std::optional<SeenState>& seen, const Share& share) {
  const auto number = [](auto value) { return static_cast<std::size_t>(value); };
  std::size_t version = CombineHash(number(share.parts), number(share.of));
  version = CombineHash(version, number(share.rank));
  if (!seen) return version;
  for (const double field : FieldsOf(seen->snapshot)) {
    version = CombineHash(version, std::bit_cast<std::uint64_t>(field));
  }
  return version;
}

// A limit that follows the load keeps the value seen last, because this server alone has too few
// samples to learn from. If no value was seen, the lower bound applies. The value may have been
// seen for a rule with other bounds, so it is brought within the bounds of this rule.
Limit FixedAsSeen(const Limit& limit, std::string_view key, const RecentStates& states) {
  if (AdaptationOf(limit) == nullptr) return limit;
  auto fixed = std::get<Concurrency>(limit);
  const auto seen = states.Find(key);
  const std::int64_t last = seen ? std::get<SlotsSnapshot>(seen->snapshot).limit : 0;
  fixed.limit = std::clamp(last, fixed.adapt.min, fixed.limit);
  fixed.adapt = {};
  return fixed;
}

// Whether nothing was recorded as charged for the lease, because it took 0 units or because there
// was no room. Then all units that it used must be charged. Shadow rules are not charged.
bool OwesAllUsed(const PendingLeases::Held& held) {
  return !held.added && held.count == 0 && held.group == 0 && Supports(*held.limit, Mode::kCharge);
}

}  // namespace

// A pending change on its way to the store.
class Fallback::Settlement final : public StoreCheck {
 public:
  Settlement(Fallback& owner, PendingCharges::Charge charge)
      : owner_(owner), pending_(std::move(charge)) {
    const auto& kept = std::get<PendingCharges::Charge>(pending_);
    counters.push_back({.key = kept.key, .limit = &kept.limit, .units = kept.units});
    demand.mode = Mode::kCharge;
  }
  Settlement(Fallback& owner, PendingLeases::Change its_change, SteadyTime now)
      : owner_(owner), pending_(std::move(its_change)) {
    const auto& change = std::get<PendingLeases::Change>(pending_);
    for (const PendingLeases::Held& held : change.held) {
      counters.push_back({.key = held.key,
                          .limit = held.limit ? &*held.limit : &AnySlots(),
                          .group = held.group,
                          .units = change.released && change.units ? held.used : held.count});
    }
    leases_units = change.units;
    demand.mode = change.released ? Mode::kSettle : change.renewed ? Mode::kRenew : Mode::kCharge;
    const auto left = std::chrono::duration_cast<Duration>(change.expires - now);
    lease = {.id = NameInStore(change.id), .ttl = std::max<Duration>(left, Duration(1))};
  }

  // One of the two is set, the other is null.
  PendingCharges::Charge* charge() { return std::get_if<PendingCharges::Charge>(&pending_); }
  PendingLeases::Change* change() { return std::get_if<PendingLeases::Change>(&pending_); }

 private:
  void OnDecided() override { owner_.OnReconciled(*this); }

  Fallback& owner_;
  std::variant<PendingCharges::Charge, PendingLeases::Change> pending_;
};

Fallback::Fallback(const Clock& own_clock, const Share& initial_share)
    : clock(own_clock), share_(initial_share) {}

Fallback::~Fallback() = default;

void Fallback::Attach(Store& store, const LimiterMetrics& metrics) {
  store_ = &store;
  metrics_ = &metrics;
}

Share Fallback::share() const {
  const MutexLock lock(mutex_);
  return share_;
}

bool Fallback::SetShare(const Share& share) {
  const Time now = clock.Now();
  const MutexLock lock(mutex_);
  for (Part& part : parts_) {
    EndGracePeriodInTime(part, now);
    if (part.state == PartState::kInGrace) return false;
  }
  share_ = share;
  return true;
}

// 1. The store answers.

void Fallback::NoteAsked(const StoreCheck& check) const {
  for (const CounterCheck& counter : check.counters) states.Prefetch(counter.key);
}

void Fallback::NoteDecided(const StoreCheck& check, SteadyTime now) {
  if (!check.failure()) clock.Learn(check.decided_at, now);
  for (const CounterCheck& counter : check.counters) {
    if (counter.failure) {
      // Overload, a caller's deadline and a counter that cannot be read are not failures of the
      // store.
      const bool is_well = counter.failure == StoreFailure::kOverloaded ||
                           counter.failure == StoreFailure::kCallerTimeout ||
                           counter.failure == StoreFailure::kCounterRejected;
      const bool refuses = counter.failure == StoreFailure::kRejected;
      if (!is_well) FailPart(store_->PartOf(counter.key), refuses ? Sign::kRefuses : Sign::kSlow);
    } else if (!AllPartsAreWell()) {
      OnPartFound(store_->PartOf(counter.key));
    }
  }
  Learn(check);
}

// In a grace period, the store's counter lacks units that other servers have admitted, so the
// counter's state is not learned. Remembered denials count as outdated even after a failed refund
// or settlement, because it may still have run.
void Fallback::Learn(const StoreCheck& check) {
  const Mode mode = check.demand.mode;
  const bool gives_back = mode == Mode::kRefund || mode == Mode::kSettle;
  for (const CounterCheck& counter : check.counters) {
    if (gives_back) clearings.Note(counter.key, SteadyNow());
    // The holders of slots are unknown. So a concurrency limit's only state to learn is its value,
    // which changes only if the limit follows the load.
    const bool is_fixed = AdaptationOf(*counter.limit) == nullptr;
    if (counter.failure || (TakesLeases(*counter.limit) && is_fixed)) continue;
    if (!InGracePeriod(counter.key)) Learn(counter);
  }
}

void Fallback::Learn(const CounterCheck& counter) {
  SeenState seen{.snapshot = counter.before,
                 .reset_at = counter.decided_at + counter.verdict.reset_after,
                 .at = counter.decided_at};
  const std::int64_t taken = (counter.charged ? counter.units : 0) + counter.grant.units;
  if (taken > 0) Take(*counter.limit, seen.snapshot, taken);
  states.Learn(counter.key, seen);
}

// A settlement that failed was queued to be sent again. If its answer arrives late, the queued
// settlement will find the lease already settled, so the units are counted now.
void Fallback::OnLateAnswer(const StoreCheck& check) {
  Learn(check);
  if (check.leases_units && check.demand.mode == Mode::kSettle) OnSettled(check);
}

void Fallback::OnUndoStarted(const StoreCheck& undo) {
  for (const CounterCheck& counter : undo.counters) clearings.Begin(counter.key);
}

// Remembered denials count as outdated even after a failed undo, because it may still have run.
void Fallback::OnUndoEnded(const StoreCheck& undo) {
  for (const CounterCheck& counter : undo.counters) clearings.End(counter.key, SteadyNow());
  Learn(undo);
}

void Fallback::OnSettled(const StoreCheck& settlement) {
  if (settlement.settled == Settled::kSettled) metrics_->CountSettled(settlement);
}

// 2. A part of the store fails.

void Fallback::OnPartLost(std::size_t part) { FailPart(part, Sign::kLost); }

// In a grace period, no server can charge its units if the part refuses to work or is lost. So the
// failure continues. A check that is only slow shows nothing about other checks.
void Fallback::FailPart(std::size_t part, Sign sign) {
  const Time now = clock.Now();
  const MutexLock lock(mutex_);
  Part& failed = parts_[part];
  EndGracePeriodInTime(failed, now);
  if (failed.state == PartState::kWell) {
    failed.lost = false;
    failed.since = now;
  } else if (failed.state == PartState::kInGrace && sign == Sign::kSlow) {
    return;
  }
  Enter(failed, PartState::kFailing);
  failed.lost |= sign == Sign::kLost;
}

void Fallback::Enter(Part& part, PartState state) {
  not_well_.fetch_add((state != PartState::kWell) - (part.state != PartState::kWell),
                      std::memory_order_relaxed);
  part.state = state;
}

// If the clock was set back, the grace period ends as well.
void Fallback::EndGracePeriodInTime(Part& part, Time now) {
  const bool is_time = part.until - kLongestGrace <= now && now < part.until;
  if (part.state == PartState::kInGrace && !is_time) Enter(part, PartState::kWell);
}

// 3. This server decides.

// The state seen last lacks the pending charges: the units that this server has admitted since
// then. So these units are charged to the local counter.
Fallback::LocalCounter Fallback::Localize(std::string_view key, const Limit& limit) const {
  const Share mine = share();
  LocalCounter local{.limit = LimitFor(FixedAsSeen(limit, key, states), mine)};
  // The store's holders of slots are unknown, so there is no state to start from. Without a seed,
  // the holders admitted here remain even if the share changes.
  if (TakesLeases(limit)) return local;
  const Time now = clock.Now();
  const auto seen = states.Find(key);
  CounterSeed& seed = local.seed.emplace(CounterSeed{.version = VersionOf(seen, mine)});
  if (seen) {
    seed.state = Seed(limit, *seen, mine);
  } else {
    seed.keep = Open(local.limit, seed.state, now);
  }
  if (const std::int64_t units = charges.Find(key, now); units > 0) {
    Advance(local.limit, seed.state, now);
    Change(local.limit, seed.state, {.demand = {{.mode = Mode::kCharge}, units}, .now = now});
  }
  return local;
}

std::vector<Limit> Fallback::UseShares(StoreCheck& check) const {
  const Share mine = share();
  std::vector<Limit> limits;
  limits.reserve(check.counters.size());  // so that pointers into it remain valid
  for (CounterCheck& counter : check.counters) {
    counter.limit = &limits.emplace_back(LimitFor(*counter.limit, mine));
  }
  return limits;
}

std::optional<PendingCharges::Added> Fallback::RecordCharge(std::string_view key,
                                                            const Limit& limit,
                                                            std::int64_t units) {
  const Share mine = share();
  const auto seen = states.Find(key);
  const auto added =
      charges.Add({.key = key, .limit = limit, .share = mine, .seen = seen}, units, clock.Now());
  (added ? metrics_->units_owed : metrics_->units_not_kept)
      .Increment(static_cast<std::uint64_t>(units));
  return added;
}

void Fallback::RecordUnknown(std::int64_t units) const {
  metrics_->units_unknown.Increment(static_cast<std::uint64_t>(units));
}

// If some units are no longer pending, they are in the store or on their way there, so the store
// must settle the lease.
std::optional<LeaseOutcome> Fallback::SettleLease(const StoreCheck& settle) {
  std::vector<std::int64_t> used;
  for (const CounterCheck& counter : settle.counters) used.push_back(counter.units);
  auto lease = leases.Withdraw(settle.lease->id);
  if (!lease) {
    if (leases.Settle(settle.lease->id, used)) return LeaseOutcome::kQueued;
    return std::nullopt;
  }
  bool all = true;
  for (std::size_t i = 0; i < lease->held.size(); ++i) {
    PendingLeases::Held& held = lease->held[i];
    if ((!held.added && !OwesAllUsed(held)) || used[i] == kAsTaken) continue;
    const std::int64_t kept = std::min(used[i], held.count);
    const bool is_pending =
        kept == held.count ||
        charges.Undo(held.key, {.added = *held.added, .units = held.count, .used = kept},
                     clock.Now());
    std::optional<PendingCharges::Added> on_top;
    if (used[i] > kept) on_top = RecordCharge(held.key, *held.limit, used[i] - kept);
    if (!held.added) held.added = on_top;
    (is_pending ? held.count : held.used) = on_top ? used[i] : kept;
    all &= is_pending;
  }
  if (all) return LeaseOutcome::kSettled;
  lease->released = true;
  leases.Granted(std::move(*lease));
  return LeaseOutcome::kQueued;
}

// 4. The part is back.

void Fallback::OnPartFound(std::size_t part) {
  const Time now = clock.Now();
  const MutexLock lock(mutex_);
  Part& found = parts_[part];
  if (found.state != PartState::kFailing) return;
  // The pauses between reconnects grow with the outage, so the grace period grows, too.
  found.until = now + std::clamp(2 * (now - found.since), Duration::zero(), kLongestGrace);
  Enter(found, PartState::kInGrace);
}

bool Fallback::InGracePeriod(std::string_view key) {
  if (AllPartsAreWell()) return false;
  const std::size_t part = store_->PartOf(key);
  const Time now = clock.Now();
  const bool has_pending = HasPending();
  const MutexLock lock(mutex_);
  Part& found = parts_[part];
  EndGracePeriodInTime(found, now);
  if (found.state != PartState::kInGrace) return false;
  if (found.lost || has_pending) return true;
  Enter(found, PartState::kWell);
  return false;
}

// 5. The store is charged.

void Fallback::Reconcile() {
  if (undecided_ > 0) return;
  in_flight_.clear();
  const SteadyTime now = SteadyNow();
  const std::size_t most = store_accepts_ ? kMostAtOnce : 1;
  reconciling_ = true;
  const auto is_owed = [&, time = clock.Now()](std::string_view key) {
    return charges.Find(key, time) > 0;
  };
  for (auto& change : leases.Take(most, now, is_owed)) {
    in_flight_.push_back(std::make_unique<Settlement>(*this, std::move(change), now));
  }
  for (auto& charge : charges.Take(most, clock.Now())) {
    in_flight_.push_back(std::make_unique<Settlement>(*this, std::move(charge)));
  }
  undecided_ = in_flight_.size();
  reconciling_ = undecided_ > 0;
  for (const auto& settlement : in_flight_) {
    settlement->deadline = now + kChargeTimeout;
    store_->Submit(*settlement);
  }
}

// A change of a lease may be sent twice, but a charge must not. So if the outcome of a charge is
// unknown, the charge is not sent again.
void Fallback::OnReconciled(Settlement& settlement) {
  const auto failure = settlement.failure();
  const int pause = failure == StoreFailure::kCounterRejected ? kRoundsAfterRejection : 0;
  if (auto* const change = settlement.change(); change != nullptr) {
    if (failure) {
      leases.PutBack(*change, pause);
    } else if (change->units && change->released) {
      OnSettled(settlement);
    }
  } else if (auto* const charge = settlement.charge(); failure == StoreFailure::kTimeout) {
    charges.Settle(*charge);
    RecordUnknown(charge->units);
    leases.Leave(charge->key);
  } else if (failure) {
    charges.PutBack(*charge, clock.Now(), pause);
  } else {
    charges.Settle(*charge);
    metrics_->units_charged.Increment(static_cast<std::uint64_t>(charge->units));
  }
  reconciling_ = --undecided_ > 0;
  store_accepts_ = !failure || pause > 0;
  NoteDecided(settlement, SteadyNow());
  const MutexLock lock(wait_mutex_);
  reconciled_.NotifyAll();
}

void Fallback::WaitUntilCharged(SteadyTime deadline) {
  const MutexLock lock(wait_mutex_);
  static_cast<void>(reconciled_.WaitUntil(wait_mutex_, deadline, [this] { return !HasPending(); }));
}

void Fallback::LogLost() {
  const std::int64_t units = charges.Sum(clock.Now());
  const std::size_t changes = leases.changes();
  if (units == 0 && changes == 0) return;
  spdlog::warn(
      "{} units admitted without Redis are not charged, and the changes of {} leases are lost, "
      "because Redis did not take them before this server stopped",
      units, changes);
}

void Fallback::Forget(std::string_view key) {
  clearings.Note(key, SteadyNow());
  states.Forget(key, clock.Now());
  charges.Forget(key);
  leases.Forget(key);
}

}  // namespace sluice
