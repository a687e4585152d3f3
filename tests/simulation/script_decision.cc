#include "tests/simulation/script_decision.h"

#include <algorithm>
#include <array>
#include <map>
#include <variant>

#include "tests/simulation/script_record.h"

namespace sluice::simulation {
namespace {

// A fault: units are given back even if they are no longer out.
void GiveBack(Draft& draft) {
  const CoalescedChecks refund{.demand = {{.mode = Mode::kRefund}, draft.returned.unused}};
  if (draft.returned.unused > 0) Change(*draft.limit, draft.state, refund);
}

// A fault: a return whose grant has ended takes back units of another grant.
void NameOther(Draft& draft) {
  const GrantsOut out = GrantsOutOf(*draft.limit, draft.state);
  if (out.any() && !out.Knows(draft.returned)) draft.returned.generation = out.older_ends;
}

// Takes back the units of grants that the check returns.
void TakeBackGrants(std::vector<Draft>& drafts, Planted planted) {
  for (Draft& draft : drafts) {
    const std::int64_t out = GrantsOutOf(*draft.limit, draft.state).units();
    if (planted == Planted::kLateReturnsTaken) NameOther(draft);
    if (!TakeBack(*draft.limit, draft.state, draft.returned)) continue;
    if (planted == Planted::kReturnsCountedTwice) GiveBack(draft);
    draft.changed = true;
    draft.took_back = true;
    // Only units that were still out are given back.
    const std::int64_t removed = out - GrantsOutOf(*draft.limit, draft.state).units();
    draft.charged -= std::min(draft.returned.unused, removed);
  }
}

// Takes the grants that the check wants. Writes the grant of each counter, and the counter's units
// that are out after the grant.
void TakeGrants(const Check& check, const std::vector<Held>& held, std::vector<Draft>& drafts,
                std::vector<double>& out) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    Draft& draft = drafts[i];
    bool may = check.asked.demand.mode == Mode::kConsume && held[i].units != Held::kNothing;
    for (std::size_t j = 0; j < drafts.size(); ++j) {
      may = may && (drafts[j].group > 0 || held[j].units != Held::kNothing);
    }
    const Grant grant = may ? TakeGrant(*draft.limit, draft.state, draft.wanted) : Grant();
    draft.changed = draft.changed || grant.units > 0;
    draft.charged += grant.units;
    draft.granted += grant.units;
    const GrantsOut all = GrantsOutOf(*draft.limit, draft.state);
    const auto time = [](Time at) { return static_cast<double>(at.time_since_epoch().count()); };
    out.insert(out.end(),
               {static_cast<double>(grant.units), time(grant.generation),
                static_cast<double>(grant.life.count()), static_cast<double>(all.older),
                static_cast<double>(all.newer), time(all.older_ends), time(all.newer_ends)});
  }
}

// Decides each group. Writes how many checks the group grants, and the snapshots of its counters.
// Returns how much of each counter a lease then holds.
std::vector<Held> DecideGroups(const Check& check, std::vector<Draft>& drafts,
                               std::vector<double>& out) {
  std::vector<Held> held(drafts.size());
  const bool peeks = check.asked.demand.mode == Mode::kPeek;
  std::int64_t allowed = check.n;
  for (std::size_t begin = 0, end = 0; begin < drafts.size(); begin = end) {
    std::int64_t granted = peeks ? std::min<std::int64_t>(allowed, 1) : allowed;
    for (; end < drafts.size() && drafts[end].group == drafts[begin].group; ++end) {
      const CounterDemand demand = check.Of(drafts[end]).demand;
      granted = Grants(*drafts[end].limit, drafts[end].state, demand, granted);
    }
    if (peeks) granted *= allowed;
    if (drafts[begin].group == 0) allowed = granted;
    out.push_back(static_cast<double>(granted));
    for (std::size_t i = begin; i < end; ++i) {
      Draft& draft = drafts[i];
      const CoalescedChecks checks = check.Of(draft, granted);
      const CounterSnapshot before = Summarize(*draft.limit, draft.state, checks);
      Append(before, out);
      if (granted > 0) held[i] = {.units = draft.units, .before = before};
      if (peeks || granted == 0 || draft.units == 0) continue;
      Take(*draft.limit, draft.state, checks);
      draft.changed = true;
      draft.charged += granted * draft.units;
    }
  }
  return held;
}

