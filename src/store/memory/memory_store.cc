#include "store/memory/memory_store.h"

#include <algorithm>
#include <array>
#include <bitset>

#include "core/algorithm/counter.h"
#include "store/owned_check.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxShards = 64;

// If a sweep drops less than 1/kFewDropped of a shard's entries, the shard's next sweep must wait
// for kSweepPause.
constexpr std::size_t kFewDropped = 64;
constexpr Duration kSweepPause = std::chrono::milliseconds(100);
constexpr std::size_t kMostVisited = 16'000;  // visiting so many entries takes less than 1 ms

// The memory of an entry in a hash table, besides the key and the entry itself.
constexpr std::size_t kNodeBytes = 40;

bool MayTake(const Demand& demand) {
  return demand.mode == Mode::kConsume || demand.mode == Mode::kCharge;
}

// A CoalescedChecks that consists of `check` alone, for its `counter`.
CoalescedChecks One(const StoreCheck& check, const CounterCheck& counter, std::int64_t granted) {
  return {.demand = check.DemandOf(counter),
          .lease = check.lease,
          .granted = granted,
          .now = check.decided_at};
}

// Whether the counter admits the check. For a renewal: whether the lease keeps what it holds of the
// counter.
bool KeepsHolding(const StoreCheck& check, const CounterCheck& counter, const CounterState& state) {
  const bool has_no_slots = !TakesLeases(*counter.limit) || counter.held <= 0;
  if (check.leases_units && check.demand.mode == Mode::kRenew && has_no_slots) return true;
  return Admits(*counter.limit, state, One(check, counter, /*granted=*/0));
}

// Whether `check` may change its counters. Returns false for a denied renewal, for an inspection,
// and for a check whose lease was settled before. To settle a lease of units, the lease must be
// open.
bool MayChange(const StoreCheck& check) {
  const Mode mode = check.demand.mode;
  if (mode == Mode::kRenew) return check.admitted;
  if (mode == Mode::kInspect || !check.leases_units) return mode != Mode::kInspect;
  return mode == Mode::kSettle ? check.settled == Settled::kSettled
                               : check.settled != Settled::kAlreadySettled;
}

// Changes one counter, in a mode other than CONSUME and PEEK. `held` is what a lease of units holds
// of the counter according to the lease's record; only a settlement uses `held`. A renewal of a
// lease of units changes only slots. See `changed` in scripts/lua/decide.lua, and record.lua.
ChangeResult ChangeOne(const StoreCheck& check, const CounterCheck& counter, CounterState& state,
                       const CounterState* stored, const Held& held) {
  CoalescedChecks checks = One(check, counter, /*granted=*/0);
  const Limit& limit = *counter.limit;
  if (check.demand.mode == Mode::kUndo) return sluice::Undo(limit, state, counter.before, checks);
  if (!check.leases_units || check.demand.mode == Mode::kCharge) {
    return Change(limit, state, checks);
  }
  if (check.demand.mode == Mode::kSettle) {
    checks.demand.units = counter.units;
    const CounterState as_found = state;
    return sluice::Settle(limit, state, stored != nullptr ? *stored : as_found, held, checks);
  }
  const bool renews = TakesLeases(limit) && counter.held > 0 && counter.verdict.admitted;
  return renews ? Change(limit, state, checks) : ChangeResult{.changed = false};
}

}  // namespace

// Holds the locks of all shards that contain counters of a check. Locks the shards in ascending
// order, to prevent deadlock.
class MemoryStore::ShardLocks {
 public:
  ShardLocks(MemoryStore& store, const StoreCheck& check) SLUICE_NO_THREAD_SAFETY_ANALYSIS
      : store_(store) {
    for (const CounterCheck& counter : check.counters) held_.set(store.IndexOf(counter.key));
    for (std::size_t i = 0; i < store.shards_.size(); ++i) {
      if (held_[i]) store.shards_[i].mutex.lock();
    }
  }
  ~ShardLocks() SLUICE_NO_THREAD_SAFETY_ANALYSIS {
    for (std::size_t i = 0; i < store_.shards_.size(); ++i) {
      if (held_[i]) store_.shards_[i].mutex.unlock();
    }
  }
  ShardLocks(const ShardLocks&) = delete;
  ShardLocks& operator=(const ShardLocks&) = delete;

 private:
  MemoryStore& store_;
  std::bitset<kMaxShards> held_;
};

MemoryStore::MemoryStore(const Clock& clock, const Options& options)
    : clock_(clock),
      max_keys_(options.max_keys),
      max_memory_(options.max_memory),
      forgets_(options.forgets),
      shards_(std::clamp<std::size_t>(options.shards, 1, kMaxShards)) {}

