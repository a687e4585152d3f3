#include "base/ip_address.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using std::string_literals::operator""s;

TEST(IpAddress, Text_BecomesCanonical) {
  const struct {
    std::string text;
    std::string canonical;  // empty: `text` is not an address
  } kRows[] = {
      {"10.1.2.3", "10.1.2.3"},
      {"0.0.0.0", "0.0.0.0"},
      {"255.255.255.255", "255.255.255.255"},
      {"::", "::"},
      {"::1", "::1"},
      {"0:0:0:0:0:0:0:1", "::1"},
      {"2001:0DB8:0000:0000:0001:0000:0000:0001", "2001:db8::1:0:0:1"},
      {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
      {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
      {"1:0:0:0:0:0:0:0", "1::"},
      {"::1:2", "::1:2"},
      {"::ffff:10.1.2.3", "10.1.2.3"},
      {"::FFFF:0a01:0203", "10.1.2.3"},
      {"fe80::1%eth0", "fe80::1"},
      {"64:ff9b::10.1.2.3", "64:ff9b::a01:203"},
      {"", ""},
      {"10.1.2", ""},
      {"10.1.2.3.4", ""},
      {"10.1.2.03", ""},
      {"256.1.1.1", ""},
      {" 10.1.2.3", ""},
      {"10.1.2.3\0x"s, ""},
      {"10.1.2.3%eth0", ""},
      {"10.1.2.3:80", ""},
      {"[::1]", ""},
      {"1::2::3", ""},
      {"12345::", ""},
      {"fe80", ""},
      {std::string(1000, ':'), ""},
  };
  for (const auto& row : kRows) {
    const auto address = IpAddress::Parse(row.text);
    EXPECT_EQ(address ? address->ToString() : "", row.canonical) << row.text;
  }
}

TEST(IpAddress, Masked_ClearsTheBitsBeyondThePrefix) {
  const struct {
    std::string text;
    int prefix;
    std::string masked;
  } kRows[] = {
      {"10.255.255.255", 32, "10.255.255.255"},
      {"10.255.255.255", 8, "10.0.0.0"},
      {"10.255.255.255", 9, "10.128.0.0"},
      {"10.255.255.255", 0, "0.0.0.0"},
      {"2001:db8:ffff:ffff:ffff::", 64, "2001:db8:ffff:ffff::"},
      {"2001:db8:ffff::1", 33, "2001:db8:8000::"},
      {"2001:db8::1", 128, "2001:db8::1"},
      {"2001:db8::1", 0, "::"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(IpAddress::Parse(row.text)->Masked(row.prefix).ToString(), row.masked) << row.text;
  }
}

TEST(IpNetwork, Contains_OnlyAddressesOfItsFamilyWithItsPrefix) {
  const struct {
    std::string network;
    std::string address;
    bool inside;
  } kRows[] = {
      {"10.0.0.0/8", "10.200.3.4", true},
      {"10.0.0.0/8", "11.0.0.0", false},
      {"10.0.0.0/8", "::ffff:10.0.0.1", true},
      {"0.0.0.0/0", "1.2.3.4", true},
      {"0.0.0.0/0", "::1", false},
      {"::/0", "1.2.3.4", false},
      {"::/0", "2001:db8::1", true},
      {"2001:db8::/32", "2001:db8:ffff::1", true},
      {"2001:db8::/32", "2001:db9::1", false},
      {"1.2.3.4/32", "1.2.3.4", true},
      {"1.2.3.4/32", "1.2.3.5", false},
      {"::ffff:10.0.0.0/104", "10.9.9.9", true},
  };
  for (const auto& row : kRows) {
    const auto network = IpNetwork::Parse(row.network);
    ASSERT_TRUE(network) << row.network;
    EXPECT_EQ(network->Contains(*IpAddress::Parse(row.address)), row.inside)
        << row.network << " " << row.address;
  }
}

TEST(IpNetwork, BadText_IsRefused) {
  for (const std::string text :
       {"10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.1/8",
        "::/129", "x/8", "/8", "", "::ffff:10.0.0.0/95"}) {
    EXPECT_FALSE(IpNetwork::Parse(text)) << text;
  }
  EXPECT_EQ(IpNetwork::Parse("10.0.0.1/8").error().message,
            "found \"10.0.0.1/8\"; bits beyond the prefix must be zero (did you mean "
            "\"10.0.0.0/8\"?)");
}

}  // namespace
}  // namespace sluice
