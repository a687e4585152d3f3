#include "tests/simulation/script_record.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace sluice::simulation {
namespace {

// The content of the records of a lease.
struct Known {
  Settled settled = Settled::kNotFound;
  Time ends;
  std::vector<Held> held;      // by counter
  std::set<std::string> open;  // keys of records
};

Known Read(const Check& check, const std::vector<Draft>& drafts, const Records& records) {
  Known known{.ends = {}, .held = std::vector<Held>(drafts.size()), .open = {}};
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const auto found = records.find(drafts[i].record);
    if (found == records.end() || check.now >= found->second.ends) continue;
    const Record& record = found->second;
    if (record.settled) {
      known.settled = std::min(known.settled, Settled::kAlreadySettled);
      continue;
    }
    known.settled = Settled::kSettled;
    known.ends = std::max(known.ends, record.lease_ends);
    known.open.insert(drafts[i].record);
    const std::size_t place = places[drafts[i].record]++;
    if (place < record.held.size()) known.held[i] = record.held[place];
  }
  return known;
}

// A fault: refunds all unused units, as if none of them had left the counter.
ChangeResult Refund(const Held& held, const CoalescedChecks& settled, Draft& draft) {
  CoalescedChecks checks = settled;
  checks.demand.mode = Mode::kRefund;
  checks.demand.units = held.units - draft.units;
  return Change(*draft.limit, draft.state, checks);
}

ChangeResult SettleOne(const RecordedCheck& recorded, const Held& held, Draft& draft) {
  const Limit& limit = *draft.limit;
  const CoalescedChecks checks = recorded.check.Of(draft);
  const bool settles_units =
      held.units != Held::kNothing && draft.units != kAsTaken && !TakesLeases(limit);
  if (settles_units && draft.units < held.units && RefundsInFull(limit)) {
    draft.given_back = held.units - draft.units;  // even if the units have left the counter by now
    if (const auto* const bucket = std::get_if<TokenBucket::Snapshot>(&held.before)) {
      draft.undone = {draft.given_back, bucket->last};
    }
    if (recorded.planted == Planted::kSettledByRefund) return Refund(held, checks, draft);
  }
  const ChangeResult done = Settle(limit, draft.state, draft.stored, held, checks);
  if (settles_units && draft.units > held.units) {
    draft.charged_on_top = draft.units - held.units - done.dropped;
  }
  return done;
}

// A charge after an outage adds the lease's slots to the counter of slots. Counters of other limits
// already contain the lease's units.
ChangeResult ChangeOne(const RecordedCheck& recorded, const Held& held, bool admitted,
                       Draft& draft) {
  const Mode mode = recorded.check.asked.demand.mode;
  if (mode == Mode::kSettle) return SettleOne(recorded, held, draft);
  const bool renews = mode == Mode::kRenew && held.units > 0 && admitted;
  if (!TakesLeases(*draft.limit) || (mode != Mode::kCharge && !renews)) return {.changed = false};
  return Change(*draft.limit, draft.state, recorded.check.Of(draft));
}

bool MayChange(Mode mode, Settled settled, bool all_admit) {
  if (mode == Mode::kRenew) return all_admit;
  if (mode == Mode::kCharge) return settled != Settled::kAlreadySettled;
  return mode == Mode::kSettle && settled == Settled::kSettled;
}

void WriteRecords(const Check& check, const std::vector<Draft>& drafts, const Known& known,
                  Records& records) {
  const Mode mode = check.asked.demand.mode;
  if (mode == Mode::kCharge && known.settled == Settled::kNotFound) {
    std::vector<Held> held;
    for (const Draft& draft : drafts) {
      held.push_back(HeldOfCharged(*draft.limit, draft.state, check.Of(draft)));
    }
    return Enter(check, drafts, held, records);
  }
  for (const std::string& key : known.open) {
    Record& record = records.at(key);
    if (mode == Mode::kSettle) {
      record = {.held = {}, .settled = true, .ends = check.now + kKnowsSettledFor};
    } else {
      record.lease_ends = check.now + check.lease->ttl;
      record.ends = record.lease_ends + kSettlesFor;
    }
  }
}

