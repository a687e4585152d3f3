#include "tests/support/require.h"

#include <cstdio>
#include <cstdlib>

namespace sluice::test {

void Require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "test harness: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace sluice::test