// Charges one counter n times in turn. Writes how many of the charges the counter would grant, and
// the counter's snapshot.
void DecideCharges(const Check& check, Draft& draft, std::vector<double>& out) {
  const CoalescedChecks checks = check.Of(draft);
  out.push_back(static_cast<double>(Grants(*draft.limit, draft.state, checks.demand, check.n)));
  Append(Summarize(*draft.limit, draft.state, checks), out);
  for (std::int64_t i = 0; i < check.n; ++i) {
    const ChangeResult done = Change(*draft.limit, draft.state, checks);
    draft.changed |= done.changed;
    draft.charged += draft.units - done.dropped;
  }
}

// Larger than every limit here. If replies are swapped (a planted fault), a call may pass a value
// that is not a number of units.
constexpr double kMostUnitsOut = 1e6;

// Applies any mode except kConsume and kPeek to one counter.
ChangeResult DecideChange(const Check& check, std::size_t index, bool all_admit, Draft& draft) {
  const CoalescedChecks checks = check.Of(draft);
  ChangeResult done{.changed = false};
  if (checks.demand.mode == Mode::kUndo) {
    const std::vector<double>& before = check.before[index];
    std::array<double, 3> fields{before[0], before[1], before[2]};
    if (std::holds_alternative<TokenBucket>(*draft.limit)) {
      fields[2] = std::min(fields[2], kMostUnitsOut);
    }
    done = Undo(*draft.limit, draft.state, SnapshotFromFields(*draft.limit, fields), checks);
    draft.charged = done.dropped - draft.units;  // even if the units have left the counter by now
    const auto* const bucket = std::get_if<TokenBucket>(draft.limit);
    if (bucket != nullptr) {
      draft.undone = {draft.units, Time(Duration(static_cast<std::int64_t>(before[1])))};
    }
  } else if (checks.demand.mode != Mode::kRenew || all_admit) {
    done = Change(*draft.limit, draft.state, checks);
    if (checks.demand.mode == Mode::kCharge) draft.charged = draft.units - done.dropped;
  }
  draft.changed = done.changed;
  return done;
}

void DecideChanges(const Check& check, std::vector<Draft>& drafts, std::vector<double>& out) {
  std::map<std::int64_t, bool> group_admits;
  std::vector<bool> admitted;
  bool all_admit = true;
  for (const Draft& draft : drafts) {
    admitted.push_back(Admits(*draft.limit, draft.state, check.Of(draft)));
    const auto group = group_admits.emplace(draft.group, true).first;
    group->second = group->second && admitted.back();
    all_admit = all_admit && (admitted.back() || draft.group > 0);
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    Draft& draft = drafts[i];
    const ChangeResult done = DecideChange(check, i, all_admit, draft);
    if (i == 0 || drafts[i - 1].group != draft.group) {
      out.push_back(group_admits[draft.group] ? 1 : 0);
    }
    out.push_back(admitted[i] ? 1 : 0);
    out.push_back(static_cast<double>(done.dropped));
    Append(Summarize(*draft.limit, draft.state, check.Of(draft)), out);
  }
}

}  // namespace

CoalescedChecks Check::Of(const Draft& draft, std::int64_t granted) const {
  return {.demand = {asked.demand, draft.units}, .lease = lease, .granted = granted, .now = now};
}

void Append(const CounterSnapshot& snapshot, std::vector<double>& out) {
  for (const double field : FieldsOf(snapshot)) out.push_back(field);
}

std::vector<double> Decide(const Check& check, std::vector<Draft>& drafts, Records& records,
                           Planted planted) {
  std::vector<double> out;
  const Asked& asked = check.asked;
  const bool is_charge = asked.demand.mode == Mode::kCharge && !asked.leased &&
                         drafts.size() == 1 &&
                         std::holds_alternative<FixedWindow>(*drafts.front().limit);
  if (is_charge) {
    DecideCharges(check, drafts.front(), out);
  } else if (asked.demand.consumes_or_peeks()) {
    if (asked.concerns_grants) TakeBackGrants(drafts, planted);
    const std::vector<Held> held = DecideGroups(check, drafts, out);
    if (asked.concerns_grants) TakeGrants(check, held, drafts, out);
    if (asked.recorded) Enter(check, drafts, held, records);
  } else if (asked.recorded) {
    DecideByRecords({.check = check, .planted = planted}, drafts, records, out);
  } else {
    DecideChanges(check, drafts, out);
  }
  return out;
}

}  // namespace sluice::simulation
