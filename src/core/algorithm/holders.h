// The holders of the slots of a concurrency counter, by lease and by expiry. With n holders, every
// function takes O(log n) time, unless its comment says otherwise.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/lease.h"

namespace sluice {

struct Holder {
  Time expires;
  std::int64_t slots;
};

class Holders {
 public:
  // The approximate bytes of memory of each holder.
  static constexpr std::size_t kBytes = 160;
  // The approximate bytes of memory of an object without holders.
  static constexpr std::size_t kOwnBytes = 300;

  Holders();
  ~Holders();

  // Returns the holder with this lease, even if it has expired; null if the lease holds no slots.
  const Holder* Find(const LeaseId& id) const;
  // Adds a holder, or replaces the holder with the same lease.
  void Set(const LeaseId& id, const Holder& holder);
  void Remove(const LeaseId& id);

  // Removes the first slots that expire at `now` or earlier, at most `most` of them. Returns the
  // number of removed slots. Takes O(log n) per holder.
  std::int64_t RemoveExpired(Time now, std::int64_t most);
  // O(n).
  void Clear();

  std::size_t size() const;
  // The number of slots that expire after `now`.
  std::int64_t HeldAfter(Time now) const;
  // When the `nth` of these slots (from 1) expires. REQUIRES: nth is at most HeldAfter(now).
  Time ExpiryAfter(Time now, std::int64_t nth) const;
  // When the last slot expires. REQUIRES: size() > 0.
  Time LatestExpiry() const;

 private:
  struct Index;
  std::unique_ptr<Index> index_;
};

}  // namespace sluice
