// A limit: one algorithm with its parameters, and the state of one of its counters. The set of
// algorithms is listed here. Besides its operations (see counter.h), each declares
//   kAlgorithm          its name in the API
//   kScript             its file in scripts/lua/algorithm
//   ScriptParameters    what that file reads, in its order
//   ScriptWeight        what a check costs the script, in counters that are plain strings
//   Tag, Supports, MostAtOnce, kMayCoalesce   as the functions below
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/algorithm/concurrency.h"
#include "core/algorithm/fixed_window.h"
#include "core/algorithm/leaky_bucket.h"
#include "core/algorithm/sliding_log.h"
#include "core/algorithm/sliding_window.h"
#include "core/algorithm/token_bucket.h"
#include "core/algorithm/warming_bucket.h"

namespace sluice {

using Limit = std::variant<FixedWindow, SlidingLog, SlidingWindow, TokenBucket, WarmingBucket,
                           LeakyBucket, Concurrency>;

// A counter always holds the alternative that belongs to its limit.
using CounterState =
    std::variant<FixedWindow::State, SlidingLog::State, SlidingWindow::State, TokenBucket::State,
                 WarmingBucket::State, LeakyBucket::State, Concurrency::State>;
using CounterSnapshot = std::variant<FixedWindow::Snapshot, TokenBucket::Snapshot,
                                     WarmingBucket::Snapshot, LeakyBucket::Snapshot, UsageSnapshot>;

Algorithm AlgorithmOf(const Limit& limit);

// The last part of a counter's key: the algorithm and whatever changes the shape of its state
// (window, period, alignment), such as "token_bucket:1s" or "fixed_window:1d:clock+08:00". Limits
// with equal tags can use each other's counters.
std::string CounterTag(const Limit& limit);

// Whether the limit supports requests of that mode.
bool Supports(const Limit& limit, Mode mode);

// The largest cost that the limit can ever admit.
std::int64_t MostAtOnce(const Limit& limit);

// Whether equal checks may be coalesced.
bool MayCoalesce(const Limit& limit);

// What one server of a fleet may admit by itself while the shared store is unavailable. May admit
// nothing, so it can be smaller than any limit of a rule.
Limit LimitFor(const Limit& limit, const Share& share);

}  // namespace sluice
