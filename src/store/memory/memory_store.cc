#include "store/memory/memory_store.h"

#include <algorithm>
#include <bitset>

#include "core/counter.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxShards = 64;

}  // namespace

// Holds the locks of every shard that a check's counters live in. Taken in ascending order, so that
// two checks never wait for each other.
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
    : clock_(clock), shards_(std::clamp<std::size_t>(options.shards, 1, kMaxShards)) {
  max_keys_per_shard_ = std::max<std::size_t>(1, options.max_keys / shards_.size());
}

void MemoryStore::Submit(StoreCheck& check) {
  {
    const ShardLocks locks(*this, check);
    check.failure = Decide(check);
  }
  check.OnDecided();
}

void MemoryStore::Reset(StoreReset& reset) {
  for (const std::string_view key : reset.keys) {
    Shard& shard = ShardOf(key);
    const MutexLock lock(shard.mutex);
    if (const auto found = shard.entries.find(key); found != shard.entries.end()) {
      shard.entries.erase(found);
    }
  }
  reset.failure.reset();
  reset.OnReset();
}

std::size_t MemoryStore::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    size += shard.entries.size();
  }
  return size;
}

// The twin of `decide` in scripts/lua/check.lua, for a run of one.
std::optional<StoreFailure> MemoryStore::Decide(StoreCheck& check) {
  // Asked under the locks, so that time never runs backwards for a counter.
  const Time now = clock_.Now();
  check.decided_at = now;
  std::vector<Draft> drafts;
  drafts.reserve(check.counters.size());
  for (const CounterCheck& counter : check.counters) {
    std::optional<Draft> draft = Read(counter, now);
    if (!draft) return StoreFailure::kOverloaded;
    drafts.push_back(*draft);
  }

  check.admitted = true;
  for (std::size_t begin = 0, end = 0; begin < drafts.size(); begin = end) {
    const auto group = check.counters[begin].group;
    bool group_admits = true;
    for (; end < drafts.size() && check.counters[end].group == group; ++end) {
      group_admits &= Grants(*check.counters[end].limit, drafts[end].state, check.cost, 1) == 1;
    }
    if (group == 0) check.admitted = group_admits;
    const Run run{.cost = check.cost,
                  .mode = check.mode,
                  .granted = group_admits && check.admitted ? 1 : 0,
                  .now = now};
    const bool peeks = check.mode == Mode::kPeek;
    for (std::size_t i = begin; i < end; ++i) {
      CounterCheck& counter = check.counters[i];
      Draft& draft = drafts[i];
      counter.verdict =
          JudgeNth(*counter.limit, Summarise(*counter.limit, draft.state, run), run, 0);
      const bool charged = run.granted == 1 && !peeks && check.cost > 0;
      if (charged) Take(*counter.limit, draft.state, check.cost, 1);
      if (charged || draft.keep == Keep::kAlways || (draft.keep == Keep::kUnlessPeek && !peeks)) {
        Write(counter, draft.state, now);
      }
    }
  }
  return std::nullopt;
}

// Nothing if the counter is new and there is no room for it.
std::optional<MemoryStore::Draft> MemoryStore::Read(const CounterCheck& counter,
                                                    Time now) SLUICE_NO_THREAD_SAFETY_ANALYSIS {
  Shard& shard = ShardOf(counter.key);
  Draft draft;
  if (const auto found = shard.entries.find(counter.key); found != shard.entries.end()) {
    draft.state = found->second.state;
    draft.keep = Advance(*counter.limit, draft.state, now);
  } else {
    if (!MakeRoom(shard, now)) return std::nullopt;
    draft.keep = Open(*counter.limit, draft.state, now);
  }
  return draft;
}

void MemoryStore::Write(const CounterCheck& counter, const CounterState& state,
                        Time now) SLUICE_NO_THREAD_SAFETY_ANALYSIS {
  Shard& shard = ShardOf(counter.key);
  const Time expires = now + Lifetime(*counter.limit, state, now);
  shard.next_expiry = std::min(shard.next_expiry, expires);
  const auto found = shard.entries.find(counter.key);
  if (found != shard.entries.end()) {
    found->second = {state, expires};
  } else {
    shard.entries.emplace(counter.key, Entry{state, expires});
  }
}

bool MemoryStore::MakeRoom(Shard& shard, Time now) {
  if (shard.entries.size() < max_keys_per_shard_) return true;
  if (now < shard.next_expiry) return false;
  std::erase_if(shard.entries, [&](const auto& entry) { return entry.second.expires <= now; });
  shard.next_expiry = Time::max();
  for (const auto& [key, entry] : shard.entries) {
    shard.next_expiry = std::min(shard.next_expiry, entry.expires);
  }
  return shard.entries.size() < max_keys_per_shard_;
}

}  // namespace sluice
