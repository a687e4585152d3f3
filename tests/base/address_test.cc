#include "base/address.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Address, Text_IsReadAndWrittenBack) {
  const struct {
    std::string text;
    Address address;
    bool is_local;
  } kRows[] = {
      {"0.0.0.0:8081", {.host = "0.0.0.0", .port = 8081, .unix_path = {}}, false},
      {"127.0.0.1:0", {.host = "127.0.0.1", .port = 0, .unix_path = {}}, true},
      {"127.1.2.3:80", {.host = "127.1.2.3", .port = 80, .unix_path = {}}, true},
      {"127.evil.test:80", {.host = "127.evil.test", .port = 80, .unix_path = {}}, false},
      {"127.0.0.1.test:80", {.host = "127.0.0.1.test", .port = 80, .unix_path = {}}, false},
      {"128.0.0.1:80", {.host = "128.0.0.1", .port = 80, .unix_path = {}}, false},
      {"localhost:65535", {.host = "localhost", .port = 65535, .unix_path = {}}, true},
      {"[::1]:80", {.host = "::1", .port = 80, .unix_path = {}}, true},
      {"[::]:80", {.host = "::", .port = 80, .unix_path = {}}, false},
      {"unix:/run/s.sock", {.host = {}, .port = 0, .unix_path = "/run/s.sock"}, true},
  };
  for (const auto& row : kRows) {
    const auto address = Address::Parse(row.text);
    ASSERT_TRUE(address) << row.text;
    EXPECT_EQ(*address, row.address) << row.text;
    EXPECT_EQ(address->ToString(), row.text);
    EXPECT_EQ(address->is_local(), row.is_local) << row.text;
  }
}

TEST(Address, BadText_IsRefusedWithTheReason) {
  const struct {
    std::string text;
    std::string reason;
  } kRows[] = {
      {"", "no port"},
      {"localhost", "no port"},
      {"http://127.0.0.1:8081", "an address has no scheme such as http://"},
      {":80", "the host is empty"},
      {"::1:80", "brackets"},
      {"host:", "the port is not a number"},
      {"host:65536", "the port is not a number"},
      {"host:80x", "the port is not a number"},
      {"host:-1", "the port is not a number"},
      {"unix:", "the path is empty"},
      {"unix:/" + std::string(107, 'x'), "over 107 bytes"},
  };
  for (const auto& row : kRows) {
    const auto address = Address::Parse(row.text);
    ASSERT_FALSE(address) << row.text;
    EXPECT_NE(address.error().message.find(row.reason), std::string::npos)
        << address.error().message;
  }
}

}  // namespace
}  // namespace sluice
