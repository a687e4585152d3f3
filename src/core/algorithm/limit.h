// A limit: one algorithm with its parameters, and the state of one of its counters. The set of
// algorithms is listed here, and code outside this folder does not depend on the algorithm of a
// limit. Besides its operations (see counter.h), each algorithm declares
//   kName               its name in rule files
//   kAlgorithm          its number in the API
//   kScript             its file in scripts/lua/algorithm
//   ScriptParameters    the parameters, in the order in which the script reads them
//   Describe            its parameters in rule files: see parameters.h
//   Tag, Includes, MostAtOnce   as the functions below
//   For                 as LimitFor; required if a share changes more than the member `limit`
// and each member of CommonFacts (algorithm.h) in which it differs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/algorithm/concurrency.h"
#include "core/algorithm/fixed_window.h"
#include "core/algorithm/leaky_bucket.h"
#include "core/algorithm/sliding_log.h"
#include "core/algorithm/sliding_window.h"
#include "core/algorithm/token_bucket.h"
#include "core/algorithm/warming_bucket.h"

namespace sluice {

// Type is a variant of Types without duplicates.
template <typename Kept, typename... Types>
struct VariantOfDistinct {
  using Type = Kept;
};
template <typename... Kept, typename First, typename... Rest>
struct VariantOfDistinct<std::variant<Kept...>, First, Rest...>
    : std::conditional_t<(std::is_same_v<First, Kept> || ...),
                         VariantOfDistinct<std::variant<Kept...>, Rest...>,
                         VariantOfDistinct<std::variant<Kept..., First>, Rest...>> {};

template <typename... Algorithms>
struct AlgorithmList {
  using Limit = std::variant<Algorithms...>;
  using State = std::variant<typename Algorithms::State...>;
  using Snapshot =
      typename VariantOfDistinct<std::variant<>, typename Algorithms::Snapshot...>::Type;

  static std::vector<Limit> All() { return {Algorithms{}...}; }
};

using EveryAlgorithm = AlgorithmList<FixedWindow, SlidingLog, SlidingWindow, TokenBucket,
                                     WarmingBucket, LeakyBucket, Concurrency>;

// `its` as a Variant. `its` may itself be a variant of some of the alternatives, because the limit
// for a share may have another algorithm.
template <typename Variant, typename Its>
Variant OneOf(const Its& its) {
  if constexpr (std::is_convertible_v<Its, Variant>) {
    return its;
  } else {
    return std::visit([](const auto& one) { return Variant(one); }, its);
  }
}

using Limit = EveryAlgorithm::Limit;

// A counter always holds the alternative that belongs to its limit.
using CounterState = EveryAlgorithm::State;
using CounterSnapshot = EveryAlgorithm::Snapshot;

Algorithm AlgorithmOf(const Limit& limit);

// The algorithm's name in rule files. Algorithms with the same name differ in SelectedBy.
std::string_view NameOf(const Limit& limit);

// The key whose presence in a rule file selects the algorithm. Empty: the name is enough.
std::string_view SelectedBy(const Limit& limit);

// Passes each parameter that the limit has in rule files to `parameters`, which may set it.
void Describe(Limit& limit, Parameters& parameters);

// Whether `limit` certainly denies every request that `other` denies, after any sequence of
// requests.
bool Includes(const Limit& limit, const Limit& other);

// The last part of a counter's key: the algorithm and all parameters that change the form of its
// state (window, period, alignment), such as "token_bucket:1s" or "fixed_window:1d:clock+08:00".
// Limits with equal tags can use each other's counters.
std::string CounterTag(const Limit& limit);

// Whether the limit supports requests of that mode.
bool Supports(const Limit& limit, Mode mode);

// Whether a check takes slots under a lease, and holds them until the lease is released or expires.
bool TakesLeases(const Limit& limit);

// Whether a settlement changes the level of the counter as it is stored, without advancing it to
// the present first. The lease may name a limit with an outdated rate, which must not fill or drain
// the counter.
bool SettlesAsStored(const Limit& limit);

// The longest time for which a lease may hold slots. REQUIRES: TakesLeases(limit)
Duration LeaseTtl(const Limit& limit);

// How the limit follows the load; null if it is fixed.
const Adaptation* AdaptationOf(const Limit& limit);

// The longest life that a server requests for a grant (see grant.h). It is the limit's `prefetch`;
// for a bucket, it is at most a fourth of the time in which the bucket fills. Zero: no grants.
Duration GrantLife(const Limit& limit);

// Whether a refund gives back all that a check has taken. If not, a lease that is settled with less
// than it took gives nothing back, because callers have already been told their waits or prices.
bool RefundsInFull(const Limit& limit);

// The largest cost that the limit can ever admit.
std::int64_t MostAtOnce(const Limit& limit);

// Whether a denial of a check of `mode` stays true until its retry_after. For kCharge: if a charge
// has brought a counter past its limit, whether the counter denies every cost until its
// reset_after.
bool DenialLasts(const Limit& limit, Mode mode);

// Whether equal checks may be coalesced.
bool MayCoalesce(const Limit& limit);

// Whether equal charges may be coalesced.
bool MayCoalesceCharges(const Limit& limit);

// The limit that one server of a fleet applies by itself while the shared store is unavailable. It
// may admit nothing, so it can be smaller than any limit of a rule.
Limit LimitFor(const Limit& limit, const Share& share);

// The limit whose counter adds up the units that a server admits by itself. The function Used
// (counter.h) returns their number.
Limit LimitForCharges(const Limit& limit, const Share& share);

}  // namespace sluice
