#include "tests/support/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace sluice::test {
namespace {

std::atomic<std::size_t> allocations = 0;

}  // namespace

#ifdef SLUICE_SANITIZED
bool CountsAllocations() { return false; }
#else
bool CountsAllocations() { return true; }
#endif

std::size_t Allocations() { return allocations; }

}  // namespace sluice::test

#ifndef SLUICE_SANITIZED
void* operator new(std::size_t size) {
  ++sluice::test::allocations;
  void* const bytes = std::malloc(size);
  if (bytes == nullptr) throw std::bad_alloc();
  return bytes;
}
void operator delete(void* bytes) noexcept { std::free(bytes); }
void operator delete(void* bytes, std::size_t) noexcept { std::free(bytes); }
#endif
