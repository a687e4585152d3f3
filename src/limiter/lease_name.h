// The id by which a caller holds a lease, `Lease.id` of the API. It contains the constant data that
// a server needs to renew, settle or release the lease. So servers store no leases, and if rules
// change while a lease is held, the change does not affect the lease. The id contains 128 random
// bits, so only callers that received the id can use it. In the store, a digest of the id names the
// lease. If a part of the id that the digest covers was edited, the id names no lease.
//
// There are two forms. For slots only, the digest covers the bits and the ttl. For units
// (`lease_ttl`), the digest covers the text except three facts: who granted the lease, when, and
// which counters stay as taken (see `stays`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/lease.h"
#include "match/rule.h"
#include "store/store.h"

namespace sluice {

struct LeaseName {
  static constexpr std::size_t kMaxBytes = 2048;
  static constexpr Time kLatest{Duration(9'999'999'999'999'999)};  // of `taken`

  // The amounts with which the units were taken.
  struct Amount {
    std::string name;  // CountedAmount::kCost is the cost
    std::int64_t value = 0;

    bool operator==(const Amount&) const = default;
  };
  struct Counter {
    std::string key;
    // In a lease that holds only slots: the counter's limit if that limit follows the load,
    // otherwise AnySlots; the members below are not used.
    Limit limit;
    std::uint16_t group = 0;
    std::uint32_t index = 0;  // among the limits of its rule
    // The counter stays as taken: settling the lease does not change it. The server that granted
    // the lease decided this counter, and the store decided other counters of the lease.
    bool stays = false;
    struct Counted {
      std::size_t amount = 0;  // in `amounts`
      std::int64_t weight = 1;

      bool operator==(const Counted&) const = default;
    };
    std::vector<Counted> counts;

    bool operator==(const Counter&) const = default;
  };

  std::array<std::uint8_t, 16> bits{};  // random
  Duration ttl{};
  // A server granted the lease in its memory while the store failed.
  bool local = false;
  bool units = false;  // a lease of units, not only of slots
  // Set if a limit follows the load: when the slots were taken, on the store's clock.
  std::optional<Time> taken;
  std::vector<Amount> amounts;    // names are distinct
  std::vector<Counter> counters;  // at least one, keys are distinct

  bool operator==(const LeaseName&) const = default;

  // Adds a counter to a lease of units. `amount_of` returns the value of a named amount.
  void Add(const CounterCheck& counter, std::uint32_t index, const Counts& counts,
           const std::function<std::int64_t(std::string_view)>& amount_of);

  // Adds a counter to a lease that holds only slots.
  void AddSlots(const CounterCheck& counter);
  // Sets `taken`, if a limit follows the load.
  void SetTaken(Time at);

  // The lease as stored.
  Lease lease() const;

  // Empty if the text would be longer than kMaxBytes.
  std::optional<std::string> ToText() const;

  // In a lease that holds only slots, all counters belong to concurrency limits. The error is meant
  // for the caller.
  static Result<LeaseName> Parse(std::string_view text);

  // Gives `check` this lease and its counters, with kAsTaken as units. The counters refer to this
  // name. Counters that stay as taken are removed from this name.
  void FillIn(StoreCheck& check);

  // The units that a counter counts in `values`, which has one entry for each of `amounts`. Empty
  // if there are more than kMaxCost.
  static std::optional<std::int64_t> UnitsOf(const Counter& counter,
                                             const std::vector<Amount>& values);

  // The names of the rule and of its domain in the counter's key.
  static std::string RuleOf(const Counter& counter);
  static std::string DomainOf(const Counter& counter);
};

// If a server granted a lease while the store failed, the store keeps the lease under this id. It
// differs from the original id, because the store may have granted the same check under the
// original id, but too late. The lease under the original id is then given back.
LeaseId NameInStore(const LeaseId& local);

// The limit of a counter whose slots a lease holds. It only marks the counter as a counter of
// slots: the limit's number of slots is not tested.
const Limit& AnySlots();

}  // namespace sluice