// The part of the check that concerns the counter itself, not the record.
CoalescedChecks AskedOf(const Check& check, const Draft& draft) {
  CoalescedChecks checks = check.Of(draft);
  const bool only_enters = check.asked.demand.mode == Mode::kCharge && !TakesLeases(*draft.limit);
  checks.demand.units = only_enters ? 0 : std::max<std::int64_t>(draft.units, 0);
  return checks;
}

// Whether each counter admits, and whether each group does.
struct Admitted {
  std::vector<bool> counters;
  std::map<std::int64_t, bool> groups;
  bool all = true;
};

Admitted Admit(const Check& check, const std::vector<Draft>& drafts, const Known& known) {
  const bool renews = check.asked.demand.mode == Mode::kRenew;
  const bool is_held = known.settled == Settled::kSettled && check.now < known.ends;
  Admitted admitted{.counters = {}, .groups = {}, .all = !renews || is_held};
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const Draft& draft = drafts[i];
    const bool holds_slots = TakesLeases(*draft.limit) && known.held[i].units > 0;
    const bool admits =
        (renews && !holds_slots) || Admits(*draft.limit, draft.state, AskedOf(check, draft));
    admitted.counters.push_back(admits);
    admitted.groups.emplace(draft.group, true).first->second &= admits;
    admitted.all &= admits || draft.group > 0;
  }
  return admitted;
}

}  // namespace

void Enter(const Check& check, const std::vector<Draft>& drafts, const std::vector<Held>& held,
           Records& records) {
  const Time ends = check.now + check.lease->ttl;
  std::map<std::string, std::vector<Held>> by_key;
  for (std::size_t i = 0; i < drafts.size(); ++i) by_key[drafts[i].record].push_back(held[i]);
  for (auto& [key, its] : by_key) {
    const bool concerned = std::any_of(its.begin(), its.end(),
                                       [](const Held& it) { return it.units != Held::kNothing; });
    if (!concerned) continue;
    records.insert_or_assign(
        key, Record{.held = std::move(its), .lease_ends = ends, .ends = ends + kSettlesFor});
  }
}

void DecideByRecords(const RecordedCheck& recorded, std::vector<Draft>& drafts, Records& records,
                     std::vector<double>& out) {
  const Check& check = recorded.check;
  const Mode mode = check.asked.demand.mode;
  const Known known = Read(check, drafts, records);
  const Admitted admitted = Admit(check, drafts, known);
  const bool changes = MayChange(mode, known.settled, admitted.all);
  const Time ends = changes && mode != Mode::kSettle ? check.now + check.lease->ttl : known.ends;
  out.push_back(static_cast<double>(known.settled));
  out.push_back(static_cast<double>(ends.time_since_epoch().count()));
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    Draft& draft = drafts[i];
    const bool admits = admitted.counters[i];
    ChangeResult done{.changed = false};
    if (changes) done = ChangeOne(recorded, known.held[i], admits, draft);
    draft.changed = done.changed;
    if (i == 0 || drafts[i - 1].group != draft.group) {
      out.push_back(admitted.groups.at(draft.group) ? 1 : 0);
    }
    out.push_back(admits ? 1 : 0);
    out.push_back(static_cast<double>(done.dropped));
    out.push_back(static_cast<double>(known.held[i].units));
    CounterState now = draft.state;
    if (SettlesAsStored(*draft.limit)) Advance(*draft.limit, now, check.now);
    Append(Summarize(*draft.limit, now, AskedOf(check, draft)), out);
  }
  const bool forgets = recorded.planted == Planted::kSettledTwice && mode == Mode::kSettle;
  if (changes && !forgets) WriteRecords(check, drafts, known, records);
}

}  // namespace sluice::simulation