void MemoryStore::Submit(StoreCheck& check) {
  bool decided = Decide(check);
  if (!decided && MakeRoom(check.counters.size())) decided = Decide(check);
  if (!decided) check.Fail(StoreFailure::kOverloaded);
  check.OnDecided();
}

// A bucket of the table points to a node, and the node points to its key. So there are three steps:
// find the nodes, fetch the nodes, fetch their keys.
void MemoryStore::Prefetch(std::span<const std::string_view> keys) const
    SLUICE_NO_THREAD_SAFETY_ANALYSIS {
  constexpr std::size_t kAtOnce = 16;
  std::array<Entries::const_local_iterator, kAtOnce> nodes;
  for (; !keys.empty(); keys = keys.subspan(std::min(kAtOnce, keys.size()))) {
    const auto some = keys.first(std::min(kAtOnce, keys.size()));
    std::size_t found = 0;
    for (const std::string_view key : some) {
      const Entries& entries = shards_[IndexOf(key)].entries;
      const std::size_t bucket = Hash(key) % entries.bucket_count();
      const auto node = entries.begin(bucket);
      if (node != entries.end(bucket)) nodes[found++] = node;
    }
    for (std::size_t i = 0; i < found; ++i) __builtin_prefetch(&*nodes[i]);
    for (std::size_t i = 0; i < found; ++i) __builtin_prefetch(nodes[i]->first.data());
  }
}

void MemoryStore::Undo(const StoreCheck& check) {
  if (check.leases_units) {
    OwnedCheck settle(check);
    settle.GiveBackAll();
    Decide(settle);
    return;
  }
  for (const CounterCheck& counter : check.counters) {
    if (!counter.charged) continue;
    OwnedCheck undo(check, counter, Mode::kUndo);
    Decide(undo);
  }
}

bool MemoryStore::Settle(const StoreCheck& settle) {
  OwnedCheck copy(settle);
  Decide(copy);
  return true;
}

void MemoryStore::Reset(StoreReset& reset) {
  for (const std::string_view key : reset.keys) {
    Shard& shard = ShardOf(key);
    const MutexLock lock(shard.mutex);
    if (const auto found = shard.entries.find(key); found != shard.entries.end()) {
      Drop(shard, found);
    }
  }
  reset.Finish(std::nullopt);
}

// The twin of `decide` in scripts/lua/decide.lua, for a single check.
bool MemoryStore::Decide(StoreCheck& check) {
  const ShardLocks locks(*this, check);
  // The clock is read under the locks, so that time never runs backwards for a counter.
  const Time now = clock_.Now();
  check.decided_at = now;
  records_.DropEnded(now);
  if (check.leases_units && MayTake(check.demand) && !records_.HasRoom()) return false;
  std::vector<Draft> drafts;
  drafts.reserve(check.counters.size());
  for (const CounterCheck& counter : check.counters) {
    std::optional<Draft> draft = Read(check, counter);
    if (!draft) return false;
    drafts.push_back(*draft);
  }

  check.admitted = true;
  if (!check.demand.consumes_or_peeks()) {
    DecideChange(check, drafts);
    return true;
  }
  if (check.concerns_grants) TakeBack(check, drafts);
  std::vector<Held> held(drafts.size());
  for (std::size_t begin = 0, end = 0; begin < drafts.size(); begin = end) {
    const auto group = check.counters[begin].group;
    while (end < drafts.size() && check.counters[end].group == group) ++end;
    const auto counters = std::span(check.counters).subspan(begin, end - begin);
    const bool admitted = DecideGroup(check, counters, std::span(drafts).subspan(begin));
    if (group == 0) check.admitted = admitted;
    for (std::size_t i = begin; i < end && admitted; ++i) {
      held[i] = {.units = check.counters[i].units, .before = check.counters[i].before};
    }
  }
  if (check.concerns_grants) TakeGrants(check, drafts, held);
  const bool any_held = std::any_of(held.begin(), held.end(),
                                    [](const Held& it) { return it.units != Held::kNothing; });
  if (check.leases_units && check.demand.mode == Mode::kConsume && any_held) {
    records_.Enter(check, std::move(held));
  }
  return true;
}

void MemoryStore::TakeBack(const StoreCheck& check, std::span<Draft> drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const CounterCheck& counter = check.counters[i];
    CounterState& state = drafts[i].state;
    if (counter.returned.granted > 0 && sluice::TakeBack(*counter.limit, state, counter.returned)) {
      Write(counter, state, check.decided_at);
    }
  }
}

