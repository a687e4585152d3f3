#include "store/redis/redis_url.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(RedisUrl, Parse_ValidForms) {
  struct Row {
    const char* text;
    const char* address;
    const char* user;
    const char* password;
    int database;
    const char* client_name;
  };
  const Row rows[] = {
      {"redis://localhost", "localhost:6379", "", "", 0, "sluiced"},
      {"redis://10.0.0.1:7000/3", "10.0.0.1:7000", "", "", 3, "sluiced"},
      {"redis://[::1]:7000", "[::1]:7000", "", "", 0, "sluiced"},
      {"redis://[::1]", "[::1]:6379", "", "", 0, "sluiced"},
      {"redis://:secret@h", "h:6379", "", "secret", 0, "sluiced"},
      {"redis://app:p%40ss%2F@h/1", "h:6379", "app", "p@ss/", 1, "sluiced"},
      {"redis://h/?client_name=eu-1", "h:6379", "", "", 0, "eu-1"},
      {"unix:///run/redis.sock", "unix:/run/redis.sock", "", "", 0, "sluiced"},
      {"unix://app:pw@/run/r.sock?db=2&client_name=x", "unix:/run/r.sock", "app", "pw", 2, "x"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    const auto url = RedisUrl::Parse(row.text);
    ASSERT_TRUE(url) << url.error().message;
    EXPECT_EQ(url->address.ToString(), row.address);
    EXPECT_EQ(url->user, row.user);
    EXPECT_EQ(url->password, row.password);
    EXPECT_EQ(url->database, row.database);
    EXPECT_EQ(url->client_name, row.client_name);
    EXPECT_TRUE(url->password.empty() || url->ToString().find(url->password) == std::string::npos);
  }
}

TEST(RedisUrl, Parse_Mistakes_AreNamedWithoutThePassword) {
  struct Row {
    const char* text;
    const char* named;
  };
  const Row rows[] = {
      {"localhost:6379", "no known scheme"},
      {"http://h", "\"http\""},
      {"redis://", "host is empty"},
      {"redis://h:port", "port"},
      {"redis://h/x", "database \"x\""},
      {"redis://h/-1", "database \"-1\""},
      {"redis://user:@h", "password is empty"},
      {"redis://:hunter%2@h", "two hexadecimal digits"},
      {"redis://h?tls=1", "option \"tls=1\""},
      {"unix://relative", "begin with /"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    const auto url = RedisUrl::Parse(row.text);
    ASSERT_FALSE(url);
    EXPECT_NE(url.error().message.find(row.named), std::string::npos) << url.error().message;
    EXPECT_EQ(url.error().message.find("hunter"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice
