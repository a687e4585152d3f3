// A limit: one algorithm with its parameters; and the state of one of its counters. This is where
// the set of algorithms is listed. Besides its operations (see counter.h), each declares
//   kAlgorithm          its name in the API
//   kScript             its file in scripts/lua/algorithm
//   ScriptParameters    what that file reads, in its order
//   ScriptWeight        what a check costs the script, in counters that are plain strings
//   Tag, Supports, kMayRunTogether   as the functions below
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

// Always of the alternative that belongs to its limit's.
using CounterState =
    std::variant<FixedWindow::State, SlidingLog::State, SlidingWindow::State, TokenBucket::State,
                 WarmingBucket::State, LeakyBucket::State, Concurrency::State>;
using CounterSnapshot = std::variant<FixedWindow::Snapshot, TokenBucket::Snapshot,
                                     WarmingBucket::Snapshot, LeakyBucket::Snapshot, Tally>;

Algorithm AlgorithmOf(const Limit& limit);

// The end of a counter's key: algorithm, and whatever gives its state another shape (window or
// period, alignment), such as "token_bucket:1s" or "fixed_window:1d:clock+08:00". Limits whose
// tags are equal can go on with each other's counters.
std::string CounterTag(const Limit& limit);

// Whether a request of that mode means something to the limit.
bool Supports(const Limit& limit, Mode mode);

// Whether equal checks may be decided as one run.
bool MayRunTogether(const Limit& limit);

// What one of a fleet's servers admits of the limit by itself while the shared store is away. May
// admit nothing, and so be smaller than any limit of a rule.
Limit LimitFor(const Limit& limit, const Share& share);

}  // namespace sluice
