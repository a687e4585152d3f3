// The load of this process, for Options::overloaded.
#pragma once

#include <functional>

namespace sluice {

// Returns a function that says whether this process's cgroup (v2) uses more than these parts of its
// CPU and memory, from 0 to 1; 1: does not matter. If it has no limit, the part is that of the
// machine; without cgroups, only this process counts. CPU is measured over at least a second. The
// function is thread-safe.
std::function<bool()> Above(double cpu, double memory);

}  // namespace sluice
