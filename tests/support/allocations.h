// How often this program has asked for memory, for tests that something does not. Link
// allocations.cc to the test: it replaces operator new.
#pragma once

#include <cstddef>

namespace sluice::test {

// False in builds with sanitizers, which bring an operator new of their own.
bool CountsAllocations();

// Since the start, on all threads.
std::size_t Allocations();

}  // namespace sluice::test
