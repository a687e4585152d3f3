// The network of an address. Limits count all addresses of a network as one peer.
#include <gtest/gtest.h>

#include "net/socket.h"

namespace sluice::test {
namespace {

std::string NetworkOf(const std::string& host) {
  return net::Endpoint::FromNumeric({.host = host, .port = 1, .unix_path = {}})->Network();
}

TEST(EndpointTest, Network_IsThePartOfAnAddressThatThePeerCannotChange) {
  EXPECT_EQ(NetworkOf("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(NetworkOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(NetworkOf("2001:db8:1:2::9"), "2001:db8:1:2::/64");
  EXPECT_EQ(NetworkOf("::1"), "::/64");
  EXPECT_EQ(NetworkOf("::ffff:192.0.2.1"), "192.0.2.1")
      << "the form of IPv4 addresses on an IPv6 socket";
  EXPECT_EQ(net::Endpoint::FromNumeric({.host = {}, .unix_path = "/run/s"})->Network(), "unix");
}

}  // namespace
}  // namespace sluice::test
