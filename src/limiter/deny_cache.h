// What this server knows of counters that are full: until one can admit again, requests that meet
// it need not be carried to the store. An entry is true for as long as nobody gives units back;
// that, done on another server, is noticed a second late at most.
//
// Thread-safe. Holds at most kMaxEntries; beyond, entries are dropped, which costs a call of the
// store and no exactness.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "core/limit.h"

namespace sluice {

class DenyCache {
 public:
  static constexpr std::size_t kMaxEntries = 65'536;
  static constexpr Duration kMaxAge = std::chrono::seconds(1);

  // A denial by the store: what was asked, and what the counter said.
  struct Denial {
    Demand demand;
    Verdict verdict;   // not admitted
    Time decided_at;   // on the store's clock
    SteadyTime asked;  // before the store was asked
  };

  // Whether a denial of such a limit stays true until it says otherwise. Not where a release, at
  // any time, makes room.
  static bool MayLearn(const Limit& limit);

  // REQUIRES: MayLearn(limit)
  void Learn(std::string_view key, const Limit& limit, const Denial& denial);

  // What the counter would say to `demand` now, durations counted from then on, if it is known to
  // deny it; `decided_at` is now on the store's clock. Nothing, too, for the one check that is to
  // refresh an entry.
  struct Answer {
    Verdict verdict;
    Time decided_at;
  };
  std::optional<Answer> Find(std::string_view key, const Limit& limit, const Demand& demand,
                             SteadyTime now) const;

  // Forgets the counter: units were given back to it.
  void Forget(std::string_view key);
  void Clear();

 private:
  static constexpr std::size_t kShards = 64;
  // So long before an entry's age ends it, one check asks the store, and its answer takes the
  // entry's place. Else all checks of that moment would ask.
  static constexpr Duration kRefreshBefore = std::chrono::milliseconds(100);

  struct Entry {
    Limit limit;  // a changed one is another's answer
    Denial denial;
    // A check has been sent to the store for a fresh one.
    mutable bool refreshing = false;

    SteadyTime expires() const;
    // Whether it ends only because of its age, and will soon.
    bool ages(SteadyTime now) const;
  };
  struct Shard {
    mutable Mutex mutex;
    std::unordered_map<std::string, Entry, StringHash, std::equal_to<>> entries
        SLUICE_GUARDED_BY(mutex);
    // Its size, to pass by a shard without its lock while nothing is denied.
    std::atomic<std::size_t> size{0};
    SteadyTime next_sweep SLUICE_GUARDED_BY(mutex);
  };

  Shard& ShardOf(std::string_view key) { return shards_[Hash(key) % kShards]; }
  const Shard& ShardOf(std::string_view key) const { return shards_[Hash(key) % kShards]; }

  static void MakeRoom(Shard& shard, SteadyTime now) SLUICE_REQUIRES(shard.mutex);

  std::array<Shard, kShards> shards_;
};

}  // namespace sluice
