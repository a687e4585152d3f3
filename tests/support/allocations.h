// Counts this program's memory allocations, for tests which require that code does not allocate.
// Link allocations.cc to the test: it replaces operator new.
#pragma once

#include <cstddef>

namespace sluice::test {

// Whether allocations are counted. False in builds with sanitizers, which replace operator new
// themselves.
bool CountsAllocations();

// The number of allocations since the start, on all threads.
std::size_t Allocations();

}  // namespace sluice::test
