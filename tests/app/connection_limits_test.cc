// The connections are divided between gRPC and HTTP, so that neither can block the other's callers.
#include "app/connection_limits.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice {
namespace {

TEST(DivideConnections, GrpcAndHttpEachGetAShare) {
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  struct Case {
    std::size_t max_connections, for_http, max_files, grpc, http;
  };
  for (const Case& it : {
           Case{100'000, 0, kAny, 75'000, 25'000},
           Case{100'000, 0, 1'024, 636, 212},
           Case{100'000, 500, 1'024, 348, 500},
           Case{100'000, 200'000, kAny, 1, 99'999},
           Case{4'000, 1, kAny, 3'999, 1},
           Case{100, 0, 1'024, 75, 25},
           Case{2, 0, 1'024, 1, 1},
           Case{100'000, 0, 100, 38, 12},
           Case{100'000, 0, 0, 1, 1},
       }) {
    const ConnectionLimits limits =
        DivideConnections(it.max_connections, it.for_http, it.max_files);
    EXPECT_EQ(limits.grpc, it.grpc) << it.max_connections << " of " << it.max_files;
    EXPECT_EQ(limits.http, it.http) << it.max_connections << " of " << it.max_files;
  }
}

}  // namespace
}  // namespace sluice
