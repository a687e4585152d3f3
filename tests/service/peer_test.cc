// Which callers are on this machine.
#include "service/peer.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(IsLocalPeer, OnlyLoopbackAndUnixSockets_Table) {
  const struct {
    std::string_view peer;
    bool local;
  } rows[] = {
      {"unix:", true},
      {"unix:/run/sluice.sock", true},
      {"unix-abstract:sluice", true},
      {"ipv4:127.0.0.1:50000", true},
      {"ipv4:127.8.9.10:50000", true},
      {"ipv6:[::1]:50000", true},
      {"ipv6:%5B::1%5D:50000", true},
      {"ipv6:[::ffff:127.0.0.1]:50000", true},
      {"ipv6:%5B::ffff:127.0.0.1%5D:50000", true},
      {"ipv4:10.0.0.1:50000", false},
      {"ipv4:128.0.0.1:127", false},
      {"ipv4:0.0.0.0:50000", false},
      {"ipv6:[::]:50000", false},
      {"ipv6:[::2]:50000", false},
      {"ipv6:%5B::1:2%5D:50000", false},
      {"ipv6:[2001:db8::1]:50000", false},
      {"ipv6:[::ffff:10.0.0.1]:50000", false},
      {"ipv6:[fe80::1%25lo]:50000", false},
      {"ipv6:::1:50000", false},
      {"127.0.0.1:50000", false},
      {"ipv4:", false},
      {"ipv4:localhost:50000", false},
      {"ipv6:", false},
      {"ipv6:[", false},
      {"vsock:1:2", false},
      {"", false},
  };
  for (const auto& row : rows) EXPECT_EQ(IsLocalPeer(row.peer), row.local) << row.peer;
}

}  // namespace
}  // namespace sluice
