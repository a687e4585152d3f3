// A limit: one algorithm with its parameters; and the state of one of its counters. This is where
// the set of algorithms is listed.
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

// Whether a mode means something to a limit: leases are neither charged nor refunded, and who waits
// in a queue cannot give its place back.
bool Supports(const Limit& limit, Mode mode);

// Whether equal checks may be decided as one run. Not where each takes a lease of its own, or
// changes the price of the next.
bool MayRunTogether(const Limit& limit);

// A duration as rules write it, in its largest whole unit: "250ms", "10s", "1d".
std::string FormatDuration(Duration duration);

// Local time minus UTC as rules write it: "+08:00".
std::string FormatUtcOffset(Duration offset);

// What one of a fleet's servers admits of the limit by itself while the shared store is away. May
// admit nothing, and so be smaller than any limit of a rule.
Limit LimitFor(const Limit& limit, const Share& share);

}  // namespace sluice
