// Remembers counters that are exhausted. Until such a counter can admit again, matching requests
// are denied without the store. Only enforced limits are remembered, because if one of them denies,
// no rule is charged. An entry stays true unless units are given back (see Clearings), or another
// limit of the same bucket takes units: if its rate is higher, it has found and kept more tokens.
// If either happens through another server, this server notices it within a second.
//
// Thread-safe. Holds at most kMaxEntries. Beyond that, entries are evicted: the store gets more
// calls, but the decisions stay accurate.
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
#include "core/algorithm/limit.h"
#include "limiter/check_answer.h"
#include "limiter/clearings.h"
#include "store/store.h"

namespace sluice {

class DenyCache {
 public:
  static constexpr std::size_t kMaxEntries = 65'536;
  static constexpr Duration kMaxAge = std::chrono::seconds(1);

  // `clearings` must outlive this.
  explicit DenyCache(const Clearings& clearings) : clearings_(clearings) {}

  // A check, and the time at which it is submitted to the store if it is not denied here.
  struct Asked {
    const StoreCheck& check;
    SteadyTime at;
    bool charge_decides = false;  // as in CheckRequest
  };

  // Whether `asked` is denied without the store. `answer` has one limit for each counter. If the
  // check is denied, only the limits that are known to deny remain in `answer`.
  bool Denies(const Asked& asked, CheckAnswer& answer) const;

  // Learns from the store's answer, which arrived at `answered`. `limits` has one answer for each
  // counter.
  void LearnFrom(const Asked& asked, SteadyTime answered, std::span<const LimitAnswer> limits);

  // A denial by one counter, as the store answered it: the demand and the verdict.
  struct Denial {
    CounterDemand demand;
    Verdict verdict;      // not admitted
    Time decided_at;      // on the store's clock
    SteadyTime asked;     // before the store was asked
    SteadyTime answered;  // after the store answered
  };

  // REQUIRES: the denial stays true until its retry_after (see DenialLasts).
  void Learn(const HashedKey& key, const Limit& limit, const Denial& denial);

  // The counter's present verdict on `demand`, if the counter is known to deny it. The verdict's
  // durations begin at `now`. They are never too short, so no retry is too early. `decided_at` is
  // `now` on the store's clock, or slightly earlier. Empty if no denial is known, or if this check
  // must refresh the entry.
  struct Answer {
    Verdict verdict;
    Time decided_at;
  };
  std::optional<Answer> Find(const HashedKey& key, const Limit& limit, const CounterDemand& demand,
                             SteadyTime now) const;

 private:
  static constexpr std::size_t kShards = 64;
  // When the last tenth of an entry's greatest age begins, one check asks the store, and the answer
  // replaces the entry. Without this, all checks would ask the store when the entry expires.
  static constexpr int kRefreshPart = 10;

  struct Entry {
    Limit limit;  // if the limit has changed, the entry is void
    Denial denial;
    // A check has been sent to the store to refresh the entry.
    mutable bool refreshing = false;

    Duration most() const;
    SteadyTime expires() const;
    // Whether the entry expires soon because of its age, before its retry_after has passed.
    bool ages(SteadyTime now) const;
  };
  struct Shard {
    mutable Mutex mutex;
    std::unordered_map<std::string, Entry, StringHash, std::equal_to<>> entries
        SLUICE_GUARDED_BY(mutex);
    // The size, readable without the lock, so that empty shards are skipped.
    std::atomic<std::size_t> size{0};
    SteadyTime next_sweep SLUICE_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const HashedKey& key) { return shards_[key.hash() % kShards]; }
  const Shard& ShardOf(const HashedKey& key) const { return shards_[key.hash() % kShards]; }

  bool MarkKnownDenials(const Asked& asked, CheckAnswer& answer) const;
  // Drops the entry of another limit, if the counter is a bucket. `limit` has taken units from it.
  void DropOther(const HashedKey& key, const Limit& limit);
  static void MakeRoom(Shard& shard, SteadyTime now) SLUICE_REQUIRES(shard.mutex);

  const Clearings& clearings_;
  std::array<Shard, kShards> shards_;
};

}  // namespace sluice
