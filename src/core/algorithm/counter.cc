#include "core/algorithm/counter.h"

#include <algorithm>
#include <type_traits>

namespace sluice {
namespace {

template <typename Algorithm>
using SnapshotOf = typename std::decay_t<Algorithm>::Snapshot;

// Calls `use` with the algorithm of `limit`, and with the alternative of `any` that belongs to this
// algorithm. `any` is a CounterState or a CounterSnapshot.
template <typename Any, typename Use>
auto WithOwn(const Limit& limit, Any& any, const Use& use) {
  return std::visit(
      [&](const auto& algorithm) {
        using Its = std::decay_t<decltype(algorithm)>;
        constexpr bool kIsState = std::is_same_v<std::remove_const_t<Any>, CounterState>;
        using Own = std::conditional_t<kIsState, typename Its::State, typename Its::Snapshot>;
        return use(algorithm, std::get<Own>(any));
      },
      limit);
}

}  // namespace

WriteBack Open(const Limit& limit, CounterState& state, Time now) {
  return std::visit(
      [&](const auto& algorithm) {
        state.emplace<typename std::decay_t<decltype(algorithm)>::State>(algorithm.New(now));
        return algorithm.KeepsNew();
      },
      limit);
}

WriteBack Advance(const Limit& limit, CounterState& state, Time now) {
  const bool moved = WithOwn(
      limit, state, [&](const auto& algorithm, auto& own) { return algorithm.Advance(own, now); });
  return moved ? WriteBack::kAlways : WriteBack::kNo;
}

std::int64_t Grants(const Limit& limit, const CounterState& state, const CounterDemand& demand,
                    std::int64_t n) {
  return WithOwn(limit, state, [&](const auto& algorithm, const auto& own) {
    return algorithm.Grants(own, demand, n);
  });
}

Duration Lifetime(const Limit& limit, const CounterState& state, Time now) {
  return WithOwn(limit, state, [&](const auto& algorithm, const auto& own) {
    return algorithm.Lifetime(own, now);
  });
}

CounterState Seed(const Limit& limit, const SeenState& seen, const Share& share) {
  return WithOwn(limit, seen.snapshot, [&](const auto& algorithm, const auto& snapshot) {
    return OneOf<CounterState>(algorithm.Seed(snapshot, seen.at, share));
  });
}

CounterState Uncharged(const Limit& limit, const std::optional<SeenState>& seen, Time now) {
  CounterState state;
  Open(limit, state, now);
  if (!seen) return state;
  std::visit(
      [&](const auto& algorithm) {
        if constexpr (requires(SnapshotOf<decltype(algorithm)> own) { algorithm.Uncharged(own); }) {
          state = algorithm.Uncharged(std::get<SnapshotOf<decltype(algorithm)>>(seen->snapshot));
        }
      },
      limit);
  return state;
}

void ChangeRate(Limit& limit, CounterState& state, const Limit& other) {
  if (limit.index() != other.index()) return;
  std::visit(
      [&](auto& algorithm) {
        using Algorithm = std::decay_t<decltype(algorithm)>;
        if constexpr (requires(typename Algorithm::State own) {
                        algorithm.ChangeRate(own, algorithm);
                      }) {
          algorithm.ChangeRate(std::get<typename Algorithm::State>(state),
                               std::get<Algorithm>(other));
        }
      },
      limit);
}

std::size_t MemoryOf(const Limit& limit, const CounterState& state) {
  return WithOwn(limit, state,
                 [](const auto& algorithm, const auto& own) { return algorithm.MemoryOf(own); });
}

bool MayGrow(const Limit& limit, const CounterState& state) {
  return WithOwn(limit, state,
                 [](const auto& algorithm, const auto& own) { return algorithm.MayGrow(own); });
}

std::int64_t Used(const Limit& limit, const CounterState& state) {
  return WithOwn(limit, state,
                 [](const auto& algorithm, const auto& own) { return algorithm.Used(own); });
}

void Take(const Limit& limit, CounterState& state, const CoalescedChecks& checks) {
  WithOwn(limit, state, [&](const auto& algorithm, auto& own) {
    if constexpr (std::decay_t<decltype(algorithm)>::kTakesLeases) {
      algorithm.Take(own, checks.demand.units, *checks.lease);
    } else {
      algorithm.Take(own, checks.demand.units, checks.granted);
    }
  });
}

void Take(const Limit& limit, CounterSnapshot& snapshot, std::int64_t cost) {
  WithOwn(limit, snapshot, [&](const auto& algorithm, auto& own) { algorithm.Take(own, cost, 1); });
}

bool Admits(const Limit& limit, const CounterState& state, const CoalescedChecks& checks) {
  if (checks.demand.mode == Mode::kCharge) return Grants(limit, state, checks.demand, 1) == 1;
  if (checks.demand.mode != Mode::kRenew) return true;
  return WithOwn(limit, state, [&](const auto& algorithm, const auto& own) {
    if constexpr (std::decay_t<decltype(algorithm)>::kTakesLeases)
      return algorithm.Holds(own, *checks.lease);
    return false;
  });
}

ChangeResult Change(const Limit& limit, CounterState& state, const CoalescedChecks& checks) {
  const Mode mode = checks.demand.mode;
  const std::int64_t cost = checks.demand.units;
  return WithOwn(limit, state, [&](const auto& algorithm, auto& own) -> ChangeResult {
    if constexpr (std::decay_t<decltype(algorithm)>::kTakesLeases) {
      if (mode == Mode::kSettle) return algorithm.Release(own, *checks.lease);
      if (mode == Mode::kCharge) {
        const bool renews = algorithm.Holds(own, *checks.lease);
        const std::int64_t dropped = algorithm.Charge(own, cost, *checks.lease);
        return {.changed = renews || dropped < cost, .dropped = dropped};
      }
      algorithm.Renew(own, *checks.lease);
      return {};
    } else if (mode == Mode::kCharge) {
      const std::int64_t dropped = algorithm.Charge(own, cost);
      return {.changed = dropped < cost, .dropped = dropped};
    } else {
      return {.changed = algorithm.Refund(own, cost, checks.demand.charged_at)};
    }
  });
}

ChangeResult Undo(const Limit& limit, CounterState& state, const CounterSnapshot& before,
                  const CoalescedChecks& checks) {
  return WithOwn(limit, state, [&](const auto& algorithm, auto& own) -> ChangeResult {
    if constexpr (std::decay_t<decltype(algorithm)>::kTakesLeases) {
      return algorithm.Release(own, *checks.lease);
    } else {
      return algorithm.Undo(own, checks.demand.units,
                            std::get<SnapshotOf<decltype(algorithm)>>(before));
    }
  });
}

bool IsOf(const Limit& limit, const CounterState& state) { return limit.index() == state.index(); }

bool IsOf(const Limit& limit, const CounterSnapshot& snapshot) {
  return std::visit(
      [&](const auto& algorithm) {
        return std::holds_alternative<typename std::decay_t<decltype(algorithm)>::Snapshot>(
            snapshot);
      },
      limit);
}

ChangeResult Settle(const Limit& limit, CounterState& state, const CounterState& stored,
                    const Held& held, const CoalescedChecks& checks) {
  const std::int64_t used = checks.demand.units;
  const bool concerned = held.units != Held::kNothing;
  if (concerned && TakesLeases(limit)) return Change(limit, state, checks);
  if (!concerned || used == kAsTaken || used == held.units) return {.changed = false};
  const bool charges = used > held.units;
  if (!charges && !RefundsInFull(limit)) return {.changed = false};
  CoalescedChecks rest = checks;
  rest.demand.mode = charges ? Mode::kCharge : Mode::kUndo;
  rest.demand.units = charges ? used - held.units : held.units - used;
  CounterSnapshot before = held.before;
  if (!charges) Take(limit, before, used);
  return WithOwn(limit, state, [&](const auto& algorithm, auto& own) -> ChangeResult {
    using Its = std::decay_t<decltype(algorithm)>;
    if constexpr (Its::kSettlesAsStored) {
      const auto found = own;
      const auto& as_stored = std::get<typename Its::State>(stored);
      const std::int64_t units = rest.demand.units;
      const std::int64_t dropped = charges ? algorithm.Charge(own, units) : 0;
      std::int64_t more = own.level - found.level;
      if (!charges) {
        more = algorithm.Unused(found, units, std::get<typename Its::Snapshot>(before)).value_or(0);
      }
      own = more == 0 ? as_stored : algorithm.Settled(as_stored, found, more);
      return {.changed = own != as_stored, .dropped = dropped};
    } else {
      if (charges) return Change(limit, state, rest);
      return {.changed = Undo(limit, state, before, rest).changed};
    }
  });
}

Held HeldOfCharged(const Limit& limit, const CounterState& state, const CoalescedChecks& checks) {
  CoalescedChecks taking = checks;
  taking.demand.mode = Mode::kConsume;
  taking.granted = 1;
  CounterState before = state;
  WithOwn(limit, before, [&](const auto& algorithm, auto& own) {
    using Its = std::decay_t<decltype(algorithm)>;
    if constexpr (std::is_base_of_v<typename Its::Snapshot, typename Its::State>) {
      algorithm.Refund(own, checks.demand.units, std::nullopt);
    }
  });
  Held held{.units = checks.demand.units, .before = Summarize(limit, before, taking)};
  if (auto* const usage = std::get_if<UsageSnapshot>(&held.before)) usage->retry_at = Time();
  return held;
}

bool TakeBack(const Limit& limit, CounterState& state, const GrantReturn& returned) {
  return WithOwn(limit, state, [&](const auto& algorithm, auto& own) {
    if constexpr (requires { own.grants; }) {
      if (!own.grants.Knows(returned)) return false;
      const std::int64_t unused = own.grants.Remove(returned);
      if (unused > 0) algorithm.Refund(own, unused, std::nullopt);
      return true;
    }
    return false;
  });
}

Grant TakeGrant(const Limit& limit, CounterState& state, const GrantWish& wish) {
  return WithOwn(limit, state, [&](const auto& algorithm, auto& own) {
    Grant grant;
    if constexpr (requires { own.grants; }) {
      const GrantWish limited = algorithm.Limited(wish, own);
      grant = own.grants.Add(algorithm.Grantable(own), own.last, limited);
      algorithm.Take(own, grant.units, 1);
    }
    return grant;
  });
}

GrantsOut GrantsOutOf(const Limit& limit, const CounterState& state) {
  return WithOwn(limit, state, [](const auto&, const auto& own) {
    if constexpr (requires { own.grants; }) return own.grants;
    return GrantsOut();
  });
}

CounterSnapshot Summarize(const Limit& limit, const CounterState& state,
                          const CoalescedChecks& checks) {
  const std::int64_t taken = checks.demand.mode == Mode::kConsume ? checks.granted : 0;
  const std::int64_t cost = checks.demand.units;
  return WithOwn(limit, state, [&](const auto& algorithm, const auto& own) -> CounterSnapshot {
    if constexpr (std::decay_t<decltype(algorithm)>::kTakesLeases) {
      return algorithm.Summarize(own, cost, taken, checks.lease, checks.now);
    } else {
      return algorithm.Summarize(own, cost, taken, checks.now);
    }
  });
}

CounterReport ReportOfCharge(const Limit& limit, CounterReport report,
                             const CoalescedChecks& checks, std::int64_t index) {
  report.admitted = index < checks.granted;
  WithOwn(limit, report.snapshot, [&](const auto& algorithm, auto& own) {
    if constexpr (std::decay_t<decltype(algorithm)>::kMayCoalesceCharges) {
      report.dropped = algorithm.ChargeRepeatedly(own, checks.demand.units, index);
    }
  });
  return report;
}

CounterSnapshot SnapshotFromFields(const Limit& limit, const std::array<double, 3>& fields) {
  return std::visit(
      [&](const auto& algorithm) -> CounterSnapshot {
        return SnapshotOf<decltype(algorithm)>::FromFields(fields);
      },
      limit);
}

std::array<double, 3> FieldsOf(const CounterSnapshot& snapshot) {
  return std::visit([](const auto& it) { return it.ToFields(); }, snapshot);
}

Verdict VerdictAt(const Limit& limit, CounterReport& report, const CoalescedChecks& checks,
                  std::int64_t index) {
  const CounterDemand& demand = checks.demand;
  return WithOwn(limit, report.snapshot, [&](const auto& algorithm, auto& snapshot) {
    if (!demand.consumes_or_peeks()) {
      Verdict verdict = algorithm.Judge(snapshot, demand, report.admitted, checks.now);
      verdict.dropped = report.dropped;
      return verdict;
    }
    const bool consumes = demand.mode == Mode::kConsume;
    if (consumes) algorithm.Take(snapshot, demand.units, std::min(index, checks.granted));
    const bool admitted = index < checks.granted || algorithm.Grants(snapshot, demand, 1) == 1;
    const Duration wait =
        admitted ? algorithm.Wait(snapshot, demand, checks.now) : Duration::zero();
    auto after = snapshot;
    if (consumes && index < checks.granted) algorithm.Take(after, demand.units, 1);
    Verdict verdict = algorithm.Judge(after, demand, admitted, checks.now);
    verdict.wait = wait;
    return verdict;
  });
}

}  // namespace sluice