void MemoryStore::TakeGrants(StoreCheck& check, std::span<Draft> drafts,
                             std::span<const Held> held) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    CounterCheck& counter = check.counters[i];
    CounterState& state = drafts[i].state;
    counter.grant = {};
    const bool may = check.admitted && held[i].units != Held::kNothing;
    if (may && check.demand.mode == Mode::kConsume)
      counter.grant = TakeGrant(*counter.limit, state, counter.wanted);
    if (counter.grant.units > 0) Write(counter, state, check.decided_at);
    counter.grants_out = GrantsOutOf(*counter.limit, state);
  }
}

bool MemoryStore::DecideGroup(const StoreCheck& check, std::span<CounterCheck> counters,
                              std::span<Draft> drafts) {
  std::int64_t granted = check.admitted ? 1 : 0;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const CounterDemand demand = check.DemandOf(counters[i]);
    granted = std::min(granted, Grants(*counters[i].limit, drafts[i].state, demand, 1));
  }
  const bool peeks = check.demand.mode == Mode::kPeek;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    CounterCheck& counter = counters[i];
    Draft& draft = drafts[i];
    const CoalescedChecks checks = One(check, counter, granted);
    Answer(counter, {.snapshot = Summarize(*counter.limit, draft.state, checks)}, checks, 0);
    if (counter.charged) Take(*counter.limit, draft.state, checks);
    if (counter.charged || draft.keep == WriteBack::kAlways ||
        (draft.keep == WriteBack::kUnlessPeek && !peeks)) {
      Write(counter, draft.state, checks.now);
    }
  }
  return granted == 1;
}

void MemoryStore::DecideChange(StoreCheck& check, std::span<Draft> drafts) {
  std::vector<Held> held(drafts.size());
  if (check.leases_units) {
    held = records_.Read(check);
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (!IsOf(*check.counters[i].limit, held[i].before)) held[i].units = Held::kNothing;
    }
    const bool is_open = check.settled == Settled::kSettled;
    check.admitted =
        check.demand.mode != Mode::kRenew || (is_open && check.decided_at < check.lease_ends);
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    CounterCheck& counter = check.counters[i];
    counter.held = held[i].units;
    counter.verdict.admitted = KeepsHolding(check, counter, drafts[i].state);
    if (counter.group == 0) check.admitted &= counter.verdict.admitted;
  }
  const bool changes = MayChange(check);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    CounterCheck& counter = check.counters[i];
    Draft& draft = drafts[i];
    const CoalescedChecks checks = One(check, counter, /*granted=*/0);
    ChangeResult done{.changed = false};
    if (changes) done = ChangeOne(check, counter, draft.state, draft.stored, held[i]);
    if (done.changed || draft.keep != WriteBack::kNo) Write(counter, draft.state, checks.now);
    // A settlement leaves a bucket's state at an earlier time, so the state is advanced to now.
    if (SettlesAsStored(*counter.limit)) Advance(*counter.limit, draft.state, checks.now);
    const CounterReport report{.snapshot = Summarize(*counter.limit, draft.state, checks),
                               .admitted = counter.verdict.admitted,
                               .dropped = done.dropped};
    Answer(counter, report, checks, 0);
  }
  if (changes && check.leases_units) WriteRecord(check, drafts, std::move(held));
}

void MemoryStore::WriteRecord(StoreCheck& check, std::span<const Draft> drafts,
                              std::vector<Held> held) {
  if (check.demand.mode == Mode::kSettle) return records_.MarkSettled(check);
  if (check.settled == Settled::kNotFound) {
    for (std::size_t i = 0; i < held.size(); ++i) {
      CoalescedChecks checks = One(check, check.counters[i], /*granted=*/0);
      checks.demand.units = check.counters[i].units;
      held[i] = HeldOfCharged(*check.counters[i].limit, drafts[i].state, checks);
    }
  }
  check.lease_ends = check.decided_at + check.lease->ttl;
  records_.Enter(check, std::move(held));
}

// Whether the counter has expired, and a new one starts empty.
bool MemoryStore::IsForgotten(const CounterCheck& counter, const Entry& entry, Time now) const {
  if (!forgets_ || counter.seed != nullptr || now < entry.expires) return false;
  CounterState state;
  return Open(*counter.limit, state, now) != WriteBack::kNo;
}

