// The load of this process, for Options::overloaded.
#pragma once

#include <functional>

namespace sluice {

// Returns a function that returns whether this process's cgroup (v2) uses more than these parts of
// its CPU or memory. Parts are from 0 to 1; a part of 1 is not checked. If the cgroup has no limit,
// the machine's CPU or memory is the limit. Without cgroups, only the use of this process counts.
// CPU is measured over at least a second. The function is thread-safe.
std::function<bool()> Above(double cpu, double memory);

}  // namespace sluice
