// Connections of gRPC and HTTP: divided so that neither can block the other's callers.
#include "app/connection_limits.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice {
namespace {

TEST(DivideConnections, EachDoorHasItsPart) {
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  struct Case {
    std::size_t max_connections, max_files, grpc, http;
  };
  for (const Case& it : {
           Case{100'000, kAny, 98'976, 1'024},
           Case{4'000, kAny, 3'000, 1'000},
           Case{100'000, 1'024, 684, 228},
           Case{100, 1'024, 75, 25},
           Case{2, 1'024, 1, 1},
           Case{100'000, 100, 38, 12},
           Case{100'000, 0, 1, 1},
       }) {
    const ConnectionLimits limits = DivideConnections(it.max_connections, it.max_files);
    EXPECT_EQ(limits.grpc, it.grpc) << it.max_connections << " of " << it.max_files;
    EXPECT_EQ(limits.http, it.http) << it.max_connections << " of " << it.max_files;
  }
}

}  // namespace
}  // namespace sluice