// Empty if there is no room for the counter, or for the memory that it may need.
std::optional<MemoryStore::Draft> MemoryStore::Read(
    const StoreCheck& check, const CounterCheck& counter) SLUICE_NO_THREAD_SAFETY_ANALYSIS {
  const CounterDemand demand = check.DemandOf(counter);
  const Time now = check.decided_at;
  Shard& shard = ShardOf(counter.key);
  Draft draft;
  // The limit of the lease may be outdated. So a bucket that was advanced at this limit's rate is
  // not written back.
  const bool is_of_lease =
      check.leases_units && demand.mode != Mode::kConsume && SettlesAsStored(*counter.limit);
  const auto found = shard.entries.find(counter.key);
  const bool is_new = found == shard.entries.end();
  // A settlement always has room, because settlements are few.
  if (is_new && demand.mode != Mode::kSettle && !HasRoomFor(1)) return std::nullopt;
  const bool fits = !is_new && IsOf(*counter.limit, found->second.state);
  const CounterSeed* const seed = counter.seed;
  if (seed != nullptr && (!fits || found->second.seed_version != seed->version)) {
    draft.state = seed->state;
    draft.keep = std::max(seed->keep, Advance(*counter.limit, draft.state, now));
  } else if (!fits || IsForgotten(counter, found->second, now)) {
    draft.keep = Open(*counter.limit, draft.state, now);
  } else {
    Entry& entry = found->second;
    draft.state = entry.state;
    draft.stored = &entry.state;
    draft.keep = Advance(*counter.limit, draft.state, now);
    // The expiry changes if a limit with another rate wrote the counter, or if the clock was set.
    const Time expires = now + Lifetime(*counter.limit, draft.state, now);
    entry.expires = draft.keep == WriteBack::kAlways && !is_of_lease
                        ? expires
                        : std::max(entry.expires, expires);
  }
  if (is_of_lease) draft.keep = WriteBack::kNo;
  if (demand.units > 0 && MayTake(demand) && MayGrow(*counter.limit, draft.state) && !HasRoomFor(0))
    return std::nullopt;
  return draft;
}

void MemoryStore::Write(const CounterCheck& counter, const CounterState& state,
                        Time now) SLUICE_NO_THREAD_SAFETY_ANALYSIS {
  Shard& shard = ShardOf(counter.key);
  Time expires = now + Lifetime(*counter.limit, state, now);
  shard.next_expiry = std::min(shard.next_expiry, expires);
  auto found = shard.entries.find(counter.key);
  const bool is_known = found != shard.entries.end();
  // Another limit that uses this counter may need the state for longer, so `expires` never becomes
  // earlier. Slots are an exception, because they are needed only until they are released.
  const bool may_end_earlier = TakesLeases(*counter.limit);
  if (is_known && !may_end_earlier) expires = std::max(expires, found->second.expires);
  const std::uint64_t kept = is_known ? found->second.seed_version : 0;
  const Entry entry{
      state, expires, counter.seed != nullptr ? counter.seed->version : kept,
      kNodeBytes + sizeof *found + counter.key.size() + MemoryOf(*counter.limit, state)};
  if (is_known) {
    bytes_ += entry.bytes - found->second.bytes;
    found->second = entry;
  } else {
    ++keys_;
    bytes_ += entry.bytes;
    shard.entries.emplace(counter.key, entry);
  }
}

void MemoryStore::Drop(Shard& shard, Entries::iterator entry) {
  --keys_;
  bytes_ -= entry->second.bytes;
  shard.entries.erase(entry);
}

bool MemoryStore::HasRoomFor(std::size_t new_keys) const {
  return keys_ + new_keys <= max_keys_ && bytes_ < max_memory_;
}

bool MemoryStore::MakeRoom(std::size_t keys) {
  const Time now = clock_.Now();
  std::size_t dropped = 0;
  std::size_t visited = 0;
  for (std::size_t i = 0; i < shards_.size() && visited < kMostVisited; ++i) {
    Shard& shard = shards_[next_sweep_++ % shards_.size()];
    const MutexLock lock(shard.mutex);
    const bool just_swept = now < shard.next_sweep && now > shard.next_sweep - 2 * kSweepPause;
    if (now < shard.next_expiry || just_swept) continue;
    visited += shard.entries.size();
    dropped += Sweep(shard, now);
    if (HasRoomFor(keys)) break;
  }
  return dropped > 0;
}

// A sweep visits every entry of the shard. If the sweep has dropped few entries, the next new key
// must not cause another sweep. Until kSweepPause is over, the shard counts as full.
std::size_t MemoryStore::Sweep(Shard& shard, Time now) {
  const std::size_t before = shard.entries.size();
  shard.next_expiry = Time::max();
  for (auto at = shard.entries.begin(); at != shard.entries.end();) {
    const auto entry = at++;
    if (entry->second.expires <= now) {
      Drop(shard, entry);
    } else {
      shard.next_expiry = std::min(shard.next_expiry, entry->second.expires);
    }
  }
  const std::size_t dropped = before - shard.entries.size();
  if (dropped < before / kFewDropped) shard.next_sweep = now + kSweepPause;
  return dropped;
}

}  // namespace sluice
