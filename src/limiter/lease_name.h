// The id by which a client holds a lease, `Lease.id` of the API. It contains all that a server
// needs to renew or release the lease, so servers store no leases. It holds 128 random bits, so
// only clients that received an id can use it. A digest of these bits and the ttl names the slot in
// the counters, so an id with a changed ttl names no slot.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/lease.h"
#include "store/store.h"

namespace sluice {

struct LeaseName {
  static constexpr std::size_t kMaxBytes = 2048;

  std::array<std::uint8_t, 16> bits{};  // random
  Duration ttl{};
  // Granted in this server's memory while the store failed.
  bool local = false;
  std::vector<std::string_view> keys;  // of the counters; at least one, distinct

  // The lease as stored.
  Lease lease() const;

  // Empty if it is longer than kMaxBytes.
  std::optional<std::string> ToText() const;

  // The keys are views into `text`, and are those of concurrency counters. The error is meant for
  // the client.
  static Result<LeaseName> Parse(std::string_view text);
};

// The id in the store of a lease that was granted while the store failed. Not the same: the store
// may also have granted the check, too late; that slot is released when the reply arrives.
LeaseId NameInStore(const LeaseId& local);

// The limit of a counter whose slots a lease holds. It only says that they are slots; whether there
// are enough of them is not asked.
const Limit& AnySlots();

// Gives `check` a counter with AnySlots for each of `keys`.
void SetSlotCounters(std::span<const std::string_view> keys, StoreCheck& check);

}  // namespace sluice
