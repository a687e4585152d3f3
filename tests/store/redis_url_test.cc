#include "store/redis/redis_url.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(RedisUrl, Parse_ValidForms_AreAccepted) {
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
      {"redis://h?client_name=eu%401", "h:6379", "", "", 0, "eu@1"},
      // In a password, these characters need no escape: the last @ ends the login.
      {"redis://:p@ss/w#rd:1@h", "h:6379", "", "p@ss/w#rd:1", 0, "sluiced"},
      {"unix:///run/redis.sock", "unix:/run/redis.sock", "", "", 0, "sluiced"},
      {"unix://app:pw@/run/r.sock?db=2&client_name=x", "unix:/run/r.sock", "app", "pw", 2, "x"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    const auto url = RedisUrl::Parse(row.text);
    ASSERT_TRUE(url) << url.error().message;
    ASSERT_EQ(url->addresses.size(), 1);
    EXPECT_EQ(url->addresses[0].ToString(), row.address);
    const RedisLogin& login = url->login;
    EXPECT_EQ(login.user, row.user);
    EXPECT_EQ(login.password, row.password);
    EXPECT_EQ(login.database, row.database);
    EXPECT_EQ(login.client_name, row.client_name);
    EXPECT_TRUE(login.password.empty() ||
                url->ToString().find(login.password) == std::string::npos);
  }
}

TEST(RedisUrl, Parse_SeveralServers_AreAccepted) {
  using Kind = RedisUrl::Kind;
  struct Row {
    const char* text;
    Kind kind;
    bool tls;
    const char* shown;
    const char* sentinel_login;
  };
  const Row rows[] = {
      {"rediss://h", Kind::kSingle, true, "h:6379 (database 0)", ":"},
      {"redis+sentinel://a,b:1/m", Kind::kSentinel, false, "m (database 0; sentinels a:26379, b:1)",
       ":"},
      {"redis+sentinel://:pw@a/m%2Fn/3?sentinel_password=s%40%3F", Kind::kSentinel, false,
       "m/n (database 3; sentinels a:26379)", ":s@?"},
      {"rediss+sentinel://u:pw@[::1]:5/m?sentinel_user=w&sentinel_password=s&client_name=c",
       Kind::kSentinel, true, "m (database 0; sentinels [::1]:5)", "w:s"},
      {"redis+cluster://u:pw@a,[::1],b:7", Kind::kCluster, false,
       "cluster of a:6379, [::1]:6379, b:7", ":"},
      {"rediss+cluster://a/", Kind::kCluster, true, "cluster of a:6379", ":"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    const auto url = RedisUrl::Parse(row.text);
    ASSERT_TRUE(url) << url.error().message;
    EXPECT_EQ(url->kind, row.kind);
    EXPECT_EQ(url->tls, row.tls);
    EXPECT_EQ(url->ToString(), row.shown);
    EXPECT_EQ(url->sentinel_login.user + ":" + url->sentinel_login.password, row.sentinel_login);
  }
}

TEST(RedisUrl, Parse_Errors_AreReportedWithoutQuotingTheUrl) {
  struct Row {
    const char* text;
    const char* named;
  };
  const Row rows[] = {
      {"localhost:6379", "no known scheme"},
      {"hunter2@h", "no known scheme"},
      {"http://h", "no known scheme"},
      {"redis://", "host is empty"},
      {"redis://h:hunter2", "the port is wrong"},
      {"redis://hunter:1:2", "IPv6 in brackets"},
      {"redis://h/hunter", "database is not a number"},
      {"redis://h/-1", "database is not a number"},
      {"redis://hunter2@h", "password is empty"},
      {"redis://user:@h", "password is empty"},
      {"redis://:hunter%2@h", "two hexadecimal digits"},
      {"redis://:hunter%2?@h", "%3F"},
      {"redis://h?hunter=1", "an option is unknown"},
      {"redis://h?db=hunter", "database is not a number"},
      {"redis://h?client_name=%hunter", "client_name"},
      // In these passwords, characters that are not escaped split the URL at the wrong place.
      {"redis://:hun?ter@h", "? as %3F"},
      {"redis://:hun?ter@h", "an @ follows a ?"},
      {"redis://:hun?ter=1&db=2@h", "an @ follows a ?"},
      {"redis://:hunter@2?client_name=x@h", "an @ follows a ?"},
      {"redis://:hunter@2?db=1@h/1", "an @ follows a ?"},
      {"redis://user:hun?ter@h:6379/0", "an @ follows a ?"},
      {"redis://user:hun#ter", "# as %23"},
      {"redis://:hun/ter", "/ as %2F"},
      {"redis://:hunter2", "@ as %40"},
      {"redis:/:hunter2@h", "no known scheme"},
      {"unix://:hun?ter@/run/r.sock", "an @ follows a ?"},
      {"unix://:hunter2/run/r.sock", "begin with /"},
      {"unix://relative", "begin with /"},
      {"redis+sentinel://hunter", "name of the master is empty"},
      {"redis+sentinel://hunter//1", "name of the master is empty"},
      {"redis+sentinel://hun,,b/ter", "host is empty"},
      {"redis+sentinel://hun,b,/ter", "host is empty"},
      {"redis+cluster://hunter,", "host is empty"},
      {"redis+sentinel://hun/m/ter", "database is not a number"},
      {"redis+sentinel://a/m?sentinel_password=hun@ter", "an @ follows a ?"},
      {"redis+sentinel://a/m?sentinel_password=%hun", "% in sentinel_password"},
      {"redis+sentinel://a/m?sentinel_user=hunter", "without sentinel_password"},
      {"redis://a?sentinel_password=hunter", "an option is unknown"},
      {"redis+cluster://a/1", "a cluster has no databases"},
      {"redis+cluster://a?db=1", "a cluster has no databases"},
      {"rediss+hunter://a", "no known scheme"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    const auto url = RedisUrl::Parse(row.text);
    ASSERT_FALSE(url);
    EXPECT_NE(url.error().message.find(row.named), std::string::npos) << url.error().message;
    for (const char* part : {"hun", "ter@", "ter="}) {
      EXPECT_EQ(url.error().message.find(part), std::string::npos) << url.error().message;
    }
  }
}

}  // namespace
}  // namespace sluice
